"""Reads and writes checkpoint folders, and checks whether a run may go on from one."""
