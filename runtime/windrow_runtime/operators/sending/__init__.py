"""Finds objects in functions that cannot be sent to workers, and whether calls leave something on ``self``."""
