"""Writes batches to sinks, for both engines; the number of a batch prevents that it is written twice."""
