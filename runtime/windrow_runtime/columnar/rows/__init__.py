"""Columns of elements: expressions over them, groups and hashes of their rows."""
