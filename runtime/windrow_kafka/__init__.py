"""Reads and writes Kafka topics."""
