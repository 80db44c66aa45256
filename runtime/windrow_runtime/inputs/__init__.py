"""Reads sources for both engines: readers of files, and calls of users' own sources."""
