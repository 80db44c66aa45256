"""Data frames as sources and as results, on Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pytest

from tests.spark.timed import timed
from windrow import DataStream, Pipeline, from_arrow
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: derived types are unknown to a type checker.


def last(one: Any, other: Any) -> Any:
    return other


START = dt.datetime(2026, 3, 1, 12)
RIDES = pl.DataFrame(
    {
        "zone": pl.Series(["a", "b", "a", "b"], dtype=pl.Categorical),
        "at": [START + dt.timedelta(seconds=second) for second in (1, 2, 61, 70)],
        "price": [1.5, 2.5, None, 4.0],
        "tags": [["x"], [], ["y", "z"], None],
    }
)


def windows(rides: DataStream[Any], **size: int) -> Any:
    return timed(rides).key_by(lambda ride: ride.zone).window(TumblingEventTimeWindows.of(dt.timedelta(**size)))


def test_a_frame_of_polars_is_computed_on_columns_and_comes_back_as_one(spark: SparkSession) -> None:
    sink, runner = CollectSink[Any](), SparkRunner(spark)
    totals: Any = agg.combine(agg.key(), agg.count(), agg.sum(lambda ride: ride.price))
    rides = from_arrow(RIDES.drop("tags"), timezone="UTC")
    pipeline = Pipeline("rides", windows(rides, minutes=1).aggregate(totals).sink_to(sink))
    assert "runs as columns" in pipeline.explain(runner)
    local, result = LocalRunner().run(pipeline), runner.run_batch(pipeline)
    expected = [("a", 1, 1.5), ("a", 1, None), ("b", 1, 2.5), ("b", 1, 4.0)]
    assert sorted(result.to_polars(sink).rows(), key=repr) == sorted(local.to_polars(sink).rows(), key=repr)
    assert sorted(result.collected(sink), key=repr) == sorted(expected, key=repr)
    assert list(map(str, result.to_pandas(sink).dtypes)) == ["object", "int64", "float64"]


def test_derived_types_are_exchanged_between_workers(spark: SparkSession) -> None:
    """Two types of one name, which steps with keys keep as they are."""
    rides = from_arrow(RIDES, timezone="UTC")
    zones = from_arrow(pd.DataFrame({"zone": ["a", "b"], "name": ["north", "south"]}))
    named = rides.key_by(lambda ride: ride.zone).max_by(lambda ride: ride.at)
    joined = rides.union(zones).key_by(lambda row: row.zone).reduce(last)
    sinks = [CollectSink[Any](), CollectSink[Any]()]
    pipeline = Pipeline("rides", named.sink_to(sinks[0]), joined.sink_to(sinks[1]))
    local = LocalRunner().run(pipeline)
    for result in (SparkRunner(spark, columnar=columnar).run_batch(pipeline) for columnar in (True, False)):
        for sink in sinks:
            found = result.collected(sink)
            assert sorted(found, key=repr) == sorted(local.collected(sink), key=repr) != []
            assert {type(row) for row in found} == {type(row) for row in local.collected(sink)}


def test_a_run_goes_on_from_the_state_of_derived_types(spark: SparkSession, tmp_path: Path) -> None:
    def latest(frame: Any) -> Pipeline:
        return Pipeline("rides", windows(from_arrow(frame, timezone="UTC"), hours=1).reduce(last).sink_to(sink))

    sink = CollectSink[Any]()
    runner = SparkRunner(spark, checkpoint=tmp_path, partitions=1)
    assert runner.run(latest(RIDES), drain=False).collected(sink) == []
    with pytest.raises(IncompatibleStateError, match=r"record type: Row\.price was float \| None and is str"):
        runner.run(latest(RIDES.with_columns(price=pl.lit("x"))))
    found = runner.run(latest(RIDES)).collected(sink)
    assert sorted((row.zone, row.price, row.tags) for row in found) == [("a", None, ["y", "z"]), ("b", 4.0, None)]
