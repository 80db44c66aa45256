"""What ``explain()`` shows: the steps of a plan as people and tools see them, in several formats."""
