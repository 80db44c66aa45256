"""Axes: where a time lies in a picture, and the ticks with their labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from windrow_runtime.pictures.svg import width_of

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
_LEAST_DATE: Final = 10_000_000_000  # below, in April 1970, times are numbers that somebody made up for a test
_LAST_DATE: Final = 253_402_300_799_999  # the end of the year 9999, the last that Python has
_FURTHEST: Final = 2**62  # beyond are the times that stand for "unknown" and "never"


def is_finite(time: int) -> bool:
    """Returns whether a time is one, and does not stand for "unknown" or "never"."""
    return -_FURTHEST < time < _FURTHEST


@dataclass(frozen=True, slots=True)
class Labels:
    """How the times of a picture are written.

    Attributes:
        are_dates: Whether they are milliseconds since the epoch, and not small numbers of a test.
    """

    are_dates: bool

    @classmethod
    def of(cls, times: Iterable[int]) -> Labels:
        """Times are dates where all of them are."""
        found = list(times)
        return cls(bool(found) and all(_LEAST_DATE <= time <= _LAST_DATE for time in found))

    def text(self, time: int, step: int = 1) -> str:
        """A time, as exact as ticks at multiples of ``step`` need it."""
        if not self.are_dates or not 0 <= time <= _LAST_DATE:
            return f"{time:,}" if abs(time) >= 100_000 else str(time)
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
        """What the title of an axis from ``low`` to ``high`` adds to its name."""
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
        start: Where it begins, in pixels.
        end: Where it ends, in pixels; less than ``start`` where it runs upwards.
        step: How far ticks are apart, in time.
        labels: How times are written.
    """

    low: int
    high: int
    start: float
    end: float
    step: int
    labels: Labels

    @classmethod
    def over(cls, times: Iterable[int], start: float, end: float) -> Axis:
        """An axis from tick to tick, over all of some times; one that runs to the right has room for its labels."""
        found = list(times) or [0]
        labels = Labels.of(found)
        low, high = min(found), max(found)
        step, gap = 1, 36.0
        for _ in range(2):
            step = _nice_step((high - low) * gap / abs(end - start), dates=labels.are_dates)
            if end > start:
                gap = 24 + max(width_of(labels.text(time, step), 11) for time in (low, high))
        low = low // step * step
        high = max(-(-high // step) * step, low + step)
        if end < start:
            # What happens first and last stands between the edges.
            low -= step * (low == min(found))
            high += step * (high == max(found))
        return cls(low, high, start, end, step, labels)

    def place(self, time: int) -> float:
        """Where a time lies, in pixels; what lies outside is moved to the nearer end."""
        share = (min(max(time, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """The places and the labels of the ticks."""
        for time in range(self.low, self.high + 1, self.step):
            yield self.place(time), self.labels.text(time, self.step)


def _nice_step(least: float, *, dates: bool) -> int:
    """The smallest step that is easy to count in, and not below ``least``."""
    decimal = [digit * tens for tens in _TENS for digit in (1, 2, 5)]
    steps = [*_CLOCK_STEPS, *(_YEAR * step for step in decimal)] if dates else decimal
    return next(step for step in steps if step >= least)
