"""windrow with Python functions: an ``AggregateFunction``, and a ``ProcessWindowFunction`` that adds key and window.

With ``general=True`` a window has a trigger that no faster form knows, so that the general operator runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from benchmarks.contenders.windrow_run import Sinks
from benchmarks.problems import COUNT, GAP_MS, LATENESS_MS, LONG_WINDOW_MS, SECOND_MS, SLIDE_MS, WINDOW_MS
from benchmarks.readings import (
    Mean,
    Peak,
    Reading,
    Stats,
    StatsWithSensor,
    TopValues,
    WithMean,
    WithPeak,
    WithSession,
    WithStats,
)
from windrow import DataStream, DataStreamSink, OutputTag
from windrow.triggers import EventTimeTrigger
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

__all__ = ["by_second", "chained", "count", "lateness", "sessions", "sliding", "top", "tumbling"]

WINDOW = timedelta(milliseconds=WINDOW_MS)
LONG_WINDOW = timedelta(milliseconds=LONG_WINDOW_MS)


class OwnTrigger(EventTimeTrigger):
    """What a user's own trigger is to windrow: it does what the default one does, but only it can know that."""


def tumbling(readings: DataStream[Reading], sinks: Sinks, *, general: bool = False) -> Sequence[DataStreamSink]:
    """The mean over 5 s."""
    windows = readings.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(WINDOW))
    if general:
        windows = windows.trigger(OwnTrigger())
    return [windows.aggregate(Mean(), WithMean()).sink_to(sinks.results)]


def by_second(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """The mean over 1 s."""
    size = timedelta(milliseconds=SECOND_MS)
    windows = readings.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(size))
    return [windows.aggregate(Mean(), WithMean()).sink_to(sinks.results)]


def sliding(readings: DataStream[Reading], sinks: Sinks, *, general: bool = False) -> Sequence[DataStreamSink]:
    """The mean over 60 s, each 5 s."""
    slide = timedelta(milliseconds=SLIDE_MS)
    windows = readings.key_by(lambda r: r.sensor).window(SlidingEventTimeWindows.of(LONG_WINDOW, slide))
    if general:
        windows = windows.trigger(OwnTrigger())
    return [windows.aggregate(Mean(), WithMean()).sink_to(sinks.results)]


def sessions(readings: DataStream[Reading], sinks: Sinks, *, general: bool = False) -> Sequence[DataStreamSink]:
    """Count and mean of sessions."""
    gap = timedelta(milliseconds=GAP_MS)
    windows = readings.key_by(lambda r: r.sensor).window(EventTimeSessionWindows.with_gap(gap))
    if general:
        windows = windows.trigger(OwnTrigger())
    return [windows.aggregate(Stats(), WithSession()).sink_to(sinks.results)]


def lateness(readings: DataStream[Reading], sinks: Sinks, *, general: bool = False) -> Sequence[DataStreamSink]:
    """Count and mean over 5 s; late readings fire a window again, those that are too late go to a side output."""
    late = OutputTag("late", Reading)
    windows = (
        readings.key_by(lambda r: r.sensor)
        .window(TumblingEventTimeWindows.of(WINDOW))
        .allowed_lateness(timedelta(milliseconds=LATENESS_MS))
        .side_output_late_data(late)
    )
    if general:
        windows = windows.trigger(OwnTrigger())
    stats = windows.aggregate(Stats(), WithStats())
    return [stats.sink_to(sinks.results), stats.get_side_output(late).sink_to(sinks.late)]


def count(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Count and mean of each hundred readings."""
    windows = readings.key_by(lambda r: r.sensor).count_window(COUNT)
    return [windows.aggregate(Stats(), StatsWithSensor()).sink_to(sinks.results)]


def top(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """The three highest values over 5 s; the window keeps all its elements."""
    windows = readings.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(WINDOW))
    return [windows.process(TopValues()).sink_to(sinks.results)]


def chained(readings: DataStream[Reading], sinks: Sinks, *, general: bool = False) -> Sequence[DataStreamSink]:
    """The mean over 5 s, and the highest of these over 60 s."""
    first = readings.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(WINDOW))
    if general:
        first = first.trigger(OwnTrigger())
    means = first.aggregate(Mean(), WithMean())
    second = means.key_by(lambda m: m.sensor).window(TumblingEventTimeWindows.of(LONG_WINDOW))
    if general:
        second = second.trigger(OwnTrigger())
    return [second.aggregate(Peak(), WithPeak()).sink_to(sinks.results)]
