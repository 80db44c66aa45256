"""Writes Apache Iceberg tables."""
