"""Defines the keyed state that operators keep, for all engines."""
