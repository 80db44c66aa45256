"""Measures the queries of Nexmark beside native Spark SQL and Flink SQL: ``python -m benchmarks.nexmark --measure``."""
