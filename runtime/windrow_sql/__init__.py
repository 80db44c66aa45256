"""Writes tables: those of databases, and those of Delta Lake."""
