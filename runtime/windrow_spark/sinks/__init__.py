"""Writes the results of a batch to sinks."""
