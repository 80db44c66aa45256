"""windrow with declared aggregates alone: no Python function but selectors of fields.

Key and window are given by a ``ProcessWindowFunction``, which would be one. So the sensor is that of the first reading,
and windows are told apart by the times of their first and last readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow.compute as pc

from benchmarks.contenders.windrow_run import Sinks
from benchmarks.problems import COUNT, GAP_MS, LATENESS_MS, LONG_WINDOW_MS, SLIDE_MS, TOP, WINDOW_MS
from benchmarks.readings import Reading
from windrow import DataStream, DataStreamSink, OutputTag
from windrow import aggregates as agg
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

__all__ = ["by_window_end", "chained", "count", "lateness", "sessions", "sliding", "top", "tumbling"]

WINDOW = timedelta(milliseconds=WINDOW_MS)
LONG_WINDOW = timedelta(milliseconds=LONG_WINDOW_MS)


class MeanSince(NamedTuple):
    """An average, with the time of the earliest reading."""

    sensor: str | None
    first_at: int | None
    mean: float | None


class Summary(NamedTuple):
    """Count and average, with the times of the earliest and the latest reading."""

    sensor: str | None
    first_at: int | None
    last_at: int | None
    n: int
    mean: float | None


class TopSince(NamedTuple):
    """The highest values, with the time of the earliest reading."""

    sensor: str | None
    first_at: int | None
    top: list[float]


class PeakSince(NamedTuple):
    """The highest average, with the time of the earliest reading."""

    sensor: str | None
    first_at: int | None
    peak: float | None


def tumbling(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """The mean over 5 s."""
    windows = readings.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(WINDOW))
    means = windows.aggregate(
        agg.into(
            MeanSince,
            agg.first(lambda r: r.sensor),
            agg.min(lambda r: r.at),
            agg.mean(lambda r: r.celsius),
        )
    )
    return [means.sink_to(sinks.results)]


def sliding(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Count and mean over 60 s, each 5 s."""
    slide = timedelta(milliseconds=SLIDE_MS)
    windows = readings.key_by(lambda r: r.sensor).window(SlidingEventTimeWindows.of(LONG_WINDOW, slide))
    summaries = windows.aggregate(
        agg.into(
            Summary,
            agg.first(lambda r: r.sensor),
            agg.min(lambda r: r.at),
            agg.max(lambda r: r.at),
            agg.count(),
            agg.mean(lambda r: r.celsius),
        )
    )
    return [summaries.sink_to(sinks.results)]


def sessions(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Count and mean of sessions."""
    gap = timedelta(milliseconds=GAP_MS)
    windows = readings.key_by(lambda r: r.sensor).window(EventTimeSessionWindows.with_gap(gap))
    summaries = windows.aggregate(
        agg.into(
            Summary,
            agg.first(lambda r: r.sensor),
            agg.min(lambda r: r.at),
            agg.max(lambda r: r.at),
            agg.count(),
            agg.mean(lambda r: r.celsius),
        )
    )
    return [summaries.sink_to(sinks.results)]


def lateness(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Count and mean over 5 s; late readings fire a window again, those that are too late go to a side output."""
    late = OutputTag("late", Reading)
    summaries = (
        readings.key_by(lambda r: r.sensor)
        .window(TumblingEventTimeWindows.of(WINDOW))
        .allowed_lateness(timedelta(milliseconds=LATENESS_MS))
        .side_output_late_data(late)
        .aggregate(
            agg.into(
                Summary,
                agg.first(lambda r: r.sensor),
                agg.min(lambda r: r.at),
                agg.max(lambda r: r.at),
                agg.count(),
                agg.mean(lambda r: r.celsius),
            )
        )
    )
    return [summaries.sink_to(sinks.results), summaries.get_side_output(late).sink_to(sinks.late)]


def count(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Count and mean of each hundred readings."""
    windows = readings.key_by(lambda r: r.sensor).count_window(COUNT)
    summaries = windows.aggregate(
        agg.into(
            Summary,
            agg.first(lambda r: r.sensor),
            agg.min(lambda r: r.at),
            agg.max(lambda r: r.at),
            agg.count(),
            agg.mean(lambda r: r.celsius),
        )
    )
    return [summaries.sink_to(sinks.results)]


def top(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """The three highest values over 5 s; the window keeps no more than these."""
    windows = readings.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(WINDOW))
    highest = windows.aggregate(
        agg.into(
            TopSince,
            agg.first(lambda r: r.sensor),
            agg.min(lambda r: r.at),
            agg.top_k(TOP, lambda r: r.celsius, lambda r: r.celsius),
        )
    )
    return [highest.sink_to(sinks.results)]


def chained(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """The mean over 5 s, and the highest of these over 60 s."""
    means = (
        readings.key_by(lambda r: r.sensor)
        .window(TumblingEventTimeWindows.of(WINDOW))
        .aggregate(
            agg.into(
                MeanSince,
                agg.first(lambda r: r.sensor),
                agg.min(lambda r: r.at),
                agg.mean(lambda r: r.celsius),
            )
        )
    )
    peaks = (
        means.key_by(lambda m: m.sensor)
        .window(TumblingEventTimeWindows.of(LONG_WINDOW))
        .aggregate(
            agg.into(
                PeakSince,
                agg.first(lambda m: m.sensor),
                agg.min(lambda m: m.first_at),
                agg.max(lambda m: m.mean),
            )
        )
    )
    return [peaks.sink_to(sinks.results)]


# Any: an Arrow table; pyarrow ships no types.
def by_window_end(table: Any) -> Any:
    """Panes of windows of 5 s by the ends of their windows: late readings change the times of the first and last."""
    at = table["first_at"]
    start = pc.multiply(pc.divide(at, WINDOW_MS), WINDOW_MS)
    return table.drop_columns(["first_at", "last_at"]).append_column("window_end", pc.add(start, WINDOW_MS))
