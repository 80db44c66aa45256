"""Reads the lines that a server sends."""
