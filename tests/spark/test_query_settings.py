"""Settings that a query has for itself, and that the session does not keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.comparison import millis
from windrow import Pipeline, WatermarkStrategy, from_collection
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner
from windrow_runtime.spark.query import _PARTITIONS, QUERY_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGES = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def run(spark: SparkSession, folder: Path) -> list[str]:
    """Runs a query; gives the kinds of files that its state has."""
    stamped = from_collection([1, 2, 30]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda number: number
    )
    windows = stamped.key_by(lambda number: number % 2).window(TumblingEventTimeWindows.of(millis(10)))
    pipeline = Pipeline("settings", windows.reduce(lambda a, b: a + b).sink_to(CollectSink[int]()))
    SparkRunner(spark, checkpoint=folder, partitions=3).run(pipeline, drain=False)
    return sorted({file.suffix for file in folder.glob("spark/state/0/*/*") if file.is_file()})


def test_a_batch_writes_what_changed_and_the_session_stays_as_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = {name: spark.conf.get(name, None) for name in (*QUERY_SETTINGS, _PARTITIONS)}
    assert ".changelog" in run(spark, tmp_path)
    assert {name: spark.conf.get(name, None) for name in before} == before
    assert before[CHANGES] is None


def test_what_the_session_says_counts(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: spark.conf.unset(CHANGES))
    spark.conf.set(CHANGES, "false")
    assert ".changelog" not in run(spark, tmp_path)
    assert spark.conf.get(CHANGES) == "false"
