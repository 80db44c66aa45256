"""Reads the rate source of Spark."""
