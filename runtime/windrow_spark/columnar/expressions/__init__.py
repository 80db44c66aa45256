"""Computes on columns what functions compute of elements, without a Python object for each of them."""
