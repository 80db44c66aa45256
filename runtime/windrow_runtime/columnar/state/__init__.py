"""Rows of window state, in chunks and in pages."""
