"""Writes tables: those of databases, of Delta Lake and of Iceberg."""
