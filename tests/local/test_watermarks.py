"""Watermarks and timers of process functions, in runs batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pytest

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.outcome import PipelineResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Seen: TypeAlias = tuple[str, int]
Run: TypeAlias = Callable[[Pipeline], PipelineResult]


class Alarm(KeyedProcessFunction[str, int, Seen]):
    """Sets a timer at each element's time."""

    def process_element(self, value: int, context: KeyedProcessContext[str]) -> Iterator[Seen]:
        context.timer_service.register_event_time_timer(value)
        yield "element", value

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterator[Seen]:
        yield "timer", timestamp


def rings(run: Run) -> list[Seen]:
    sink = CollectSink[Seen]()
    numbers = from_source(CollectionSource([100, 50, 60], int, batch_size=1))
    timed = numbers.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda number: number
    )
    alarms = timed.key_by(lambda _: "a").process(Alarm())
    return run(Pipeline("alarms", alarms.sink_to(sink))).collected(sink)


# batch       1      2      3      end
# element     100    50     60
# watermark   none   99     99     99, then the end of time
# timers             50 is behind the watermark, so it waits for the next one
RINGS = [("element", 100), ("element", 50), ("element", 60), ("timer", 50), ("timer", 60), ("timer", 100)]


def test_a_timer_behind_the_watermark_waits_for_the_next_one() -> None:
    assert rings(LocalRunner().run) == RINGS
    assert rings(LocalRunner(fast=False).run) == RINGS


@pytest.mark.spark
def test_so_it_does_on_spark(spark: SparkSession) -> None:
    from windrow_runtime.spark import SparkRunner

    assert rings(SparkRunner(spark).run) == RINGS
