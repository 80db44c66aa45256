"""Vectorised windows over Arrow: what declared aggregates compute, on whole columns instead of row by row.

Its modules import numpy and pyarrow, which come with the extra ``spark``.
"""
