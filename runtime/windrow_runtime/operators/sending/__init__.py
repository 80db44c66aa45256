"""Copies functions as pickle would, and finds objects in them that cannot be pickled."""
