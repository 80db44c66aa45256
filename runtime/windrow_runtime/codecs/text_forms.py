"""The text forms of values that JSON and CSV have no type for: ISO 8601, base64, decimal digits."""

from __future__ import annotations

import base64
import datetime
import decimal
import re
import uuid
from collections.abc import Callable
from typing import Any

from windrow_runtime.codecs.record_type import Kind

_DATETIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:([Zz])|([+-])(\d\d):?(\d\d))?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DURATION = re.compile(r"(-)?P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MICROSECOND_DIGITS = 6
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def parse_datetime(text: str, zone: datetime.tzinfo | None = None) -> datetime.datetime:
    """The moment that an ISO 8601 text names, in UTC.

    Args:
        text: The text.
        zone: Where the clock is of a text without an offset. What it shows twice is the first of the two moments.

    Raises:
        ValueError: For another text, one without an offset where there is no zone, and one that is finer than Python.
        OverflowError: For a moment outside of the years 1 to 9999.
    """
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError("not an ISO 8601 date and time")
    day, clock, fraction, utc, sign, hours, minutes = match.groups()
    if fraction is not None and len(fraction) > _MICROSECOND_DIGITS:
        raise ValueError("finer than a microsecond, which datetime cannot hold")
    moment = datetime.datetime.fromisoformat(f"{day}T{clock}.{fraction or 0:0<6}")
    if utc is None and sign is None:
        if zone is None:
            raise ValueError(
                "a date and time without an offset such as Z or +01:00, so it names no moment; "
                "the source may say timezone="
            )
        return moment.replace(tzinfo=zone).astimezone(datetime.UTC)
    moment = moment.replace(tzinfo=datetime.UTC)
    if sign is not None:
        if int(hours) > 23 or int(minutes) > 59:
            raise ValueError("not a time zone's offset")
        offset = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        moment = moment - offset if sign == "+" else moment + offset
    return moment


def _format_datetime(moment: datetime.datetime) -> str:
    if moment.utcoffset() is None:
        raise ValueError("the datetime has no time zone, so it names no moment")
    return moment.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def _parse_date(text: str) -> datetime.date:
    if _DATE.fullmatch(text) is None:
        raise ValueError("not an ISO 8601 date")
    return datetime.date.fromisoformat(text)


def _parse_timedelta(text: str) -> datetime.timedelta:
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:]):
        raise ValueError("not an ISO 8601 duration in days, hours, minutes and seconds")
    sign, days, hours, minutes, seconds, fraction = match.groups()
    length = datetime.timedelta(
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=int(seconds or 0),
        microseconds=int(f"{fraction or 0:0<6}"),
    )
    return -length if sign else length


def _format_timedelta(length: datetime.timedelta) -> str:
    sign = "-" if length < datetime.timedelta(0) else ""
    length = abs(length)
    fraction = f".{length.microseconds:06}" if length.microseconds else ""
    return f"{sign}P{length.days}DT{length.seconds}{fraction}S"


def _parse_decimal(text: str) -> decimal.Decimal:
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError("not a decimal number")
    return decimal.Decimal(text)


def _format_decimal(number: decimal.Decimal) -> str:
    if not number.is_finite():
        raise ValueError("not a finite number")
    return str(number)


def _parse_uuid(text: str) -> uuid.UUID:
    if _UUID.fullmatch(text) is None:
        raise ValueError("not a UUID with its four hyphens")
    return uuid.UUID(text)


def _parse_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"not base64: {error}") from None


# Each parser raises ValueError or OverflowError for a text of another form.
PARSERS: dict[Kind, Callable[[str], object]] = {
    Kind.DATETIME: parse_datetime,
    Kind.DATE: _parse_date,
    Kind.TIMEDELTA: _parse_timedelta,
    Kind.DECIMAL: _parse_decimal,
    Kind.UUID: _parse_uuid,
    Kind.BYTES: _parse_bytes,
}

FORMS: dict[Kind, str] = {
    Kind.DATETIME: "an ISO 8601 date and time",
    Kind.DATE: "an ISO 8601 date",
    Kind.TIMEDELTA: "an ISO 8601 duration, such as P1DT2.5S",
    Kind.DECIMAL: "a decimal number",
    Kind.UUID: "a UUID",
    Kind.BYTES: "base64 text",
}


# Any: each takes only the class of its kind, which the encoder has checked. They raise ValueError for a value
# without a text form.
FORMATTERS: dict[Kind, Callable[[Any], str]] = {
    Kind.DATETIME: _format_datetime,
    Kind.DATE: datetime.date.isoformat,
    Kind.TIMEDELTA: _format_timedelta,
    Kind.DECIMAL: _format_decimal,
    Kind.UUID: str,
    Kind.BYTES: lambda data: base64.b64encode(data).decode("ascii"),
}
