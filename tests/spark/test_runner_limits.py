"""What only looks endless comes to an end."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.sinks import CollectSink, JsonFileSink
from windrow.sources import JsonFileSource
from windrow.triggers import ContinuousEventTimeTrigger
from windrow.windows import GlobalWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = timedelta(seconds=1)
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()


def stamped(stream: DataStream[int], strategy: WatermarkStrategy[int] = MONOTONOUS) -> DataStream[int]:
    return stream.assign_timestamps_and_watermarks(strategy, timestamp=lambda number: number)


def test_a_continuous_trigger_on_the_global_window_ends_with_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    taken = CollectSink[int]()
    pairs = JsonFileSink[tuple[int, str]](tmp_path / "pairs", overwrite=True)
    sums = (
        stamped(from_collection([1, 2, 3]))
        .key_by(lambda number: 0)
        .window(GlobalWindows.create())
        .trigger(ContinuousEventTimeTrigger.of(SECOND))
        .reduce(lambda a, b: a + b)
    )
    named = sums.map(lambda number: (number, "sum")).returns(tuple[int, str])
    pipeline = Pipeline("global", sums.sink_to(taken), named.sink_to(pairs))
    assert LocalRunner().run(pipeline).collected(taken) == [6]
    local = lines_of(tmp_path / "pairs")
    assert SparkRunner(spark).run(pipeline).collected(taken) == [6]
    # A tuple is an array in JSON whoever writes it, and reads back.
    assert lines_of(tmp_path / "pairs") == local == ['[6,"sum"]']
    source = JsonFileSource(tmp_path / "pairs", tuple[int, str])
    read = CollectSink[tuple[int, str]]()
    result = LocalRunner().run(Pipeline("read", from_source(source).sink_to(read)))
    assert result.collected(read) == [(6, "sum")]


def lines_of(folder: Path) -> list[str]:
    files = sorted([*folder.glob("batch-*.json"), *folder.glob("batch-*.txt")])
    return [line for file in files for line in file.read_text().splitlines()]
