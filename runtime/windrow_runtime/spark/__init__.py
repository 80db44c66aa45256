"""Runs pipelines on PySpark."""
