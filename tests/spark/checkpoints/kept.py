"""A pipeline whose checkpoint is kept, so that every later windrow proves that it can read it. Do not change it.

A change that no checkpoint of its own survives needs a new pipeline beside this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.spark.comparison import Outputs, millis
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.functions import (
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessWindowContext,
    ProcessWindowFunction,
)
from windrow.sources import CollectionSource
from windrow.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from windrow.windows import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows

__all__ = ["HALF", "READINGS", "pipeline"]


@dataclass(frozen=True)
class Reading:
    sensor: str
    at: int
    celsius: float


class Peak(NamedTuple):
    at: int
    celsius: float


# Every fifth one comes 400 ms late: some behind the end of their windows, some within the lateness of sessions.
READINGS = [Reading("abc"[n % 3], n * 40 - (400 if n % 5 == 4 else 0), float(n * 7 % 11)) for n in range(48)]
HALF = 24
_BATCH = 4

late = OutputTag("late", Reading)


class Sessions(ProcessWindowFunction[Reading, tuple[str, int, int, int, list[float]], str, TimeWindow]):
    """Tells each firing of a session, with how many there were before."""

    firings = ValueStateDescriptor("firings", int)

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]
    ) -> Iterable[tuple[str, int, int, int, list[float]]]:
        seen = context.global_state.get_state(self.firings)
        before = seen.value() or 0
        seen.update(before + 1)
        window = context.window
        yield (key, window.start, window.end, before, [reading.celsius for reading in elements])


class Watch(KeyedProcessFunction[str, Reading, tuple[str, int, float, list[int], int]]):
    """Tells a sensor's peak, its last times and how often each degree was seen, 100 ms after each reading."""

    peak = ValueStateDescriptor("peak", Peak)
    times = ListStateDescriptor("times", int)
    degrees = MapStateDescriptor("degrees", int, int)

    def process_element(
        self, value: Reading, context: KeyedProcessContext[str]
    ) -> Iterable[tuple[str, int, float, list[int], int]]:
        peak = context.get_state(self.peak)
        known = peak.value()
        if known is None or known.celsius < value.celsius:
            peak.update(Peak(value.at, value.celsius))
        times = context.get_state(self.times)
        times.update([*times.get()[-2:], value.at])
        degrees = context.get_state(self.degrees)
        degree = int(value.celsius)
        degrees.put(degree, (degrees.get(degree) or 0) + 1)
        context.timer_service.register_event_time_timer(value.at + 100)
        return ()

    def on_timer(
        self, timestamp: int, context: OnTimerContext[str]
    ) -> Iterable[tuple[str, int, float, list[int], int]]:
        known = context.get_state(self.peak).value()
        assert isinstance(known, Peak)
        times = context.get_state(self.times).get()
        most = max(count for _, count in context.get_state(self.degrees).items())
        yield (context.key, timestamp, known.celsius, times, most)


def pipeline(readings: Sequence[Reading]) -> tuple[Pipeline, Outputs]:
    """The pipeline over the first so many readings, which are read four at a time."""
    outputs = Outputs()
    keyed = (
        from_source(CollectionSource(readings, batch_size=_BATCH))
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(millis(50)), timestamp=lambda reading: reading.at
        )
        .key_by(lambda reading: reading.sensor, str)
    )
    coldest = (
        keyed.window(TumblingEventTimeWindows.of(millis(300)))
        .side_output_late_data(late)
        .reduce(lambda a, b: a if a.celsius <= b.celsius else b, name="coldest")
    )
    outputs.add("coldest", coldest.map(lambda reading: (reading.sensor, reading.at, reading.celsius)))
    outputs.add("late", coldest.get_side_output(late).map(lambda reading: (reading.sensor, reading.at)))
    sessions = keyed.window(EventTimeSessionWindows.with_gap(millis(130))).allowed_lateness(millis(200))
    outputs.add("sessions", sessions.process(Sessions(), name="sessions"))
    outputs.add("watch", keyed.process(Watch(), name="watch"))
    outputs.add("sum", keyed.sum(lambda reading: reading.celsius, name="sum"))
    # A second level: the peaks of all sensors, from what the windows gave.
    outputs.add(
        "of all",
        coldest.key_by(lambda reading: 0, int)
        .window(TumblingEventTimeWindows.of(millis(600)))
        .apply(lambda key, window, found: [(key, window.end, sorted(reading.at for reading in found))]),
    )
    return outputs.pipeline("kept"), outputs
