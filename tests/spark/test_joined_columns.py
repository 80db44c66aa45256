"""Declared joins and several sources on columns: the interpreter, which knows no columns, says what is right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.spark.comparison import millis
from tests.spark.test_columns import Reading, as_csv, put, readings, stamped, summary, write
from windrow import DataStream, KeyedStream, Pipeline, from_source, joins
from windrow import aggregates as agg
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows
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


def take_celsius(reading: Reading) -> float:
    return reading.celsius


def take_at(reading: Reading) -> int:
    return reading.at


def take_number(reading: Reading) -> int | None:
    return reading.number


def joined(one: KeyedStream[Reading, str | None], *, celsius_of_left: bool = False) -> DataStream[Pair]:
    """A stream joined with itself."""
    celsius = joins.left(take_celsius) if celsius_of_left else joins.right(take_celsius)
    pairs = one.interval_join(one).between(millis(1), millis(30))
    return pairs.apply(joins.into(Pair, joins.key(), joins.left(take_at), celsius, joins.right(take_number)))


def streams(folder: Path) -> dict[str, DataStream[Any]]:
    fifty = TumblingEventTimeWindows.of(millis(50))
    one = stamped(readings(folder / "one"))
    pairs = joined(one.key_by(lambda r: r.sensor)).key_by(lambda p: p.sensor)
    # Two steps assign timestamps, so windrow keeps the watermark itself; the second source begins 100 ms later.
    both = one.union(stamped(readings(folder / "later", "drop"))).key_by(lambda r: r.sensor)
    odd = stamped(from_source(ParquetFileSource(folder / "odd", Reading))).key_by(lambda r: r.sensor)
    return {
        "behind a join": pairs.window(fifty).aggregate(
            agg.combine(agg.key(), agg.window_end(), agg.count(), agg.max(lambda p: p.celsius))
        ),
        "two sources": both.window(fifty).aggregate(summary()),
        "odd folders": odd.window(EventTimeSessionWindows.with_gap(millis(2))).aggregate(summary()),
    }


def test_columns_give_what_the_interpreter_gives(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "one", range(2))
    write(tmp_path / "later", range(1, 3))
    as_csv(tmp_path / "later")
    # Spark lists files by a format of its own, which has the first two columns; the next two are those of the files.
    for number, below in enumerate(("length=abc", "Path=7", "sensor=x", "number=1", "batch-0")):
        put(tmp_path / "odd", number, below)
    sinks = {name: CollectSink[Any]() for name in streams(tmp_path)}
    plan = Pipeline("joins", *(stream.sink_to(sinks[name]) for name, stream in streams(tmp_path).items()))

    def results(run: Any) -> dict[str, list[Any]]:
        result = run(plan)
        return {name: sorted(result.collected(sink), key=repr) for name, sink in sinks.items()}

    runner = SparkRunner(spark, partitions=1)
    explained = plan.explain(runner)
    assert explained.count("runs as columns") == 4
    assert "pairs as elements arrive" in explained
    expected = results(LocalRunner().run)
    assert all(len(found) > 20 for found in expected.values())
    # Spark passes over it, in every format: somebody will write it, under another name.
    (tmp_path / "odd" / "Path=7" / "empty.parquet").touch()
    assert results(runner.run) == expected
    # In a job nothing is late; the odd folders are one batch in any case.
    job = results(runner.run_batch)
    assert job == results(SparkRunner(spark, columnar=False).run_batch)
    assert job["odd folders"] == expected["odd folders"]
