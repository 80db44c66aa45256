"""Checks calls: refuses unusable results, warns of values kept for later calls, knows the calls of other systems."""
