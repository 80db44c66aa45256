"""Metrics of runs: those of users' functions, reports on batches, and what monitoring systems get of both."""
