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

__all__ = ["FORMATTERS", "FORMS", "PARSERS"]

_DATETIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:([Zz])|([+-])(\d\d):?(\d\d))?", re.ASCII
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DURATION = re.compile(
    r"(-)?P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?", re.ASCII
)
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _parse_datetime(text: str) -> datetime.datetime:
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError("not an ISO 8601 date and time")
    day, clock, fraction, _, sign, hours, minutes = match.groups()
    # datetime.fromisoformat takes neither "Z" nor more than six digits before Python 3.11.
    moment = datetime.datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=datetime.timezone.utc)
    if fraction is not None:
        digits = f"{fraction:0<7}"
        moment += datetime.timedelta(microseconds=int(digits[:6]) + (digits[6] >= "5"))
    if sign is not None:
        if int(hours) > 23 or int(minutes) > 59:
            raise ValueError("not a time zone's offset")
        offset = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        moment = moment - offset if sign == "+" else moment + offset
    return moment


def _format_datetime(moment: datetime.datetime) -> str:
    if moment.utcoffset() is None:
        raise ValueError("the datetime has no time zone, so it names no moment")
    return moment.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")


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
    Kind.DATETIME: _parse_datetime,
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
