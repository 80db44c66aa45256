"""Hand-written ``transformWithState`` for what Spark SQL cannot say, or says at a price.

All of these fold the rows of a batch in Python before they touch state, as fast code has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  its usual name
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from benchmarks.check import Outcome
from benchmarks.contenders.handwritten import transformed
from benchmarks.problems import COUNT, LATENESS_MS, TOP, WINDOW_MS

__all__ = ["count", "lateness", "split_late", "top"]

# Any in this module: the key is a tuple of the grouping columns, which Spark does not type; and Arrow tables.


class _LateProcessor(StatefulProcessor):
    """Windows that fire when they end, and again for each late row; rows that are too late come out by themselves."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._windows = handle.getMapState("windows", "window_end long", "total double, n long")

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterable[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        watermark = timerValues.getCurrentWatermarkInMs()
        sums: dict[int, tuple[float, int]] = {}
        for row in rows:
            at = row["at"]
            end = at - at % WINDOW_MS + WINDOW_MS
            if end + LATENESS_MS <= watermark:
                yield Row(sensor=key[0], window_end=end, n=0, mean=row["celsius"], late=True)
                continue
            held = sums.get(end) or self._held(end, watermark)
            sums[end] = total, n = held[0] + row["celsius"], held[1] + 1
            if end <= watermark:
                yield Row(sensor=key[0], window_end=end, n=n, mean=total / n, late=False)
        for end, folded in sums.items():
            self._windows.updateValue((end,), folded)

    def _held(self, end: int, watermark: int) -> tuple[float, int]:
        held = self._windows.getValue((end,))
        if held is not None:
            return held[0], held[1]
        if end > watermark:
            self._handle.registerTimer(end)
        self._handle.registerTimer(end + LATENESS_MS)
        return 0.0, 0

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        time = expiredTimerInfo.getExpiryTimeInMs()
        # A time may be the end of one window and the end of another one's lateness.
        held = self._windows.getValue((time,))
        if held is not None:
            yield Row(sensor=key[0], window_end=time, n=held[1], mean=held[0] / held[1], late=False)
        if self._windows.containsKey((time - LATENESS_MS,)):
            self._windows.removeKey((time - LATENESS_MS,))

    def close(self) -> None:
        pass


def lateness(readings: DataFrame) -> DataFrame:
    """Windows with lateness and a side output.

    Spark drops rows behind the watermark of a column that they have. It does not look at one that was dropped.
    """
    return (
        readings.withColumn("event_time", F.timestamp_millis("at"))
        .withWatermark("event_time", "1 second")
        .select("sensor", "at", "celsius")
        .groupBy("sensor")
        .transformWithState(
            _LateProcessor(), "sensor string, window_end long, n long, mean double, late boolean", "Append", "EventTime"
        )
    )


def split_late(table: Any) -> Outcome:
    """The outcome of :func:`lateness`, whose results and late rows are in one table."""
    late = table["late"]
    return Outcome(table.filter(pc.invert(late)).drop_columns(["late"]), pc.sum(late).as_py() or 0)


class _CountProcessor(StatefulProcessor):
    """Folds each hundred rows; what is left waits in a value."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._open = handle.getValueState("open", "first_at long, n long, total double")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterable[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        first_at, n, total = self._open.get() or (1 << 62, 0, 0.0)
        for row in rows:
            first_at, n, total = min(first_at, row["at"]), n + 1, total + row["celsius"]
            if n == COUNT:
                yield Row(sensor=key[0], first_at=first_at, n=n, mean=total / n)
                first_at, n, total = 1 << 62, 0, 0.0
        self._open.update((first_at, n, total))

    def close(self) -> None:
        pass


def count(readings: DataFrame) -> DataFrame:
    """Windows of a hundred rows, which Spark SQL does not have."""
    return readings.groupBy("sensor").transformWithState(
        _CountProcessor(), "sensor string, first_at long, n long, mean double", "Append", "None"
    )


class _TopProcessor(StatefulProcessor):
    """Keeps the highest values of each window in a map."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._windows = handle.getMapState("windows", "window_end long", "top array<double>")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterable[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        values: dict[int, list[float]] = {}
        for row in rows:
            at = row["at"]
            values.setdefault(at - at % WINDOW_MS + WINDOW_MS, []).append(row["celsius"])
        for end, new in values.items():
            held = self._windows.getValue((end,))
            if held is None:
                self._handle.registerTimer(end)
            else:
                new.extend(held[0])
            self._windows.updateValue((end,), (sorted(new, reverse=True)[:TOP],))
        return iter(())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        end = expiredTimerInfo.getExpiryTimeInMs()
        held = self._windows.getValue((end,))
        if held is not None:
            self._windows.removeKey((end,))
            yield Row(sensor=key[0], window_end=end, top=list(held[0]))

    def close(self) -> None:
        pass


def top(readings: DataFrame) -> DataFrame:
    """The three highest values of a window, and no more of it in state."""
    return transformed(readings, _TopProcessor(), "sensor string, window_end long, top array<double>")
