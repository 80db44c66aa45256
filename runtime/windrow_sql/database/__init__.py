"""Writes tables of PostgreSQL and SQLite."""
