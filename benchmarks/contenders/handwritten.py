"""Hand-written ``transformWithState``: what a Python user of Spark writes without windrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  its usual name
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from benchmarks.problems import WINDOW_MS

__all__ = ["folded", "folding", "transformed", "tumbling"]

_MEANS = "sensor string, window_end long, mean double"


class _MeanProcessor(StatefulProcessor):
    """Keeps sum and count of each window in a map, and a timer for each window, and updates them row by row.

    This is what the examples of Spark's documentation show, and what a first version looks like: each row costs a read
    and a write of state.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._windows = handle.getMapState("windows", "window_end long", "total double, count long")

    # Any: the key is a tuple of the grouping columns, which Spark does not type.
    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterable[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        for row in rows:
            at = row["at"]
            self._add(at - at % WINDOW_MS + WINDOW_MS, row["celsius"], 1)
        return iter(())

    def _add(self, window_end: int, total: float, count: int) -> None:
        held = self._windows.getValue((window_end,))
        if held is None:
            self._handle.registerTimer(window_end)
            self._windows.updateValue((window_end,), (total, count))
        else:
            self._windows.updateValue((window_end,), (held[0] + total, held[1] + count))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        window_end = expiredTimerInfo.getExpiryTimeInMs()
        held = self._windows.getValue((window_end,))
        if held is not None:
            self._windows.removeKey((window_end,))
            yield Row(sensor=key[0], window_end=window_end, mean=held[0] / held[1])

    def close(self) -> None:
        pass


class _FoldingMeanProcessor(_MeanProcessor):
    """As :class:`_MeanProcessor`, made fast by hand.

    The rows of a batch are folded in Python first, so that a window costs one read, one write and one timer a batch
    however many rows it gets.
    """

    # Any: the key is a tuple of the grouping columns, which Spark does not type.
    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterable[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        for window_end, (total, count) in folded(rows, WINDOW_MS).items():
            self._add(window_end, total, count)
        return iter(())


def tumbling(readings: DataFrame) -> DataFrame:
    """``groupBy(sensor).transformWithState`` in Row mode, row by row."""
    return transformed(readings, _MeanProcessor(), _MEANS)


def folding(readings: DataFrame) -> DataFrame:
    """The same, which folds the rows of a batch before it touches state."""
    return transformed(readings, _FoldingMeanProcessor(), _MEANS)


def folded(rows: Iterable[Row], size: int) -> dict[int, tuple[float, int]]:
    """Sum and count of the rows of each span of so many milliseconds, by its end."""
    sums: dict[int, tuple[float, int]] = {}
    for row in rows:
        at = row["at"]
        end = at - at % size + size
        total, n = sums.get(end, (0.0, 0))
        sums[end] = (total + row["celsius"], n + 1)
    return sums


def transformed(readings: DataFrame, processor: StatefulProcessor, schema: str) -> DataFrame:
    """The readings of each sensor through a processor with timers in event time."""
    return (
        readings.withColumn("event_time", F.timestamp_millis("at"))
        .withWatermark("event_time", "1 second")
        .groupBy("sensor")
        .transformWithState(processor, schema, "Append", "EventTime")
    )
