"""Reads sources with Spark."""
