"""Reads and writes files of text, JSON, CSV and Parquet."""
