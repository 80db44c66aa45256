"""Reads elements and Arrow data that the program holds, and keeps the elements of ``CollectSink``."""
