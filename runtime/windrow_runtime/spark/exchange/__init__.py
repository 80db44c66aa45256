"""Rows and values on their way between Python workers."""
