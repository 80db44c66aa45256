"""Elements as Arrow record batches, and Parquet files."""
