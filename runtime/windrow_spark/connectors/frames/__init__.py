"""Reads and writes DataFrames of a Spark session."""
