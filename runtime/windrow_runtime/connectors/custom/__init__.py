"""Reads and writes the sources and sinks that users write themselves."""
