"""Operators: what steps are at run time, whatever the engine."""
