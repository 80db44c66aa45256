"""Packs rows and values that Python workers exchange, and the counts that they report."""
