"""Checks calls of users' functions: refuses unusable results, and warns of values that are kept for the next call."""
