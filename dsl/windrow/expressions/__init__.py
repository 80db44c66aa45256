"""Recognises what a function computes of an element, as a tree that engines can compute without calling it."""
