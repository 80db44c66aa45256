"""Spark: each step of a script is a micro-batch of a real query."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance.batch_engine import BatchEngine
from tests.spark.session import embedded_session
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def started_engine() -> Iterator[BatchEngine]:
    """The engine with a session of its own."""
    with tempfile.TemporaryDirectory(prefix="windrow-conformance-") as folder, embedded_session(Path(folder)) as spark:
        yield spark_engine(spark)


def spark_engine(spark: SparkSession) -> BatchEngine:
    """The engine on a session."""

    def start(checkpoint: Path, clock: Callable[[], int]) -> SparkRunner:
        return SparkRunner(spark, checkpoint=checkpoint, clock=clock)

    return BatchEngine(start)
