"""Stores keyed state as bytes, in pages of keys. Nothing here knows an engine."""
