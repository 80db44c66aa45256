"""Applies the error policies of steps."""
