"""Writes the results of a batch."""
