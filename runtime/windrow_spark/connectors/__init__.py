"""Reads and writes on Spark the sources and sinks that ``windrow_runtime.connectors`` has."""
