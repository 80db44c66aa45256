"""Computes the axes of a picture: the position of a time, and the ticks with their labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from windrow.drawing.svg import width_of

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 364 * _DAY  # whole weeks
_TENS: Final = [int("1" + "0" * power) for power in range(20)]
_CLOCK_STEPS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(seconds * _SECOND for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 14, 28, 91, 182)),
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LEAST_DATE: Final = 10_000_000_000  # earlier times, up to April 1970, are taken for numbers of a test
_LAST_DATE: Final = 253_402_300_799_999  # the end of the year 9999, the last that Python has
_FURTHEST: Final = 2**62  # larger times stand for "unknown" and "never"


def is_finite(time: int) -> bool:
    """Returns whether a time does not stand for "unknown" or "never"."""
    return -_FURTHEST < time < _FURTHEST


@dataclass(frozen=True, slots=True)
class Labels:
    """Formats the times of a picture.

    Attributes:
        are_dates: Whether times are milliseconds since the epoch, and not small numbers of a test.
        are_long: Whether numbers have commas: all of them, where one has six digits.
    """

    are_dates: bool
    are_long: bool = False

    @classmethod
    def of(cls, times: Iterable[int]) -> Labels:
        """Returns the labels for some times, which are dates if all of them are in the range of dates."""
        all_times = list(times)
        are_dates = bool(all_times) and all(_LEAST_DATE <= time <= _LAST_DATE for time in all_times)
        return cls(are_dates, any(abs(time) >= 100_000 for time in all_times))

    def text(self, time: int, step: int = 1) -> str:
        """Formats a time, as exactly as ticks at multiples of ``step`` need it."""
        if not self.are_dates or not 0 <= time <= _LAST_DATE:
            return f"{time:,}" if self.are_long else str(time)
        moment = _EPOCH + timedelta(milliseconds=time)
        if step % _DAY == 0:
            return f"{moment:%Y-%m-%d}"
        if step % _MINUTE == 0:
            return f"{moment:%H:%M}"
        if time % _SECOND == 0:
            return f"{moment:%H:%M:%S}"
        digits = 1 if step % 100 == 0 else 2 if step % 10 == 0 else 3
        return f"{moment:%H:%M:%S}.{f'{time % _SECOND:03d}'[:digits]}"

    def unit(self, low: int, high: int) -> str:
        """Returns the days from ``low`` to ``high``, for the title of an axis; an empty text for small numbers."""
        if not self.are_dates:
            return ""
        first, last = (f"{_EPOCH + timedelta(milliseconds=time):%Y-%m-%d}" for time in (low, high))
        return f" ({first}, UTC)" if first == last else f" ({first} to {last}, UTC)"


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a picture.

    Attributes:
        low: The time at its beginning.
        high: The time at its end.
        start: The coordinate of its beginning, in pixels.
        end: The coordinate of its end, in pixels; less than ``start`` if it runs upwards.
        step: The time between ticks.
        labels: Formats times.
    """

    low: int
    high: int
    start: float
    end: float
    step: int
    labels: Labels

    @classmethod
    def over(cls, times: Iterable[int], start: float, end: float) -> Axis:
        """Returns an axis from tick to tick that contains all times; a horizontal one has room for its labels."""
        all_times = list(times) or [0]
        labels = Labels.of(all_times)
        low, high = min(all_times), max(all_times)
        step, gap = 1, 36.0
        for _ in range(2):
            step = _nice_step((high - low) * gap / abs(end - start), dates=labels.are_dates)
            if end > start:
                gap = 24 + max(width_of(labels.text(time, step), 11) for time in (low, high))
        low = low // step * step
        high = max(-(-high // step) * step, low + step)
        if end < start:
            # The first and the last time are not at the edges of a vertical axis.
            low -= step * (low == min(all_times))
            high += step * (high == max(all_times))
        return cls(low, high, start, end, step, labels)

    def place(self, time: int) -> float:
        """Returns the coordinate of a time, in pixels; that of the nearer end if it lies outside."""
        share = (min(max(time, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yields the coordinates and labels of the ticks."""
        for time in range(self.low, self.high + 1, self.step):
            yield self.place(time), self.labels.text(time, self.step)


def _nice_step(least: float, *, dates: bool) -> int:
    """Returns the smallest round step that is not below ``least``."""
    decimal = [digit * tens for tens in _TENS for digit in (1, 2, 5)]
    steps = [*_CLOCK_STEPS, *(_YEAR * step for step in decimal)] if dates else decimal
    return next(step for step in steps if step >= least)
