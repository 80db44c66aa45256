"""Watermarks and timers of process functions, in runs batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.support.runs import in_order
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.functions import KeyedCoProcessFunction, KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.testing import PushSource, StreamHarness

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
    timed = in_order(from_source(CollectionSource([100, 50, 60], int, batch_size=1)), lambda number: number)
    return run(Pipeline("alarms", timed.key_by(lambda _: "a").process(Alarm()).sink_to(sink))).collected(sink)


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


class Silent(KeyedCoProcessFunction[str, int, int, int]):
    """Emits nothing."""

    def process_element1(self, value: int, context: KeyedProcessContext[str]) -> list[int]:
        return []

    def process_element2(self, value: int, context: KeyedProcessContext[str]) -> list[int]:
        return []


# clock         0     10     70     80     90
# north       @9     @20    @30    @40    @50          its watermark: 8, 19, 29, 39, 49
# south       @5      .      .    @25    @45          its watermark: 4, 4, idle, then 24 and 44
# union         4      4     29     39     44          south is behind at 80, and counts from 90 on
# connected     4      4     29     29     44          south counts as soon as it is back
@pytest.mark.parametrize(("connected", "expected"), [(False, [4, 4, 29, 39, 44]), (True, [4, 4, 29, 29, 44])])
def test_an_input_that_comes_back_behind_the_watermark(connected: bool, expected: list[int]) -> None:
    north, south = PushSource(int), PushSource(int)
    patient = WatermarkStrategy[int].for_monotonous_timestamps().with_idleness(timedelta(milliseconds=60))
    first, second = (
        from_source(source).assign_timestamps_and_watermarks(patient, timestamp=lambda number: number)
        for source in (north, south)
    )
    if connected:
        stream = first.connect(second).key_by(lambda _: "a", lambda _: "a").process(Silent())
    else:
        stream = first.union(second).key_by(lambda _: "a").reduce(lambda a, b: a + b)
    found: list[int] = []
    with StreamHarness(stream, north) as harness:
        for clock, here, there in ((0, 9, 5), (10, 20, None), (70, 30, None), (80, 40, 25), (90, 50, 45)):
            harness.set_processing_time(clock)
            harness.process_element(here)
            if there is not None:
                harness.process_element(there, source=south)
            found.append(harness.emit_watermarks())
    assert found == expected
