"""Converts elements to Arrow record batches and back, and reads and writes Parquet files."""
