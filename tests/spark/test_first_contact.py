"""What Spark's users meet first: seconds for milliseconds, 200 shuffle partitions, a stream in place of a pipeline."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from windrow import Pipeline, WatermarkStrategy, from_collection
from windrow import aggregates as agg
from windrow.errors import InvalidArgumentError, WindrowWarning
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner
from windrow_spark.session import SHUFFLE_PARTITIONS, settings_during


class At(NamedTuple):
    at: int


def windowed(scale: int) -> Pipeline:
    counts = (
        from_collection([At(1_790_000_000 * scale), At(1_790_000_100 * scale)])
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5)), timestamp=lambda element: element.at
        )
        .key_by(lambda element: 0)
        .window(TumblingEventTimeWindows.of(timedelta(minutes=1)))
        .aggregate(agg.count())
    )
    return Pipeline("p", counts.sink_to(CollectSink()))


def test_epoch_seconds_in_place_of_milliseconds(spark: SparkSession) -> None:
    with pytest.warns(WindrowWarning, match="look like seconds") as caught:
        SparkRunner(spark).run_batch(windowed(1))
    assert [str(each.filename) for each in caught] == [__file__]


@pytest.mark.classic("a server's number of cores is not known")
def test_shuffle_partitions_that_are_too_many_for_one_machine(spark: SparkSession) -> None:
    cores = spark.sparkContext.defaultParallelism
    many = str(16 * cores + 1)
    with settings_during(spark, {SHUFFLE_PARTITIONS: many}):
        with pytest.warns(WindrowWarning, match=rf"given:    {many} shuffle partitions on {cores} cores") as caught:
            SparkRunner(spark).run_batch(windowed(1000))
        assert len(caught) == 1
        assert f"SparkRunner(partitions={cores})" in str(caught[0].message)
        # The user has chosen the number, which the session's does not overrule.
        SparkRunner(spark, partitions=2).run_batch(windowed(1000))


def test_a_stream_in_place_of_a_pipeline(spark: SparkSession) -> None:
    runner = SparkRunner(spark, checkpoint="unused")
    stream: Any = from_collection([1])
    for call in (runner.run, runner.start, runner.forms, SparkRunner(spark).run_batch):
        with pytest.raises(InvalidArgumentError, match="expected: a Pipeline"):
            call(stream)
