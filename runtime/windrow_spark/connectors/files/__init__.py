"""Reads and writes files by Spark: the scanner, the writer, and what Spark itself reads."""
