"""Reads several sources one after the other, as one."""
