"""Gives queries of native Spark SQL the settings of Spark's that windrow gives its own queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from windrow_spark.session import MOUNTED_SETTINGS, QUERY_SETTINGS

__all__ = ["tuned"]


@contextmanager
def tuned(spark: SparkSession) -> Iterator[None]:
    """Set them in the session while a query starts: it keeps the settings that it was started with."""
    settings = {**QUERY_SETTINGS, **MOUNTED_SETTINGS}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)
