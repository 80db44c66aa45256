"""Converts columns of elements to values, and groups and hashes their rows."""
