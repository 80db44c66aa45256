"""Bounded pipelines as Spark batch jobs: the result is that of one micro-batch, drained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.spark.comparison import Event, Outputs, Seen, millis
from tests.spark.test_runner_equality import events, everything
from tests.spark.timed import timed
from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection, from_dataframe, from_source
from windrow.errors import InvalidArgumentError, MalformedRecordError, UnsupportedOperationError, UserFunctionError
from windrow.sinks import CollectSink, FunctionSink, JsonFileSink, WriterSink
from windrow.sources import CollectionSource, JsonFileSource, RateRecord, RateSource
from windrow.windows import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_WATERMARKS = WatermarkStrategy[Event].no_watermarks()


class Sum(NamedTuple):
    key: str
    start: int
    total: int


def sums(stream: DataStream[Event]) -> DataStream[Sum]:
    windows = timed(stream).key_by(lambda event: event.key).window(TumblingEventTimeWindows.of(millis(100)))
    return windows.apply(
        lambda key, window, found: [Sum(key, window.start, sum(event.value for event in found))]
    ).returns(Sum)


def test_every_kind_of_step(spark: SparkSession) -> None:
    # time        elements of both sources ...        | end
    # watermark   none                                | end of time: all that is open fires
    outputs, pipeline = everything(None, None, NO_WATERMARKS)
    expected = LocalRunner().run(pipeline)
    wanted = outputs.of(expected)
    empty = {name for name, found in wanted.items() if not found}
    assert empty == {"late for sessions", "late for counted", "late for the second"}
    result = SparkRunner(spark).run_batch(pipeline)
    found = outputs.of(result)
    for name, elements in wanted.items():
        assert (name, found[name]) == (name, elements)
    assert result.counters == expected.counters


def test_a_plan_with_watermarks_gives_the_same_windows_as_a_run_over_batches(spark: SparkSession) -> None:
    sink = CollectSink[Sum]()
    source = CollectionSource(sorted(events(3, 60, 0), key=lambda event: event.at), Event, batch_size=20)
    pipeline = Pipeline("sums", sums(from_source(source)).sink_to(sink))
    over_batches = LocalRunner().run(pipeline).collected(sink)
    assert len(over_batches) > 10
    assert sorted(SparkRunner(spark).run_batch(pipeline).collected(sink)) == sorted(over_batches)


def test_files_dataframes_and_sinks(spark: SparkSession, tmp_path: Path) -> None:
    incoming, out = tmp_path / "in", tmp_path / "out"
    incoming.mkdir()
    for name, at in (("a", 10), ("b", 20)):
        (incoming / f"{name}.json").write_text(json.dumps({"key": name, "at": at, "value": at}) + "\n")
    frame = spark.createDataFrame([("c", 120, 7), ("c", 130, 8)], "key string, at bigint, value bigint")
    stream = sums(from_source(JsonFileSource(incoming, Event)).union(from_dataframe(frame, Event)))
    taken: list[tuple[int, list[Sum]]] = []

    def take(batch: int, elements: Sequence[Sum]) -> None:
        taken.append((batch, sorted(elements)))

    wanted = [Sum("a", 0, 10), Sum("b", 0, 20), Sum("c", 100, 15)]
    pipeline = Pipeline("sinks", stream.sink_to(FunctionSink(take)), stream.sink_to(JsonFileSink(out, overwrite=True)))
    for _ in range(2):
        SparkRunner(spark).run_batch(pipeline)
        files = [entry for entry in out.iterdir() if not entry.name.startswith((".", "_"))]
        assert all(file.name.startswith("batch-0-part-") for file in files)
        lines = [line for file in files for line in file.read_text().splitlines()]
        assert sorted(Sum(**json.loads(line)) for line in lines) == wanted
    assert taken == [(0, wanted), (0, wanted)]

    static = SparkRunner(spark).to_dataframe(stream, batch=True)
    assert not static.isStreaming
    assert sorted(Sum(*row) for row in static.where("total > 10").collect()) == wanted[1:]


def test_what_a_batch_job_refuses(spark: SparkSession, tmp_path: Path) -> None:
    runner = SparkRunner(spark)
    numbers = from_collection([1, 0])
    endless = from_source(RateSource()).sink_to(CollectSink[RateRecord]())
    with pytest.raises(UnsupportedOperationError, match=r"come to an end(.|\n)*test_batch.py:\d+"):
        runner.run_batch(Pipeline("endless", endless))
    windows = numbers.key_by(lambda number: number).window(TumblingProcessingTimeWindows.of(millis(5)))
    by_clock = Pipeline("clock", windows.process(Seen()).sink_to(CollectSink()))
    with pytest.raises(UnsupportedOperationError, match=r"waits for the clock(.|\n)*test_batch.py:\d+"):
        runner.run_batch(by_clock)
    writing = Pipeline("writer", numbers.sink_to(WriterSink(lambda frame: frame.writeStream)))
    with pytest.raises(UnsupportedOperationError, match="writes streams only"):
        runner.run_batch(writing)
    with pytest.raises(InvalidArgumentError, match="keeps no progress"):
        SparkRunner(spark, checkpoint=tmp_path).run_batch(Pipeline("kept", numbers.sink_to(CollectSink[int]())))
    with pytest.raises(InvalidArgumentError, match=r"keeps no progress(.|\n)*batch=True"):
        SparkRunner(spark, checkpoint=tmp_path).to_dataframe(numbers, batch=True)


def test_errors(spark: SparkSession, tmp_path: Path) -> None:
    inverse = from_collection([1, 0]).map(lambda number: 1 / number).key_by(lambda number: number)
    outputs = Outputs()
    outputs.add("inverse", inverse.count_window(1).process(Seen()))
    with pytest.raises(UserFunctionError, match="ZeroDivisionError: division by zero") as caught:
        SparkRunner(spark).run_batch(outputs.pipeline("inverse"))
    assert f"inverse.2.map, {__file__}:" in str(caught.value.where)
    (tmp_path / "bad.json").write_text("{}\n")
    bad = from_source(JsonFileSource(tmp_path, Event))
    with pytest.raises(MalformedRecordError, match=r"bad\.json"):
        SparkRunner(spark).run_batch(Pipeline("bad", bad.sink_to(CollectSink[Event]())))
