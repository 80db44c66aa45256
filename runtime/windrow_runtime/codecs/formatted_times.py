"""Reads and writes moments and dates in the formats that annotations state: ``strptime`` patterns, epoch times."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from windrow.formats import DateFormat, EpochTime
from windrow_runtime.codecs.value_type import Kind, ValueType

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_MOST: Final = 10**20  # more than any unit has within the years of Python


def format_parser(value: ValueType) -> Callable[[object], object]:
    """Makes the parser of a type with a format: of texts, or of numbers.

    The parser raises a ``TypeError`` for another type of value, and else a ``ValueError`` or an ``OverflowError`` for
    what names no moment.
    """
    time_format = value.time_format
    if isinstance(time_format, EpochTime):
        return _epoch_parser(time_format)
    assert time_format is not None, "the type has a format"
    return _pattern_parser(time_format, value)


def _epoch_parser(epoch: EpochTime) -> Callable[[object], object]:
    factor = 1_000_000 // epoch.per_second

    def parse(number: object) -> object:
        if isinstance(number, bool) or not isinstance(number, (int, float, Decimal)):
            raise TypeError
        if not -_MOST < number < _MOST:
            raise OverflowError("outside of the years 1 to 9999")
        if isinstance(number, int):
            return EPOCH + datetime.timedelta(microseconds=number * factor)
        exact = number if isinstance(number, Decimal) else Decimal(repr(number))
        return EPOCH + datetime.timedelta(microseconds=round(exact * factor))

    return parse


def _pattern_parser(time_format: DateFormat, value: ValueType) -> Callable[[object], object]:
    pattern = time_format.pattern
    zone = time_format.timezone or value.timezone
    is_date = value.kind is Kind.DATE

    def parse(text: object) -> object:
        if not isinstance(text, str):
            raise TypeError
        try:
            moment = datetime.datetime.strptime(text, pattern)
        except ValueError:
            raise ValueError(f"no text of the pattern {pattern!r}") from None
        if is_date:
            return moment.date()
        if moment.tzinfo is None:
            if zone is None:
                raise ValueError(
                    "a date and time without an offset, so it names no moment; "
                    "the source or the DateFormat may say timezone="
                )
            moment = moment.replace(tzinfo=zone)
        return moment.astimezone(datetime.UTC)

    return parse


def format_writer(value: ValueType) -> Callable[[object], object]:
    """Makes the writer of a type with a format; a value that would be read back as another raises a ``ValueError``."""
    form = value.time_format
    write = _epoch_writer(form) if isinstance(form, EpochTime) else _pattern_writer(value)
    parse = format_parser(value)

    def checked(moment: object) -> object:
        written = write(moment)
        if parse(written) != moment:
            raise ValueError(
                f"it would be read back from {form} as another value: it is finer, or its clock comes twice that day"
            )
        return written

    return checked


def _epoch_writer(epoch: EpochTime) -> Callable[[object], object]:
    factor = 1_000_000 // epoch.per_second

    def write(moment: object) -> object:
        assert isinstance(moment, datetime.datetime), "the class was checked"
        if moment.utcoffset() is None:
            raise ValueError("the datetime has no time zone, so it names no moment")
        micros = (moment - EPOCH) // _MICROSECOND
        return micros // factor if micros % factor == 0 else micros / factor

    return write


def _pattern_writer(value: ValueType) -> Callable[[object], object]:
    time_format = value.time_format
    assert isinstance(time_format, DateFormat), "the type has a pattern"
    pattern = time_format.pattern
    zone = time_format.timezone
    has_offset = "%z" in pattern.replace("%%", "")

    def write(moment: object) -> object:
        if not isinstance(moment, datetime.datetime):
            assert isinstance(moment, datetime.date), "the class was checked"
            return moment.strftime(pattern)
        if moment.utcoffset() is None:
            raise ValueError("the datetime has no time zone, so it names no moment")
        if zone is None and not has_offset:
            raise ValueError("the pattern has no offset, so the text names no moment; DateFormat may say timezone=")
        return moment.astimezone(zone or datetime.UTC).strftime(pattern)

    return write
