"""Kernels: declared aggregates that work on whole columns."""
