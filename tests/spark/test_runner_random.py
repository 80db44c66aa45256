"""Spark gives what the interpreter gives: random windows over random elements, all in one plan."""

from __future__ import annotations

import random
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.spark.comparison import Event, Outputs, Seen, millis
from windrow import DataStream, KeyedStream, OutputTag, WatermarkStrategy, from_source
from windrow.evictors import CountEvictor, TimeEvictor
from windrow.functions import AggregateFunction
from windrow.sources import CollectionSource
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    PurgingTrigger,
)
from windrow.windowed import MergingWindowedStream, WindowedStream
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: windows and triggers of every kind.
Windows = WindowedStream[Event, str, Any] | MergingWindowedStream[Event, str, Any]
late = OutputTag("late", Event)


class Joined(AggregateFunction[Event, str, str]):
    def create_accumulator(self) -> str:
        return ""

    def add(self, value: Event, accumulator: str) -> str:
        return f"{accumulator},{value.value}"

    def get_result(self, accumulator: str) -> str:
        return accumulator

    def merge(self, a: str, b: str) -> str:
        return f"{a}+{b}"


def joined(a: Event, b: Event) -> Event:
    return Event(a.key, a.at + b.at, 31 * a.value + b.value)


def distance(a: Event, b: Event) -> float:
    return abs(b.at - a.at)


def events(rng: random.Random, count: int) -> list[Event]:
    spread = rng.choice([5, 50, 400])
    start = rng.choice([-1_000, 0, 10**12])
    return [
        Event(rng.choice("abcdefg"), start + number * 7 + rng.randrange(-spread, spread), number)
        for number in range(count)
    ]


def assigned(rng: random.Random, keyed: KeyedStream[Event, str]) -> tuple[Windows, bool]:
    """Windows, and whether they are in event time, with late elements in the side output."""
    size = rng.randrange(1, 120)
    windows: Windows
    match rng.choice(["tumbling", "sliding", "sliding", "session", "dynamic session", "global"]):
        case "tumbling":
            offset = millis(rng.randrange(size))
            windows = keyed.window(TumblingEventTimeWindows.of(millis(size), offset))
        case "sliding":
            slide = rng.randrange(5, 80)
            offset = millis(rng.randrange(slide))
            windows = keyed.window(SlidingEventTimeWindows.of(millis(size), millis(slide), offset))
        case "session":
            windows = keyed.window(EventTimeSessionWindows.with_gap(millis(size)))
        case "dynamic session":
            windows = keyed.window(EventTimeSessionWindows.with_dynamic_gap(partial(gap, size)))
        case _:
            return keyed.window(GlobalWindows.create()), False
    windows = windows.side_output_late_data(late)
    if rng.random() < 0.6:
        windows = windows.allowed_lateness(millis(rng.randrange(100)))
    return windows, True


def gap(size: int, event: Event) -> timedelta:
    return millis(1 + event.value * 13 % size)


def triggered(rng: random.Random, windows: Windows, *, has_end: bool) -> Windows:
    triggers: list[Any] = [
        None,
        EventTimeTrigger.create(),
        CountTrigger.of(rng.randrange(1, 4)),
        EndOfStreamTrigger.create(),
    ]
    if has_end:  # at the end of the stream, a window without an end would fire for ever
        triggers.append(ContinuousEventTimeTrigger.of(millis(rng.randrange(10, 60))))
    if isinstance(windows, WindowedStream):
        triggers.append(DeltaTrigger.of(20.0, distance))
    trigger = rng.choice(triggers)
    if trigger is not None:
        windows = windows.trigger(PurgingTrigger.of(trigger) if rng.random() < 0.3 else trigger)
    youngest = TimeEvictor.of(millis(30), do_evict_after=rng.random() < 0.5)
    evictor = rng.choice([None, None, None, CountEvictor.of(2), youngest])
    return windows if evictor is None else windows.evictor(evictor)


def computed(rng: random.Random, windows: Windows) -> DataStream[Any]:
    match rng.randrange(4):
        case 0:
            return windows.reduce(joined)
        case 1:
            return windows.reduce(joined, Seen())
        case 2:
            return windows.aggregate(Joined(), Seen())
        case _:
            return windows.process(Seen())


def key_of(element: Any) -> str:
    key: str = element.key if isinstance(element, Event) else element[0]
    return key


def test_random_windows(spark: SparkSession) -> None:
    rng = random.Random(20260105)
    outputs = Outputs()
    source = CollectionSource(events(rng, 180), Event, batch_size=rng.randrange(30, 60))
    delay = millis(rng.randrange(60))
    stream = from_source(source).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(delay), timestamp=lambda event: event.at
    )
    keyed = stream.key_by(lambda event: event.key)
    for number in range(12):
        windows, in_time = assigned(rng, keyed)
        first = computed(rng, triggered(rng, windows, has_end=in_time))
        outputs.add(f"{number}", first)
        if in_time:
            outputs.add(f"{number}, late", first.get_side_output(late))
        if rng.random() < 0.6:
            size = millis(rng.randrange(1, 200))
            second = first.key_by(key_of).window(TumblingEventTimeWindows.of(size)).process(Seen())
            outputs.add(f"{number}, again", second)
    pipeline = outputs.pipeline("random")
    local = LocalRunner().run(pipeline)
    result = SparkRunner(spark).run(pipeline)
    expected, found = outputs.of(local), outputs.of(result)
    assert sum(bool(elements) for elements in expected.values()) > 12
    for name, elements in expected.items():
        assert (name, found[name]) == (name, elements), pipeline.explain()
    assert result.counters == local.counters
