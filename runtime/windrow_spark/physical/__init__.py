"""Decides once how each keyed step and each sink of a pipeline runs: the physical plan."""
