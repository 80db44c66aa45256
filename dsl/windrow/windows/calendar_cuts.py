"""Computes where the days, months and hours of a time zone begin, for all timestamps.

Each calendar numbers its units in order of time. :meth:`Calendar.start_of` gives the beginning of a unit, and
:meth:`Calendar.number_of` the last unit that begins at or before a timestamp. A unit that does not exist begins when
the next one does, so no timestamp is in it.

Rules of time zones repeat with the calendar, every 400 years, and before its first change a zone keeps its offset. So
timestamps that ``datetime`` cannot hold are moved by a multiple of 400 years.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Final
from zoneinfo import ZoneInfo

HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS_OF_CYCLE: Final = 146_097  # the days of 400 years, which are whole weeks
_CYCLE: Final = _DAYS_OF_CYCLE * DAY
_FIRST_DAY: Final = 719_468  # from the first of March of year 0 to the epoch
_NEAR: Final = range(-3 * _CYCLE, 17 * _CYCLE)  # from the year 770 to 8770
_RECORDED_DAYS: Final = (-200 * 365, 70 * 365)  # changes by more than an hour lie between these days
_MOST_KEPT: Final = 1 << 16


@dataclass(frozen=True)
class Calendar(ABC):
    """Numbers units of the calendar in a time zone."""

    zone: ZoneInfo

    span: ClassVar[int] = DAY
    """In a stretch of this many milliseconds there are few beginnings of units."""

    @property
    def leaves_out_units(self) -> bool:
        """Whether a unit may begin when the next one does, since it does not exist."""
        return False

    @abstractmethod
    def number_of(self, timestamp: int) -> int:
        """The number of the last unit that begins at or before a timestamp."""

    @abstractmethod
    def start_of(self, number: int) -> int:
        """The first millisecond of a unit."""


@dataclass(frozen=True)
class _OfDays(Calendar):
    """Units of whole days; a day begins when the clock first shows its time of the day, or jumps past it."""

    each: int = 1  # how many days, or months, are a unit
    shift: int = 0  # how many days, or months, before the epoch the unit 0 begins
    time_of_day: int = 0  # when a day begins, in milliseconds of the clock since midnight

    def number_of(self, timestamp: int) -> int:
        number = self._unit_with((timestamp + _offset(self.zone, timestamp) - self.time_of_day) // DAY)
        # Where the clock is put back over the time of the day, it shows the day before again, which is over.
        while self.start_of(number + 1) <= timestamp:
            number += 1
        return number

    def start_of(self, number: int) -> int:
        return _first_shown(self.zone, self._first_day(number) * DAY + self.time_of_day)

    @abstractmethod
    def _unit_with(self, day: int) -> int:
        """The number of the unit that has a day, counted from the epoch."""

    @abstractmethod
    def _first_day(self, number: int) -> int:
        """The first day of a unit, counted from the epoch."""


@dataclass(frozen=True)
class Days(_OfDays):
    """Days of the calendar, or runs of them."""

    @property
    def leaves_out_units(self) -> bool:
        return self.each == 1 and _leaves_out_days(self.zone)

    def _unit_with(self, day: int) -> int:
        return (day + self.shift) // self.each

    def _first_day(self, number: int) -> int:
        return number * self.each - self.shift


@dataclass(frozen=True)
class Months(_OfDays):
    """Months of the calendar, or runs of them; they begin with their first day."""

    def _unit_with(self, day: int) -> int:
        return (month_of_day(day) + self.shift) // self.each

    def _first_day(self, number: int) -> int:
        return day_of_month_start(number * self.each - self.shift)


@dataclass(frozen=True)
class Hours(Calendar):
    """Hours of the clock; each ends when the next one begins, or when the clock is changed.

    The hours that begin in one hour of UTC, of which there are at most three, have numbers from four times it on.
    """

    span: ClassVar[int] = HOUR

    @property
    def leaves_out_units(self) -> bool:
        return True

    def number_of(self, timestamp: int) -> int:
        hour = timestamp // HOUR
        while True:
            begun = [start for start in _hours_from(self.zone, hour) if start <= timestamp]
            if begun:
                return 4 * hour + len(begun) - 1
            hour -= 1

    def start_of(self, number: int) -> int:
        hour, place = divmod(number, 4)
        starts = _hours_from(self.zone, hour)
        while place >= len(starts):
            hour, place = hour + 1, 0
            starts = _hours_from(self.zone, hour)
        return starts[place]


def _offset(zone: ZoneInfo, timestamp: int) -> int:
    """How far the clock of a zone is ahead of UTC, in milliseconds."""
    if timestamp not in _NEAR:
        timestamp = timestamp % _CYCLE + (_NEAR.start if timestamp < 0 else _NEAR.stop - _CYCLE)
    offset = (_EPOCH + timedelta(seconds=timestamp // 1000)).astimezone(zone).utcoffset()
    assert offset is not None, "the datetime is aware"
    return offset // timedelta(milliseconds=1)


@lru_cache
def _leaves_out_days(zone: ZoneInfo) -> bool:
    """Returns whether a zone once left out a day, as those have that moved to the other side of the date line."""
    # Nobody changed sides for less than 28 days.
    offsets = [_offset(zone, day * DAY) for day in range(*_RECORDED_DAYS, 28)]
    return any(after - before > DAY // 2 for before, after in pairwise(offsets))


@lru_cache(_MOST_KEPT)
def _first_shown(zone: ZoneInfo, wall: int) -> int:
    """When the clock of a zone first shows a time, in milliseconds since its own 1970, or jumps past it."""
    # No zone is a day or more away from UTC.
    low, high = wall - DAY, wall + DAY
    before, after = _offset(zone, low), _offset(zone, high)
    for offset in sorted({before, after, _offset(zone, wall)}, reverse=True):
        # The larger the offset, the earlier is the moment.
        if _offset(zone, wall - offset) == offset:
            return wall - offset
    return _first(low, high, lambda timestamp: timestamp + _offset(zone, timestamp) >= wall)


@lru_cache(_MOST_KEPT)
def _hours_from(zone: ZoneInfo, hour: int) -> tuple[int, ...]:
    """When hours of a zone begin within an hour of UTC."""
    low, high = hour * HOUR, (hour + 1) * HOUR
    before, after = _offset(zone, low - 1), _offset(zone, high - 1)
    if before == after:
        return (low + -after % HOUR,)
    change = _first(low - 1000, high - 1000, lambda timestamp: _offset(zone, timestamp) == after)
    last_before, first_after = low + -before % HOUR, low + -after % HOUR
    return tuple(sorted({min(last_before, change), change, max(first_after, change)}))


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first whole second above ``low`` at which something holds that stays so up to ``high``, where it does."""
    low, high = low // 1000, high // 1000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle * 1000) else (middle, high)
    return high * 1000


def month_of_day(day: int) -> int:
    """The month of a day, both counted from the epoch, by the Gregorian calendar for all time."""
    # https://howardhinnant.github.io/date_algorithms.html: years begin in March, so that a leap day is their last.
    cycle, rest = divmod(day + _FIRST_DAY, _DAYS_OF_CYCLE)
    year = (rest - rest // 1460 + rest // 36_524 - rest // (_DAYS_OF_CYCLE - 1)) // 365
    month = (5 * (rest - (365 * year + year // 4 - year // 100)) + 2) // 153
    return (400 * cycle + year - 1970) * 12 + month + 2


def day_of_month_start(month: int) -> int:
    """The first day of a month, both counted from the epoch; the inverse of :func:`month_of_day`."""
    year, month = divmod(month - 2, 12)
    cycle, year = divmod(year + 1970, 400)
    return cycle * _DAYS_OF_CYCLE + 365 * year + year // 4 - year // 100 + (153 * month + 2) // 5 - _FIRST_DAY
