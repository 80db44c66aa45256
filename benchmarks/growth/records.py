"""Events, and the steps that the growing state is kept for: what a user writes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from windrow import DataStream, KeyedStream, MergingWindowedStream, WatermarkStrategy, WindowedStream
from windrow import aggregates as agg
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
)
from windrow.state import ValueStateDescriptor
from windrow.windows import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows, TumblingProcessingTimeWindows

__all__ = [
    "HOUR_MS",
    "START_MS",
    "Event",
    "Grown",
    "Spread",
    "Total",
    "Totals",
    "WithUser",
    "by_clock",
    "closing_events",
    "column_sessions",
    "columns",
    "events_of",
    "notes",
    "sessions",
    "timed_notes",
    "totals",
    "tumbling",
    "windows_in_full",
]

HOUR_MS = 3_600_000
START_MS = 1_699_999_200_000  # a whole hour


class Event(NamedTuple):
    """Something of a user's, at a time in epoch milliseconds."""

    user: str
    at: int
    amount: float


class Total(NamedTuple):
    """The sum of a user's events."""

    user: str
    events: int
    amount: float


class Grown(NamedTuple):
    """The sum of a user's events so far."""

    user: str
    amount: float


class Totals(AggregateFunction[Event, tuple[int, float], tuple[int, float]]):
    """Number and sum."""

    def create_accumulator(self) -> tuple[int, float]:
        return 0, 0.0

    def add(self, value: Event, accumulator: tuple[int, float]) -> tuple[int, float]:
        return accumulator[0] + 1, accumulator[1] + value.amount

    def get_result(self, accumulator: tuple[int, float]) -> tuple[int, float]:
        return accumulator

    def merge(self, a: tuple[int, float], b: tuple[int, float]) -> tuple[int, float]:
        return a[0] + b[0], a[1] + b[1]


class WithUser(ProcessWindowFunction[tuple[int, float], Total, str, TimeWindow]):
    """Adds the user."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[tuple[int, float]]
    ) -> Iterator[Total]:
        yield Total(key, *elements[0])


class Spread(ProcessWindowFunction[Event, Total, str, TimeWindow]):
    """Needs all elements: the window holds them until it fires."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Event]
    ) -> Iterator[Total]:
        amounts = [event.amount for event in elements]
        yield Total(key, len(amounts), max(amounts) - min(amounts))


TOTAL = ValueStateDescriptor("total", float)


class RunningTotal(KeyedProcessFunction[str, Event, Grown]):
    """Adds up for ever, and emits what has grown very large."""

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[Grown]:
        state = context.get_state(TOTAL)
        total = (state.value() or 0.0) + value.amount
        state.update(total)
        return () if total < 1e9 else (Grown(value.user, total),)


NOTE = ValueStateDescriptor("note", bytes)


class LastNote(KeyedProcessFunction[str, Event, Grown]):
    """Keeps 200 bytes that do not compress for each user, and a timer a year later."""

    def __init__(self, *, with_timer: bool) -> None:
        self.with_timer = with_timer

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[Grown]:
        context.get_state(NOTE).update(random.Random(f"{value.user} {value.amount}").randbytes(200))
        if self.with_timer:
            context.timer_service.register_event_time_timer(value.at + 365 * 24 * HOUR_MS)
        return ()


def _by_user(events: DataStream[Event]) -> KeyedStream[Event, str]:
    return events.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=10)), timestamp=lambda event: event.at
    ).key_by(lambda event: event.user)


def tumbling(events: DataStream[Event]) -> DataStream[Total]:
    """One window of an hour for each user, in tables."""
    windows = _by_user(events).window(TumblingEventTimeWindows.of(timedelta(hours=1)))
    return windows.aggregate(Totals(), WithUser())


def sessions(events: DataStream[Event]) -> DataStream[Total]:
    """One session for each user, by the general operator."""
    windows = _by_user(events).window(EventTimeSessionWindows.with_gap(timedelta(hours=1)))
    return windows.aggregate(Totals(), WithUser())


def totals(events: DataStream[Event]) -> DataStream[Grown]:
    """State of a process function for each user."""
    return _by_user(events).process(RunningTotal())


def notes(events: DataStream[Event]) -> DataStream[Grown]:
    """200 bytes for each user."""
    return _by_user(events).process(LastNote(with_timer=False))


def timed_notes(events: DataStream[Event]) -> DataStream[Grown]:
    """200 bytes and a timer for each user."""
    return _by_user(events).process(LastNote(with_timer=True))


def by_clock(events: DataStream[Event]) -> DataStream[Total]:
    """One window of a day of the clock for each user."""
    windows = _by_user(events).window(TumblingProcessingTimeWindows.of(timedelta(days=1)))
    return windows.aggregate(Totals(), WithUser())


def columns(events: DataStream[Event]) -> DataStream[Total]:
    """One window of an hour for each user, on columns."""
    return _declared(_by_user(events).window(TumblingEventTimeWindows.of(timedelta(hours=1))))


def column_sessions(events: DataStream[Event]) -> DataStream[Total]:
    """One session for each user, on columns."""
    return _declared(_by_user(events).window(EventTimeSessionWindows.with_gap(timedelta(hours=1))))


def _declared(
    windows: WindowedStream[Event, str, TimeWindow] | MergingWindowedStream[Event, str, TimeWindow],
) -> DataStream[Total]:
    return windows.aggregate(
        agg.into(Total, user=agg.key(), events=agg.count(), amount=agg.sum(lambda event: event.amount))
    )


def windows_in_full(events: DataStream[Event]) -> DataStream[Total]:
    """One window of an hour for each user that holds all its elements."""
    return _by_user(events).window(TumblingEventTimeWindows.of(timedelta(hours=1))).process(Spread())


def events_of(users: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]], seed: int) -> pa.Table:
    """One event for each user of these numbers, all within the same hour."""
    drawn = np.random.default_rng(seed)
    count = len(users)
    return pa.table(
        {
            "user": [f"user-{number:07d}" for number in users],
            "at": START_MS + drawn.integers(0, HOUR_MS // 2, count),
            "amount": np.round(drawn.gamma(2.0, 10.0, count), 2),
        }
    )


def closing_events() -> pa.Table:
    """One event far in the future, which closes every other window."""
    return pa.table({"user": ["closing"], "at": [START_MS + 100 * HOUR_MS], "amount": [0.0]})
