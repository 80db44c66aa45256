"""The physical plan: how each keyed step and each sink of a pipeline runs, decided once."""
