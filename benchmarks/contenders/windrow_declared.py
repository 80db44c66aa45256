"""windrow with declared aggregates alone: no Python function but selectors of fields."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from benchmarks.contenders.windrow_run import Sinks
from benchmarks.problems import COUNT, GAP_MS, LATENESS_MS, LONG_WINDOW_MS, SECOND_MS, SLIDE_MS, TOP, WINDOW_MS
from benchmarks.readings import Reading, SensorMean, SessionMean, WindowMean, WindowPeak, WindowStats, WindowTop
from windrow import DataStream, DataStreamSink, OutputTag
from windrow import aggregates as agg
from windrow.triggers import ContinuousEventTimeTrigger
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

__all__ = ["by_second", "chained", "count", "intervals", "lateness", "sessions", "sliding", "top", "tumbling"]

WINDOW = timedelta(milliseconds=WINDOW_MS)
LONG_WINDOW = timedelta(milliseconds=LONG_WINDOW_MS)


def tumbling(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """The mean over 5 s."""
    return [_means(readings).sink_to(sinks.results)]


def by_second(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """The mean over 1 s."""
    return [_means(readings, timedelta(milliseconds=SECOND_MS)).sink_to(sinks.results)]


def _means(readings: DataStream[Reading], size: timedelta = WINDOW) -> DataStream[WindowMean]:
    windows = readings.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(size))
    return windows.aggregate(
        agg.into(WindowMean, sensor=agg.key(), window_end=agg.window_end(), mean=agg.mean(lambda r: r.celsius))
    )


def sliding(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """The mean over 60 s, each 5 s."""
    slide = timedelta(milliseconds=SLIDE_MS)
    windows = readings.key_by(lambda r: r.sensor).window(SlidingEventTimeWindows.of(LONG_WINDOW, slide))
    means = windows.aggregate(
        agg.into(WindowMean, sensor=agg.key(), window_end=agg.window_end(), mean=agg.mean(lambda r: r.celsius))
    )
    return [means.sink_to(sinks.results)]


def sessions(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Count and mean of sessions."""
    gap = timedelta(milliseconds=GAP_MS)
    windows = readings.key_by(lambda r: r.sensor).window(EventTimeSessionWindows.with_gap(gap))
    means = windows.aggregate(
        agg.into(
            SessionMean,
            sensor=agg.key(),
            first_at=agg.window_start(),
            window_end=agg.window_end(),
            n=agg.count(),
            mean=agg.mean(lambda r: r.celsius),
        )
    )
    return [means.sink_to(sinks.results)]


def lateness(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Count and mean over 5 s; late readings fire a window again, those that are too late go to a side output."""
    late = OutputTag("late", Reading)
    stats = (
        readings.key_by(lambda r: r.sensor)
        .window(TumblingEventTimeWindows.of(WINDOW))
        .allowed_lateness(timedelta(milliseconds=LATENESS_MS))
        .side_output_late_data(late)
        .aggregate(
            agg.into(
                WindowStats,
                sensor=agg.key(),
                window_end=agg.window_end(),
                n=agg.count(),
                mean=agg.mean(lambda r: r.celsius),
            )
        )
    )
    return [stats.sink_to(sinks.results), stats.get_side_output(late).sink_to(sinks.late)]


def count(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Count and mean of each hundred readings."""
    windows = readings.key_by(lambda r: r.sensor).count_window(COUNT)
    means = windows.aggregate(
        agg.into(
            SensorMean,
            sensor=agg.key(),
            first_at=agg.min(lambda r: r.at),
            n=agg.count(),
            mean=agg.mean(lambda r: r.celsius),
        )
    )
    return [means.sink_to(sinks.results)]


def intervals(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Count and mean over 60 s, each 5 s of them, and at the end."""
    stats = (
        readings.key_by(lambda r: r.sensor)
        .window(TumblingEventTimeWindows.of(LONG_WINDOW))
        .trigger(ContinuousEventTimeTrigger.of(WINDOW))
        .aggregate(
            agg.into(
                WindowStats,
                sensor=agg.key(),
                window_end=agg.window_end(),
                n=agg.count(),
                mean=agg.mean(lambda r: r.celsius),
            )
        )
    )
    return [stats.sink_to(sinks.results)]


def top(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """The three highest values over 5 s; the window keeps no more than these."""
    windows = readings.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(WINDOW))
    highest = windows.aggregate(
        agg.into(
            WindowTop,
            sensor=agg.key(),
            window_end=agg.window_end(),
            top=agg.top_k(TOP, lambda r: r.celsius, lambda r: r.celsius),
        )
    )
    return [highest.sink_to(sinks.results)]


def chained(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """The mean over 5 s, and the highest of these over 60 s."""
    windows = _means(readings).key_by(lambda m: m.sensor).window(TumblingEventTimeWindows.of(LONG_WINDOW))
    peaks = windows.aggregate(
        agg.into(WindowPeak, sensor=agg.key(), window_end=agg.window_end(), peak=agg.max(lambda m: m.mean))
    )
    return [peaks.sink_to(sinks.results)]
