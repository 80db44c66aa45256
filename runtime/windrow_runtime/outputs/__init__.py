"""Writes sinks for both engines, each batch with its number."""
