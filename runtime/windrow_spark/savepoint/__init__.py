"""Writes savepoints, which hold the state of a pipeline apart from its partitions, and begins checkpoints from them."""
