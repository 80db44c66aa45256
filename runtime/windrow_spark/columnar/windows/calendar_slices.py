"""Computes which windows slices are in where windows are units of a calendar, such as days of a time zone.

The units are numbered in order of time, so that windows of some units are windows of some numbers: what
:class:`Slices` computes for milliseconds holds for numbers. Times become numbers, and numbers times, by the few
beginnings of units that lie between the times of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from windrow.time import MAX_TIMESTAMP
from windrow.windows.calendar_cuts import Calendar
from windrow.windows.spec import FARTHEST
from windrow_spark.columnar import Ints
from windrow_spark.columnar.windows.geometry import Slices

_MOST_KEPT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class CalendarSlices(Slices):
    """Windows of units of a calendar; ``size`` and ``slide`` are numbers of units, and the offset is 0.

    All units exist where windows overlap, so that no two of them begin or end together.
    """

    calendar: Calendar = field(kw_only=True)

    @property
    def _in_units(self) -> Slices:
        """The same windows, of numbers."""
        return Slices(self.size, self.slide, self.offset, 0)

    @property
    def typical_slide(self) -> int:
        return self.slide * self.calendar.span

    def numbers_of(self, stamps: Ints) -> Ints:
        return self._in_units.numbers_of(self._units_of(stamps))

    def slices_at(self, numbers: Ints) -> Ints:
        return self._starts_of(self._in_units.slices_at(numbers))

    def window_numbers(self, windows: Ints) -> Ints:
        return self._in_units.window_numbers(self._units_of(windows))

    def windows_at(self, numbers: Ints) -> Ints:
        return self._starts_of(self._in_units.windows_at(numbers))

    def ends(self, windows: Ints) -> Ints:
        # A window may begin with units that do not exist: the start is that of the unit after them, too.
        units = self._in_units.last_windows(self._units_of(windows))
        return self._starts_of(units + self.size)

    def last_windows(self, slices: Ints) -> Ints:
        return self._starts_of(self._in_units.last_windows(self._units_of(slices)))

    def first_windows(self, slices: Ints) -> Ints:
        return self._starts_of(self._in_units.first_windows(self._units_of(slices)))

    def last_times(self, windows: Ints) -> Ints:
        return self.ends(windows) - 1

    def next_times(self, slices: Ints, watermark: int) -> Ints:
        units, in_units = self._units_of(slices), self._in_units
        first, last = in_units.first_windows(units), in_units.last_windows(units)
        times = np.full(len(slices), MAX_TIMESTAMP)
        for delay in {0, self.lateness}:
            if delay < FARTHEST:
                # The window after those that have ended, in order of their numbers.
                ending = self._ended(watermark - delay) - self.size + 2
                starts = np.maximum(first, ending + -ending % self.slide)
                later = starts <= last
                times[later] = np.minimum(times[later], self._starts_of(starts[later] + self.size) - 1 + delay)
        return times

    def ending(self, slices: Ints, after: int, until: int) -> Iterator[Ints]:
        for numbers in self._in_units.ending(self._units_of(slices), self._ended(after), self._ended(until)):
            yield self._starts_of(numbers)

    def windows(self, slices: Ints, after: int, until: int) -> tuple[Ints, Ints]:
        units = self._units_of(slices)
        places, numbers = self._in_units.windows(units, self._ended(after), self._ended(until))
        return places, self._starts_of(numbers)

    def any_ends(self, first: int, last: int, after: int, until: int) -> bool:
        first_unit, last_unit = self._units_of(np.array([first, last])).tolist()
        return self._in_units.any_ends(first_unit, last_unit, self._ended(after), self._ended(until))

    def held_by(self, slices: Ints, starts: Ints) -> tuple[Ints, Ints]:
        return np.searchsorted(slices, starts), np.searchsorted(slices, self.ends(starts))

    def _ended(self, watermark: int) -> int:
        """The number of the last unit that has ended under a watermark."""
        return self.calendar.number_of(watermark + 1) - 1

    def _units_of(self, stamps: Ints) -> Ints:
        """The number of the unit that holds each timestamp."""
        span = self.calendar.span
        cuts = [_cuts_in(self.calendar, stretch) for stretch in np.unique(stamps // span).tolist()]
        times = np.array([time for some in cuts for time, _ in some], np.int64)
        numbers = np.array([number for some in cuts for _, number in some], np.int64)
        units: Ints = numbers[np.searchsorted(times, stamps, side="right") - 1] if len(stamps) else stamps
        return units

    def _starts_of(self, numbers: Ints) -> Ints:
        """The start of each unit."""
        distinct, places = np.unique(numbers, return_inverse=True)
        starts = np.array([self.calendar.start_of(number) for number in distinct.tolist()], np.int64)
        return starts[places.reshape(numbers.shape)]


@lru_cache(_MOST_KEPT)
def _cuts_in(calendar: Calendar, stretch: int) -> list[tuple[int, int]]:
    """The times in a stretch at which the unit changes, the first one among them, each with the unit's number."""
    low, high = stretch * calendar.span, (stretch + 1) * calendar.span
    first, last = calendar.number_of(low), calendar.number_of(high - 1)
    return [(low, first), *((calendar.start_of(number), number) for number in range(first + 1, last + 1))]
