"""Defines the text forms of values for which JSON and CSV have no type: ISO 8601, base64, decimal digits."""

from __future__ import annotations

import base64
import datetime
import decimal
import re
import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from windrow_runtime.codecs.record_type import Kind

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""What stands in the name of a folder for null, and for an empty text: readers take no name without a value."""

MAX_NAME_BYTES: Final = 255
"""The bytes of the longest name that file systems take."""

_DAY: Final = r"(?:\d{4}-\d\d-\d\d|\d{8}|\d{4}-W\d\d(?:-\d)?|\d{4}W\d\d\d?)"
# The forms that datetime.fromisoformat reads, without those that have other separators.
_DATETIME = re.compile(
    rf"(?P<day>{_DAY})(?:[Tt ](?P<clock>\d\d(?::\d\d(?::\d\d)?|\d\d(?:\d\d)?)?)(?:[.,](?P<fraction>\d+))?"
    r" ?(?P<offset>[Zz]|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?)?",
    re.ASCII,
)
# Most texts have this form, which datetime reads as it stands: seconds, at most six digits after them, an offset.
_USUAL_DATETIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_OFFSET = re.compile(r"[Zz]|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d(?::?[0-5]\d)?)?", re.ASCII)
_DURATION = re.compile(
    r"(?P<sign>-)?P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+)(?:\.(?P<microseconds>\d{1,6}))?S)?)?",
    re.ASCII,
)


def parse_datetime(text: str, zone: datetime.tzinfo | None = None) -> datetime.datetime:
    """The moment that an ISO 8601 text names, in UTC.

    The text is one that ``datetime.fromisoformat`` reads; after the microseconds it may have zeros. The zone is where
    the clock is of a text without an offset. What it shows twice is the first of the two moments. It is a
    ``ValueError`` if the text names none, and an ``OverflowError`` outside of the years 1 to 9999.
    """
    if _USUAL_DATETIME.fullmatch(text) is not None:
        return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError("not an ISO 8601 date and time")
    day, clock, fraction, offset = match.groups()
    if fraction is not None:
        if len(clock.replace(":", "")) < 6:
            raise ValueError("not an ISO 8601 date and time")
        if fraction[6:].strip("0"):
            raise ValueError("finer than a microsecond, which datetime cannot hold")
    if offset is not None and _OFFSET.fullmatch(offset) is None:
        raise ValueError("not a time zone's offset")
    digits = "" if fraction is None else f".{fraction[:6]}"
    moment = datetime.datetime.fromisoformat(f"{day}T{clock or '00'}{digits}{(offset or '').upper()}")
    if moment.tzinfo is None:
        if zone is None:
            raise ValueError(
                "a date and time without an offset such as Z or +01:00, so it names no moment; "
                "the source may say timezone="
            )
        moment = moment.replace(tzinfo=zone)
    return moment.astimezone(datetime.UTC)


def _format_datetime(moment: datetime.datetime) -> str:
    if moment.tzinfo is datetime.UTC:  # as nearly all are
        return f"{moment.isoformat()[:-6]}Z"
    if moment.utcoffset() is None:
        raise ValueError("the datetime has no time zone, so it names no moment")
    return moment.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def _parse_timedelta(text: str) -> datetime.timedelta:
    match = _DURATION.fullmatch(text)
    units = {} if match is None else {unit: number for unit, number in match.groupdict().items() if number is not None}
    sign = units.pop("sign", None)
    if not units:
        raise ValueError("not an ISO 8601 duration in days, hours, minutes and seconds")
    if "microseconds" in units:
        units["microseconds"] = units["microseconds"].ljust(6, "0")
    length = datetime.timedelta(**{unit: int(number) for unit, number in units.items()})
    return length if sign is None else -length


def _format_timedelta(length: datetime.timedelta) -> str:
    sign = "-" if length < datetime.timedelta(0) else ""
    length = abs(length)
    fraction = f".{length.microseconds:06}" if length.microseconds else ""
    return f"{sign}P{length.days}DT{length.seconds}{fraction}S"


def _format_decimal(number: decimal.Decimal) -> str:
    if not number.is_finite():
        raise ValueError("not a finite number")
    return str(number)


def _parse_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"not base64: {error}") from None


def _matching(pattern: str, form: str, make: Callable[[str], object]) -> Callable[[str], object]:
    """Makes a parser of the texts that a pattern describes."""
    fullmatch = re.compile(pattern, re.ASCII).fullmatch

    def parse(text: str) -> object:
        if fullmatch(text) is None:
            raise ValueError(f"not {form}")
        return make(text)

    return parse


class TextForm(NamedTuple):
    """The text form of a kind of values; a value or text without one is a ``ValueError`` or ``OverflowError``."""

    name: str  # in messages
    parse: Callable[[str], object]
    # Any: each takes only the class of its kind, which the encoder has checked.
    format: Callable[[Any], str]


TEXT_FORMS: Final[dict[Kind, TextForm]] = {
    Kind.DATETIME: TextForm("an ISO 8601 date and time", parse_datetime, _format_datetime),
    Kind.DATE: TextForm(
        "an ISO 8601 date", _matching(_DAY, "an ISO 8601 date", datetime.date.fromisoformat), datetime.date.isoformat
    ),
    Kind.TIMEDELTA: TextForm("an ISO 8601 duration, such as P1DT2.5S", _parse_timedelta, _format_timedelta),
    Kind.DECIMAL: TextForm(
        "a decimal number",
        _matching(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", "a decimal number", decimal.Decimal),
        _format_decimal,
    ),
    Kind.UUID: TextForm(
        "a UUID",
        _matching(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "a UUID with its four hyphens", uuid.UUID),
        str,
    ),
    Kind.BYTES: TextForm("base64 text", _parse_bytes, lambda data: base64.b64encode(data).decode("ascii")),
}
