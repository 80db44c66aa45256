"""Scopes on Spark: names of steps in counters, reports and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.comparison import Event, millis
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError
from windrow.functions import MapFunction, RuntimeContext
from windrow.sinks import CollectSink
from windrow.sources import CsvFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import PipelineProgress, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Counting(MapFunction[Event, Event]):
    """Counts elements under the name of its step."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.metrics.counter(f"seen by {runtime_context.step_name}")

    def map(self, value: Event) -> Event:
        self.seen.inc()
        return value


def sums(events: DataStream[Event], least: int = 0) -> DataStream[tuple[str, int]]:
    windows = (
        events.map(Counting(), name="count")
        .filter(lambda event: event.value >= least)
        .key_by(lambda event: event.key)
        .window(TumblingEventTimeWindows.of(millis(100)))
    )
    return windows.aggregate(agg.combine(agg.key(), agg.sum(lambda event: event.value))).returns(tuple[str, int])


class Sums:
    """A plan with two uses of one function, and the sinks that take their results."""

    def __init__(self, folder: Path, *, plain_first: bool = False) -> None:
        events = from_source(CsvFileSource(folder, Event)).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda event: event.at
        )
        self.sinks = [CollectSink[tuple[str, int]](name) for name in ("all", "some")]
        streams = [events.pipe(sums), events.pipe(sums, least=2)]
        ends = [stream.sink_to(sink) for stream, sink in zip(streams, self.sinks, strict=True)]
        if plain_first:
            ends.insert(0, sums(events).sink_to(CollectSink[tuple[str, int]]()))
        self.pipeline = Pipeline("scoped", *ends)


def write(folder: Path, name: str, *rows: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(["key,at,value", *rows, ""]))


ROWS = (["a,10,1", "a,20,2", "b,30,4"], ["a,150,8", "b,50,16", "b,199,32"])


def test_scopes_name_steps_and_a_checkpoint_goes_on_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    """Windows outside, which come first, have another state; the uses find theirs again."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write(folder, "1.csv", *ROWS[0])
    plan = Sums(folder)
    reports: list[PipelineProgress] = []
    runner = SparkRunner(spark, checkpoint=checkpoint, on_progress=reports.append)
    first = runner.run(plan.pipeline, drain=False)
    assert [first.collected(sink) for sink in plan.sinks] == [[], []]
    assert first.counters == LocalRunner().run(plan.pipeline).counters
    assert {name for counters in first.counters.values() for name in counters} == {
        *("seen by sums/count", "seen by sums#2/count")
    }
    assert {"scoped.6.sums/window", "scoped.12.sums#2/window"} <= set(reports[0].steps)

    write(folder, "2.csv", *ROWS[1])
    with pytest.raises(IncompatibleStateError, match=r"scoped\.6\.window, .* is new"):
        SparkRunner(spark, checkpoint=checkpoint).run(Sums(folder, plain_first=True).pipeline)
    again = Sums(folder)
    second = SparkRunner(spark, checkpoint=checkpoint).run(again.pipeline)
    whole = LocalRunner().run(again.pipeline)
    for sink in again.sinks:
        assert sorted(second.collected(sink)) == sorted(whole.collected(sink)) != []
