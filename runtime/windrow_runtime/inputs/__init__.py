"""Reads sources for both engines: the readers of files, and the calls of users' own sources."""
