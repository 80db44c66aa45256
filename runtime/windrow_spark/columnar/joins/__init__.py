"""Joins of two streams over columns."""
