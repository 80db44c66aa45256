"""Joins two streams over columns."""
