"""windrow with panes: results that are refined early, on time and late, by declared aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.contenders.windrow_declared import WINDOW
from benchmarks.contenders.windrow_run import Sinks
from benchmarks.problems import EARLY_COUNT, EARLY_MS, LATENESS_MS
from benchmarks.readings import Reading, WindowStats
from windrow import DataStream, DataStreamSink, OutputTag
from windrow import aggregates as agg
from windrow.panes import AccumulationMode, OnTimeBehavior
from windrow.triggers import MergingTrigger, after_count, after_processing_time, after_watermark
from windrow.windows import TimeWindow, TumblingEventTimeWindows

__all__ = ["added_up", "by_clock", "by_count", "discarding", "netted", "on_time", "retracting", "retracting_by_count"]

# Any in this module: Arrow tables; pyarrow ships no types.

_LATE = OutputTag("late", Reading)
_CLOCK = after_processing_time(timedelta(milliseconds=EARLY_MS))
_COUNT = after_count(EARLY_COUNT)


def on_time(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """A result on time, and one for each late reading."""
    return _written(_stats(readings, None), sinks)


def by_clock(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Early results by the clock as well."""
    return _written(_stats(readings, _CLOCK), sinks)


def by_count(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Early results by count as well."""
    return _written(_stats(readings, _COUNT), sinks)


def discarding(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Early results by the clock; each pane has the readings since the one before."""
    return _written(_stats(readings, _CLOCK, AccumulationMode.DISCARDING), sinks)


def retracting(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Early results by the clock; each pane withdraws the one before."""
    return _logged(_stats(readings, _CLOCK, AccumulationMode.RETRACTING), sinks)


def retracting_by_count(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
    """Early results by count; each pane withdraws the one before."""
    return _logged(_stats(readings, _COUNT, AccumulationMode.RETRACTING), sinks)


def _stats(
    readings: DataStream[Reading],
    early: MergingTrigger[Reading, TimeWindow] | None,
    mode: AccumulationMode = AccumulationMode.ACCUMULATING,
) -> DataStream[WindowStats]:
    windows = (
        readings.key_by(lambda r: r.sensor)
        .window(TumblingEventTimeWindows.of(WINDOW))
        .trigger(after_watermark(early=early, late=after_count(1)))
        .allowed_lateness(timedelta(milliseconds=LATENESS_MS))
        .side_output_late_data(_LATE)
    )
    if mode is AccumulationMode.DISCARDING:
        # The mean of no readings would be none.
        windows = windows.on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY)
    modes = {
        AccumulationMode.ACCUMULATING: windows.accumulating,
        AccumulationMode.DISCARDING: windows.discarding,
        AccumulationMode.RETRACTING: windows.retracting,
    }
    return modes[mode]().aggregate(
        agg.into(
            WindowStats,
            sensor=agg.key(),
            window_end=agg.window_end(),
            n=agg.count(),
            mean=agg.mean(lambda r: r.celsius),
        )
    )


def _written(stats: DataStream[WindowStats], sinks: Sinks) -> Sequence[DataStreamSink]:
    return [stats.sink_to(sinks.results), stats.get_side_output(_LATE).sink_to(sinks.late)]


def _logged(stats: DataStream[WindowStats], sinks: Sinks) -> Sequence[DataStreamSink]:
    return [stats.changelog().sink_to(sinks.results), stats.get_side_output(_LATE).sink_to(sinks.late)]


def added_up(table: Any) -> Any:
    """The results of whole windows, from those of panes that hold what came since the one before."""
    return _in_all(table, table["n"])


def netted(table: Any) -> Any:
    """The results that no later one withdraws."""
    sign = pc.if_else(pc.starts_with(table["kind"], "-"), -1, 1)
    table = pa.Table.from_struct_array(table["value"])
    return _in_all(table, pc.multiply(table["n"], sign))


def _in_all(table: Any, counts: Any) -> Any:
    """Counts and means of whole windows, from those of their parts, whose counts may be negative."""
    totals = pc.multiply(counts, pc.fill_null(table["mean"], 0.0))
    parts = table.select(["sensor", "window_end"]).append_column("n", counts).append_column("total", totals)
    found = parts.group_by(["sensor", "window_end"]).aggregate([("n", "sum"), ("total", "sum")])
    means = pc.divide(found["total_sum"], found["n_sum"])
    return found.select(["sensor", "window_end"]).append_column("n", found["n_sum"]).append_column("mean", means)
