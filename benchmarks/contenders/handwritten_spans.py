"""Hand-written ``transformWithState`` for windows that overlap, grow, or follow each other.

All of these fold the rows of a batch in Python before they touch state, as fast code has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from benchmarks.contenders.handwritten import folded, transformed
from benchmarks.problems import GAP_MS, LONG_WINDOW_MS, SLIDE_MS, WINDOW_MS

__all__ = ["chained", "sessions", "sliding"]

# Any in this module: the key is a tuple of the grouping columns, which Spark does not type.


class _SlidingProcessor(StatefulProcessor):
    """Keeps sum and count of each slide, which the windows share, and a timer for each window."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._slices = handle.getMapState("slices", "slice_end long", "total double, n long")

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterable[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        for end, (total, n) in folded(rows, SLIDE_MS).items():
            held = self._slices.getValue((end,))
            if held is None:
                for window_end in range(end, end + LONG_WINDOW_MS, SLIDE_MS):
                    self._handle.registerTimer(window_end)
                held = (0.0, 0)
            self._slices.updateValue((end,), (held[0] + total, held[1] + n))
        return iter(())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        end = expiredTimerInfo.getExpiryTimeInMs()
        oldest = end - LONG_WINDOW_MS + SLIDE_MS
        held = {key[0]: value for key, value in self._slices.iterator()}
        slices = [held[start] for start in range(oldest, end + 1, SLIDE_MS) if start in held]
        if oldest in held:
            self._slices.removeKey((oldest,))
        if slices:
            totals, counts = zip(*slices, strict=True)
            yield Row(sensor=key[0], window_end=end, mean=sum(totals) / sum(counts))

    def close(self) -> None:
        pass


def sliding(readings: DataFrame) -> DataFrame:
    """Sliding windows that share slices."""
    schema = "sensor string, window_end long, mean double"
    return transformed(readings, _SlidingProcessor(), schema)


class _Session(NamedTuple):
    """A session, from its first element to the gap behind its last one, in milliseconds."""

    start: int
    end: int
    total: float
    n: int


class _SessionProcessor(StatefulProcessor):
    """Keeps the sessions of a sensor in a map, by their start, with a timer for the end of each."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._sessions = handle.getMapState("sessions", "start long", "end long, total double, n long")

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterable[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        new = [_Session(row["at"], row["at"] + GAP_MS, row["celsius"], 1) for row in rows]
        held = [_Session(start[0], *value) for start, value in self._sessions.iterator()]
        merged: list[_Session] = []
        for session in sorted([*held, *new]):
            last = merged[-1] if merged else None
            if last is None or session.start > last.end:
                merged.append(session)
                continue
            end = max(last.end, session.end)
            merged[-1] = _Session(last.start, end, last.total + session.total, last.n + session.n)
        kept = set(merged)
        for session in set(held) - kept:
            self._handle.deleteTimer(session.end)
            self._sessions.removeKey((session.start,))
        for session in kept.difference(held):
            self._handle.registerTimer(session.end)
            self._sessions.updateValue((session.start,), (session.end, session.total, session.n))
        return iter(())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        now = expiredTimerInfo.getExpiryTimeInMs()
        held = [_Session(start[0], *value) for start, value in self._sessions.iterator()]
        for session in held:
            if session.end == now:
                self._sessions.removeKey((session.start,))
                mean = session.total / session.n
                yield Row(sensor=key[0], first_at=session.start, window_end=session.end, n=session.n, mean=mean)

    def close(self) -> None:
        pass


def sessions(readings: DataFrame) -> DataFrame:
    """Sessions that are merged by hand."""
    schema = "sensor string, first_at long, window_end long, n long, mean double"
    return transformed(readings, _SessionProcessor(), schema)


class _ChainedProcessor(StatefulProcessor):
    """Both windows in one processor: what the small one fires goes to the map of the large one."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._means = handle.getMapState("means", "window_end long", "total double, n long")
        self._peaks = handle.getMapState("peaks", "window_end long", "peak double")

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterable[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        for end, (total, n) in folded(rows, WINDOW_MS).items():
            held = self._means.getValue((end,))
            if held is None:
                self._handle.registerTimer(end)
                self._handle.registerTimer(_large_end(end))
                held = (0.0, 0)
            self._means.updateValue((end,), (held[0] + total, held[1] + n))
        return iter(())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        now = expiredTimerInfo.getExpiryTimeInMs()
        # The small window first: a large one may end with it.
        held = self._means.getValue((now,))
        if held is not None:
            self._means.removeKey((now,))
            large = (_large_end(now),)
            mean = held[0] / held[1]
            peak = self._peaks.getValue(large)
            if peak is None or peak[0] < mean:
                self._peaks.updateValue(large, (mean,))
        peak = self._peaks.getValue((now,))
        if peak is not None:
            self._peaks.removeKey((now,))
            yield Row(sensor=key[0], window_end=now, peak=peak[0])

    def close(self) -> None:
        pass


def _large_end(small_end: int) -> int:
    last = small_end - 1
    return last - last % LONG_WINDOW_MS + LONG_WINDOW_MS


def chained(readings: DataFrame) -> DataFrame:
    """A window over a window's results."""
    schema = "sensor string, window_end long, peak double"
    return transformed(readings, _ChainedProcessor(), schema)
