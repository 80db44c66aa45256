"""Operators run the steps of a plan; both engines use the same ones."""
