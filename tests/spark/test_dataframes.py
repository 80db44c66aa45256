"""Spark's own sources, writers and SQL around our steps."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, assert_type

import pytest

from tests.spark.comparison import millis
from tests.spark.timed import timed
from windrow import DataStream, OutputTag, Pipeline, from_collection, from_dataframe
from windrow.errors import IncompatibleStateError, InvalidArgumentError, PlanError
from windrow.functions import AggregateFunction
from windrow.sinks import CollectSink
from windrow.sources import MalformedRecord
from windrow.windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner
from windrow_spark.session import SHUFFLE_PARTITIONS, settings_during

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Reading(NamedTuple):
    sensor: str
    at: datetime
    celsius: float


class Count(NamedTuple):
    sensor: str
    start: int
    readings: int


def counts(stream: DataStream[Reading]) -> DataStream[Count]:
    windows = timed(stream).key_by(lambda reading: reading.sensor).window(TumblingEventTimeWindows.of(millis(5000)))
    return windows.apply(lambda key, window, found: [Count(key, window.start, len(found))]).returns(Count)


def write(folder: Path, name: str, *seconds: int) -> None:
    folder.mkdir(exist_ok=True)
    lines = [f'{{"sensor": "roof", "second": {second}, "celsius": 1.5}}\n' for second in seconds]
    (folder / name).write_text("".join(lines))


def read(spark: SparkSession, folder: Path) -> DataFrame:
    frame = spark.readStream.schema("sensor string, second bigint, celsius double").json(str(folder))
    return frame.selectExpr("sensor", "timestamp_seconds(second) AS at", "celsius")


def append(frame: DataFrame, checkpoint: Path, out: Path) -> None:
    writer = frame.writeStream.format("parquet").option("path", str(out)).outputMode("append")
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def test_sql_in_front_and_behind_and_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """Windows of 5 s: 0..5 closes with 6, 5..10 with 11; what is open waits in the checkpoint.

    file  one    two
    s     1 2 6  7 11
    """
    incoming, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"

    def run() -> list[Any]:  # Any: rows of Spark
        stream = from_dataframe(read(spark, incoming), Reading)
        assert_type(stream, DataStream[Reading])
        frame = SparkRunner(spark, checkpoint=checkpoint).to_dataframe(counts(stream), name="counts")
        assert frame.isStreaming
        assert frame.schema.simpleString() == "struct<sensor:string,start:bigint,readings:bigint>"
        frame.createOrReplaceTempView("counts")
        append(spark.sql("SELECT upper(sensor) AS sensor, start, readings FROM counts"), checkpoint, out)
        return sorted(map(tuple, spark.read.parquet(str(out)).collect()))

    write(incoming, "1.json", 1, 2, 6)
    with settings_during(spark, {SHUFFLE_PARTITIONS: "1"}):
        assert run() == [("ROOF", 0, 2)]
        write(incoming, "2.json", 7, 11)
        assert run() == [("ROOF", 0, 2), ("ROOF", 5000, 2)]


class Warmest(AggregateFunction[Reading, list[float], float]):
    """The highest temperature; ``merge`` changes its first argument."""

    commutative = True

    def create_accumulator(self) -> list[float]:
        return []

    def add(self, value: Reading, accumulator: list[float]) -> list[float]:
        return [max([value.celsius, *accumulator])]

    def get_result(self, accumulator: list[float]) -> float:
        return accumulator[0]

    def merge(self, a: list[float], b: list[float]) -> list[float]:
        a[0] = max(a[0], b[0])
        return a


def test_rows_are_folded_where_they_are_read(spark: SparkSession) -> None:
    rows = spark.range(0, 4000, numPartitions=2).selectExpr(
        "concat('s', id % 3) AS sensor", "timestamp_millis(id) AS at", "CAST(id % 1000 AS double) AS celsius"
    )
    stream = timed(from_dataframe(rows, Reading))
    keyed = stream.key_by(lambda reading: reading.sensor)
    tumbling, sliding = CollectSink[float](), CollectSink[float]()
    pipeline = Pipeline(
        "warmest",
        keyed.window(TumblingEventTimeWindows.of(millis(2000))).aggregate(Warmest()).sink_to(tumbling),
        keyed.window(SlidingEventTimeWindows.of(millis(2000), millis(1000))).aggregate(Warmest()).sink_to(sliding),
    )
    forms = pipeline.explain(SparkRunner(spark))
    assert forms.count("partially aggregated before where that pays") == 2
    assert forms.count("slices shared by windows") == 1
    result = SparkRunner(spark).run_batch(pipeline)
    assert sorted(result.collected(tumbling)) == [998, 998, 999, 999, 999, 999]
    assert sorted(result.collected(sliding)) == sorted(
        max(number % 1000 for number in range(max(start, 0), min(start + 2000, 4000)) if number % 3 == sensor)
        for start in (-1000, 0, 1000, 2000, 3000)
        for sensor in range(3)
    )


def test_what_cannot_be_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    at = datetime(2024, 1, 1, tzinfo=UTC)
    stream = from_collection([Reading("roof", at, 1.5)])
    with pytest.raises(InvalidArgumentError, match="needs a checkpoint"):
        SparkRunner(spark).to_dataframe(stream)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    with pytest.raises(PlanError, match=r"returns(.|\n)*test_dataframes.py:\d+|test_dataframes.py:\d+(.|\n)*returns"):
        runner.to_dataframe(stream.map(lambda reading: [each.upper() for each in reading.sensor][-1]))
    wrong: Any = [1]  # what mypy refuses
    with pytest.raises(InvalidArgumentError, match="is made of a stream"):
        runner.to_dataframe(wrong)
    with pytest.raises(InvalidArgumentError, match="reads a Spark DataFrame"):
        from_dataframe(wrong, Reading)
    for batch in (False, True):
        with pytest.raises(InvalidArgumentError, match=r"nothing is reported(.|\n)*without on_progress"):
            SparkRunner(spark, on_progress=lambda progress: None).to_dataframe(stream, batch=batch)
    runner.run(Pipeline("other", counts(stream).sink_to(CollectSink[Count]())), drain=False)
    with pytest.raises(IncompatibleStateError, match="belongs to a run"):
        runner.to_dataframe(stream)


def test_rows_that_do_not_fit(spark: SparkSession) -> None:
    tag = OutputTag("bad", MalformedRecord)
    at = datetime(2024, 1, 1, tzinfo=UTC)
    frame = spark.createDataFrame([("a", at, 1.0), (None, at, 2.0)], "sensor string, at timestamp, celsius double")
    stream = from_dataframe(frame, Reading, on_malformed=tag, name="rows")
    good, bad = CollectSink[Reading](), CollectSink[MalformedRecord]()
    pipeline = Pipeline("rows", stream.sink_to(good), stream.get_side_output(tag).sink_to(bad))
    result = SparkRunner(spark).run_batch(pipeline)
    assert result.collected(good) == [Reading("a", at, 1.0)]
    assert "Reading.sensor" in result.collected(bad)[0].reason


def test_one_stream_in_two_dataframes_goes_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads it once, and notes for one source of two what was read."""
    write(tmp_path / "in", "1.json", 1)
    rows = read(spark, tmp_path / "in")
    for expected in ([1, 1], [2, 2]):
        sink = CollectSink[int]()
        first, second = (
            from_dataframe(rows, Reading).map(lambda reading: int(reading.at.timestamp())) for _ in range(2)
        )
        pipeline = Pipeline("twice", first.union(second).sink_to(sink))
        result = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").run(pipeline, drain=False)
        assert result.collected(sink) == expected
        write(tmp_path / "in", "2.json", 2)
