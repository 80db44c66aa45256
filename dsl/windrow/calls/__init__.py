"""Checks calls of users: refuses unusable results, warns of values kept for the next call, knows other systems' calls."""
