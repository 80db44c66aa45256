"""Kills a running pipeline, and starts it again: ``python -m tests.crash --kills N``."""
