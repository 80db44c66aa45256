"""Columns of elements, and the groups, keys and hashes of their rows."""
