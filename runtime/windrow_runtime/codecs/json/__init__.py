"""Reads and writes elements as JSON lines."""
