"""Writes Delta Lake tables."""
