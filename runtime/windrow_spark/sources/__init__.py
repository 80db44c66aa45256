"""Reads sources by Spark, and runs the first stage of a query."""
