"""Runs keyed steps in Spark's stateful processors."""
