"""Declared joins on Spark: the interpreter, which knows no columns, says what is right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from tests.spark.comparison import millis
from tests.spark.test_columns import Reading, readings, stamped, write
from windrow import DataStream, Pipeline, joins
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: results of every type.


class Pair(NamedTuple):
    sensor: str | None
    at: int
    celsius: float
    number: int | None


def near(folder: Path, other: Path) -> DataStream[Pair]:
    """Readings of two folders that are near in time."""
    one, two = (stamped(readings(each)).key_by(lambda r: r.sensor) for each in (folder, other))
    return (
        one.interval_join(two)
        .between(millis(-5), millis(30))
        .apply(
            joins.into(
                Pair,
                joins.key(),
                joins.left(lambda r: r.at),
                joins.right(lambda r: r.celsius),
                joins.right(lambda r: r.number),
            )
        )
    )


def in_windows(folder: Path, other: Path) -> DataStream[Any]:
    """Readings of two folders that share a window, or are alone in one."""
    one, two = (stamped(readings(each)).filter(lambda r: r.celsius > 60) for each in (folder, other))
    windows = (
        one.full_join(two)
        .where(lambda r: r.sensor)
        .equal_to(lambda r: r.sensor)
        .window(SlidingEventTimeWindows.of(millis(40), millis(20)))
    )
    found: DataStream[Any] = windows.apply(
        joins.into(
            lambda *values: values, joins.key(), joins.left_or_none(lambda r: r.at), joins.right_or_none(lambda r: r.at)
        )
    )
    return found


def behind(folder: Path, other: Path) -> DataStream[Any]:
    """What takes the results of a join as columns, and joins a stream with itself."""
    one = stamped(readings(folder)).key_by(lambda r: r.sensor)
    pairs = (
        one.interval_join(one)
        .between(millis(1), millis(9))
        .apply(
            joins.into(
                Pair,
                joins.key(),
                joins.left(lambda r: r.at),
                joins.right(lambda r: r.celsius),
                joins.left(lambda r: r.number),
            )
        )
    )
    windows = pairs.key_by(lambda p: p.sensor).window(TumblingEventTimeWindows.of(millis(50)))
    return windows.aggregate(agg.combine(agg.key(), agg.window_end(), agg.count(), agg.max(lambda p: p.celsius)))


def sorted_results(result: Any, sink: CollectSink[Any]) -> list[Any]:
    return sorted(result.collected(sink), key=repr)


def test_columns_give_what_the_interpreter_gives(spark: SparkSession, tmp_path: Path) -> None:
    folders = tmp_path / "one", tmp_path / "other"
    write(folders[0], range(3))
    write(folders[1], range(10, 13))
    for file in folders[1].glob("*.parquet"):
        # Of the same times as those of the first stream.
        modified, table = file.stat().st_mtime, pq.read_table(file)
        ats = [at - 1_000 for at in table["at"].to_pylist()]
        pq.write_table(table.set_column(table.schema.get_field_index("at"), "at", [ats]), file)
        os.utime(file, (modified, modified))
    sinks = [CollectSink[Any]() for _ in range(3)]
    builds = near, in_windows, behind
    plan = Pipeline("joins", *(build(*folders).sink_to(sink) for build, sink in zip(builds, sinks, strict=True)))
    runner = SparkRunner(spark)
    explained = plan.explain(runner)
    assert explained.count("runs as columns") == 4
    assert "pairs as elements arrive" in explained
    expected = LocalRunner().run(plan)
    found = runner.run(plan)
    for sink in sinks:
        assert len(expected.collected(sink)) > 20
        assert sorted_results(found, sink) == sorted_results(expected, sink)


def joined(folder: Path, sink: Any, *, celsius_of_left: bool = False) -> Pipeline:
    one = stamped(readings(folder)).key_by(lambda r: r.sensor)
    celsius = joins.left(take_celsius) if celsius_of_left else joins.right(take_celsius)
    pairs = (
        one.interval_join(one)
        .between(millis(1), millis(30))
        .apply(joins.into(Pair, joins.key(), joins.left(take_at), celsius, joins.right(take_number)))
    )
    return Pipeline("joined", pairs.sink_to(sink))


def take_celsius(reading: Reading) -> float:
    return reading.celsius


def take_at(reading: Reading) -> int:
    return reading.at


def take_number(reading: Reading) -> int | None:
    return reading.number


def test_joins_go_on_from_a_checkpoint_and_into_files(spark: SparkSession, tmp_path: Path) -> None:
    folder, files = tmp_path / "in", ParquetFileSink[Pair](str(tmp_path / "out"))
    write(folder, range(2))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    runner.run(joined(folder, files), drain=False)
    with pytest.raises(IncompatibleStateError, match="the columns of its state were"):
        runner.run(joined(folder, files, celsius_of_left=True))
    write(folder, range(2, 4))
    runner.run(joined(folder, files))
    whole = CollectSink[Any]()
    expected = LocalRunner().run(joined(folder, whole))
    rows = pq.read_table(tmp_path / "out").to_pylist()
    found = sorted([Pair(*(row[name] for name in Pair._fields)) for row in rows], key=repr)
    assert found == sorted_results(expected, whole)
    assert len(found) > 100
