"""Traces functions of an element into expressions, trees that engines can compute without calling the function."""
