"""Calendar windows: hours, days, weeks, months, quarters and years in a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Final, Literal, Self, TypeAlias, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from windrow.errors import InvalidArgumentError, similar_name
from windrow.triggers.call_text import call_text
from windrow.windows.assigner import AssignerContext, InEventTime, InProcessingTime, WindowAssigner
from windrow.windows.calendar_cuts import Calendar, Days, Hours, Months
from windrow.windows.window import TimeWindow

Weekday: TypeAlias = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
"""The name of a day of the week."""

_WEEKDAYS: Final[tuple[str, ...]] = get_args(Weekday)
_EPOCH_WEEKDAY: Final = _WEEKDAYS.index("thursday")
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_MOST_WINDOWS: Final = 100_000
_MIDNIGHT: Final = time()


class _CalendarWindows(WindowAssigner[object, TimeWindow]):
    """Windows of a calendar; :meth:`days` and the methods beside it make them.

    Args:
        calendar: Numbers the units.
        unit: The name of one.
        size: How many units a window has.
        slide: How many units after one window the next one begins.
        first: The day or the month with which weeks, quarters or years begin; None: Monday or January.
        start_time: The time of the clock at which days begin.
    """

    def __init__(
        self,
        calendar: Calendar,
        unit: str,
        size: int,
        slide: int,
        first: str | int | None = None,
        start_time: time = _MIDNIGHT,
    ) -> None:
        self.calendar = calendar
        self.unit = unit
        self.first = first
        self.start_time = start_time
        self.units = _whole(size, f"the size of windows, in {unit}s,")
        self.slide_units = _whole(slide, f"the slide of windows, in {unit}s,")
        length = unit if self.units == 1 else f"{unit}s"
        if not self.slide_units <= self.units <= self.slide_units * _MOST_WINDOWS:
            raise InvalidArgumentError(
                "the slide of calendar windows does not fit their size",
                given=f"size={self.units}, slide={self.slide_units}",
                expected=f"slide <= size, and an element in at most {_MOST_WINDOWS:,} windows",
                hint=f"without a slide, windows of {self.units} {length} follow each other",
            )
        self._latest: list[TimeWindow] = []
        self._valid = range(0)

    @classmethod
    def hours(cls, zone: str | ZoneInfo) -> Self:
        """Hours of the clock in a time zone.

        An hour that the clock shows twice makes two windows; one that it leaves out makes none. Where the clock is
        changed by part of an hour, as on Lord Howe Island, the change ends a window, and the next one begins with it.

        Args:
            zone: The time zone, such as ``"Asia/Kolkata"``.

        Raises:
            InvalidArgumentError: If the machine knows no such zone.
        """
        return cls(Hours(_zone(zone)), "hour", 1, 1)

    @classmethod
    def days(cls, zone: str | ZoneInfo, size: int = 1, slide: int | None = None, start_time: time = _MIDNIGHT) -> Self:
        """Days of the calendar in a time zone, of 23, 24 or 25 hours.

        A day begins when the clock first shows midnight, or jumps past it: at 01:00 where clocks were put forward at
        midnight. A day that a zone has left out, as Samoa has 30 December 2011, makes no window.

        Args:
            zone: The time zone, such as ``"Europe/Berlin"``.
            size: How many days a window has. Windows of several days begin at 1970-01-01 and multiples from there.
            slide: How many days after one window the next one begins; by default as many as a window has.
            start_time: When a day begins, by the clock of the zone: with ``time(18)`` the evening belongs to the next
                window, as in Kafka Streams' example of daily windows.

        Raises:
            InvalidArgumentError: If the machine knows no such zone, size and slide do not fit, or the time has a zone
                or a part of a millisecond.

        Example:
            >>> from windrow.windows import CalendarWindows
            >>> days = CalendarWindows.days("Europe/Berlin")
            >>> last_seven_days = CalendarWindows.days("Europe/Berlin", size=7, slide=1)
            >>> last_seven_days.describe()
            'CalendarWindows(7 days every day, Europe/Berlin)'
        """
        days = Days(_zone(zone), time_of_day=_millis_of(start_time))
        return cls(days, "day", size, size if slide is None else slide, None, start_time)

    @classmethod
    def weeks(
        cls,
        zone: str | ZoneInfo,
        size: int = 1,
        slide: int | None = None,
        first_day: Weekday = "monday",
        start_time: time = _MIDNIGHT,
    ) -> Self:
        """Weeks in a time zone; the first one of all has 1970-01-01 in it.

        Args:
            zone: The time zone.
            size: How many weeks a window has.
            slide: How many weeks after one window the next one begins; by default as many as a window has.
            first_day: The day with which a week begins.
            start_time: When that day begins, as for :meth:`days`.

        Raises:
            InvalidArgumentError: If the machine knows no such zone, there is no such day, size and slide do not fit, or
                the time is none of :meth:`days`.
        """
        if first_day not in _WEEKDAYS:
            raise InvalidArgumentError(
                "a week begins with a day of the week",
                given=first_day,
                expected=f"one of {', '.join(_WEEKDAYS)}",
                hint=similar_name(first_day.lower(), _WEEKDAYS) if isinstance(first_day, str) else None,
            )
        shift = (_EPOCH_WEEKDAY - _WEEKDAYS.index(first_day)) % 7
        first = None if first_day == "monday" else first_day
        days = Days(_zone(zone), 7, shift, _millis_of(start_time))
        return cls(days, "week", size, size if slide is None else slide, first, start_time)

    @classmethod
    def months(
        cls, zone: str | ZoneInfo, size: int = 1, slide: int | None = None, start_time: time = _MIDNIGHT
    ) -> Self:
        """Months in a time zone. Windows of several months begin in January 1970 and multiples from there.

        Args:
            zone: The time zone.
            size: How many months a window has.
            slide: How many months after one window the next one begins; by default as many as a window has.
            start_time: When the first day of a month begins, as for :meth:`days`.

        Raises:
            InvalidArgumentError: If the machine knows no such zone, size and slide do not fit, or the time is none of
                :meth:`days`.
        """
        return cls._of_months(zone, "month", size, slide, 1, start_time)

    @classmethod
    def quarters(
        cls,
        zone: str | ZoneInfo,
        size: int = 1,
        slide: int | None = None,
        first_month: int = 1,
        start_time: time = _MIDNIGHT,
    ) -> Self:
        """Quarters of a year in a time zone.

        Args:
            zone: The time zone.
            size: How many quarters a window has.
            slide: How many quarters after one window the next one begins; by default as many as a window has.
            first_month: The month with which the first quarter of a year begins, from 1 to 12.
            start_time: When the first day of a quarter begins, as for :meth:`days`.

        Raises:
            InvalidArgumentError: If the machine knows no such zone, there is no such month, size and slide do not fit,
                or the time is none of :meth:`days`.
        """
        return cls._of_months(zone, "quarter", size, slide, first_month, start_time)

    @classmethod
    def years(
        cls,
        zone: str | ZoneInfo,
        size: int = 1,
        slide: int | None = None,
        first_month: int = 1,
        start_time: time = _MIDNIGHT,
    ) -> Self:
        """Years in a time zone; the first one of all is that with January 1970 in it.

        Args:
            zone: The time zone.
            size: How many years a window has.
            slide: How many years after one window the next one begins; by default as many as a window has.
            first_month: The month with which a year begins, from 1 to 12; a fiscal year may begin with April.
            start_time: When the first day of a year begins, as for :meth:`days`.

        Raises:
            InvalidArgumentError: If the machine knows no such zone, there is no such month, size and slide do not fit,
                or the time is none of :meth:`days`.
        """
        return cls._of_months(zone, "year", size, slide, first_month, start_time)

    @classmethod
    def _of_months(
        cls, zone: str | ZoneInfo, unit: str, size: int, slide: int | None, first_month: int, start_time: time
    ) -> Self:
        if type(first_month) is not int or first_month not in range(1, 13):
            raise InvalidArgumentError(
                f"a {unit} begins with a month of the year", given=first_month, expected="an integer from 1 to 12"
            )
        months = _MONTHS[unit]
        # The unit 0 has January 1970 in it.
        calendar = Months(_zone(zone), months, (1 - first_month) % months, _millis_of(start_time))
        first = None if first_month == 1 else first_month
        return cls(calendar, unit, size, size if slide is None else slide, first, start_time)

    @property
    def time_zone(self) -> ZoneInfo:
        return self.calendar.zone

    def _windows(self, timestamp: int) -> list[TimeWindow]:
        # Most elements are in the windows of the one before.
        if timestamp not in self._valid:
            self._latest, self._valid = self._windows_anew(timestamp)
        return self._latest.copy()

    def _windows_anew(self, timestamp: int) -> tuple[list[TimeWindow], range]:
        start_of, slide = self.calendar.start_of, self.slide_units
        number = self.calendar.number_of(timestamp)
        last = number - number % slide
        windows = [
            TimeWindow(start_of(first), start_of(first + self.units))
            for first in range(last, number - self.units, -slide)
            # One that begins with a day that does not exist is the same as none.
            if start_of(first) < start_of(first + slide)
        ]
        return windows, range(start_of(number), start_of(number + 1))

    def describe(self) -> str:
        several = self.units > 1 or self.slide_units > 1
        parts = [f"{self.units} {self.unit}s" if several else f"{self.unit}s"]
        if self.slide_units != self.units:
            parts.append(f"every {self.slide_units} {self.unit}s" if self.slide_units > 1 else f"every {self.unit}")
        first = "" if self.first is None else f" from {'month ' if self.unit != 'week' else ''}{self.first}"
        at = "" if self.start_time == _MIDNIGHT else f" from {self.start_time}"
        return f"{type(self).__name__}({' '.join(parts)}{first}{at}, {self.time_zone.key})"

    def __repr__(self) -> str:
        first = None if self.first is None else repr(self.first)
        return call_text(
            f"{type(self).__name__}.{self.unit}s",
            repr(self.time_zone.key),
            size=None if self.units == 1 else str(self.units),
            slide=None if self.slide_units == self.units else str(self.slide_units),
            first_day=first if self.unit == "week" else None,
            first_month=first if self.unit != "week" else None,
            start_time=None if self.start_time == _MIDNIGHT else repr(self.start_time).removeprefix("datetime."),
        )


class CalendarWindows(_CalendarWindows, InEventTime[object]):
    """Hours, days, weeks, months, quarters or years of a time zone, in event time.

    They are Beam's ``CalendarWindows``, whose numbers of days, months and years count from 1970-01-01 as well. The
    rules of zones are those of ``zoneinfo``: of the machine, or of the package ``tzdata`` where it has none.
    """

    def assign_windows(self, element: object, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return self._windows(timestamp)


class CalendarProcessingTimeWindows(_CalendarWindows, InProcessingTime[object]):
    """Hours, days, weeks, months, quarters or years of a time zone, by the machine's clock."""

    def assign_windows(self, element: object, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return self._windows(context.current_processing_time)


def _whole(number: int, name: str) -> int:
    if type(number) is not int or number < 1:
        reason = "positive" if type(number) is int else "a whole number"
        raise InvalidArgumentError(f"{name} must be {reason}", given=number, expected="an integer of at least 1")
    return number


def _millis_of(start_time: time) -> int:
    """The milliseconds from midnight to a time, as a clock shows them."""
    # An int or a timedelta would be another thing that is meant; the zone of a time is that of the windows.
    if type(start_time) is not time or start_time.tzinfo is not None or start_time.microsecond % 1000:
        raise InvalidArgumentError(
            "a day begins at a time of the clock",
            given=start_time,
            expected="a datetime.time without a zone, in whole milliseconds, such as time(18, 30)",
        )
    since_midnight = datetime.combine(datetime.min, start_time) - datetime.min
    return since_midnight // timedelta(milliseconds=1)


def _zone(zone: str | ZoneInfo) -> ZoneInfo:
    if isinstance(zone, ZoneInfo):
        if zone.key is None:
            raise InvalidArgumentError(
                "the time zone was read from a file, and has no name that other machines know",
                given=zone,
                expected='the name of a zone, such as "Europe/Berlin"',
            )
        return zone
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise InvalidArgumentError(
            "the machine knows no such time zone",
            given=zone,
            expected='the name of a zone in the IANA database, such as "Europe/Berlin" or "UTC"',
            hint=_zone_hint(zone),
        ) from error


def _zone_hint(zone: object) -> str | None:
    """What to write instead of what is no zone."""
    names = available_timezones()
    if not names:
        return "pip install tzdata installs the database, which the machine has not"
    if isinstance(zone, str) and any(map(str.isdigit, zone)):
        return '"Etc/GMT+5" is the zone whose clocks are five hours behind UTC all year'
    if isinstance(zone, str):
        return similar_name(zone, names) or similar_name(zone.title(), names)
    if zone is UTC:
        return '"UTC"'
    return "the zone comes first, and then the size: days(zone, size)" if isinstance(zone, int) else None
