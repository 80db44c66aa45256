"""Codecs write elements as Arrow batches, JSON and CSV texts, and read them back; keys get a stable hash.

Everything starts from :func:`~windrow_runtime.codecs.record_type.record_type`, which reads an annotation into columns.
Only the modules in ``arrow`` import pyarrow, and none imports pyspark before a function needs it.
"""
