"""Prints elements."""
