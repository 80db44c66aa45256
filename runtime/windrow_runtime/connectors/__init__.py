"""Reads and writes: a folder for each kind of source or sink, which entry points name. Nothing else names them."""
