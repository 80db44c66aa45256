"""Checks textual arguments: delimiters, encodings, time zones, and names."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from windrow.errors import InvalidArgumentError

# Control characters, and what ends a line or a paragraph; the categories of Unicode.
_NOT_SHOWN: Final = {"Cc", "Cs", "Zl", "Zp"}


def has_half_surrogate(text: str) -> bool:
    """Whether a text has half of a surrogate pair, which is no character: it cannot be written or sent anywhere."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def is_line(text: str) -> bool:
    """Whether a text can be shown in a line: it has no half of a surrogate pair, and no control character."""
    return text.isprintable() or not any(unicodedata.category(character) in _NOT_SHOWN for character in text)


def checked_delimiter(delimiter: str) -> str:
    """Checks the character between the values of a CSV file.

    Raises:
        InvalidArgumentError: If it is not one character, or one that values are quoted with or lines end with.
    """
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise InvalidArgumentError("the delimiter must be one character", given=delimiter, expected="such as ','")
    return delimiter


def checked_flag(flag: bool, what: str) -> bool:
    """Checks an option that is on or off: a text such as ``"no"`` would count as on.

    Raises:
        InvalidArgumentError: If it is no bool.
    """
    if not isinstance(flag, bool):
        raise InvalidArgumentError(f"{what} must be a bool", given=flag, expected="True or False")
    return flag


def checked_texts(texts: Sequence[str], what: str) -> tuple[str, ...]:
    """Checks texts that stand for a value in CSV.

    Raises:
        InvalidArgumentError: If it is one text, or holds something else than texts.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable) or not all(isinstance(text, str) for text in texts):
        raise InvalidArgumentError(
            f"{what} is several texts", given=texts, expected="a tuple or a list of str", hint=f'{what}=("NA",)'
        )
    return tuple(texts)


def checked_number_signs(decimal: str, thousands: str | None) -> tuple[str, str | None]:
    """Checks the sign before the fraction of numbers, and the one between groups of their digits.

    Raises:
        InvalidArgumentError: If one is not one character, or part of numbers otherwise, or both are the same.
    """
    for sign in (decimal,) if thousands is None else (decimal, thousands):
        if not isinstance(sign, str) or len(sign) != 1 or sign in '0123456789+-eE"\r\n':
            raise InvalidArgumentError("a sign in numbers must be one character", given=sign, expected="such as ','")
    if decimal == thousands:
        raise InvalidArgumentError(
            "decimal and thousands are the same sign", given=decimal, expected="two signs, such as ',' and '.'"
        )
    return decimal, thousands


def checked_names(fields: str | Sequence[str], what: str) -> tuple[str, ...]:
    """Checks the names of fields: one, or several.

    Raises:
        InvalidArgumentError: If one is empty or no text, or is there twice.
    """
    names = (fields,) if isinstance(fields, str) or not isinstance(fields, Iterable) else tuple(fields)
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise InvalidArgumentError(
            f"the {what} are names of fields", given=fields, expected="names such as 'day', each once"
        )
    return names


def checked_encoding(name: str) -> str:
    """Python's own name of an encoding.

    Raises:
        InvalidArgumentError: If Python knows no encoding of characters by that name.
    """
    try:
        info = codecs.lookup(name)
        "\n".encode(name)  # refuses encodings of bytes, such as base64
        b"\xff\n".decode(name, "replace")  # and those of names, such as idna, which cannot pass over what is malformed
        if info.name == "punycode":  # another one, which can from Python 3.13 on
            raise LookupError(name)
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            "the encoding is unknown", given=name, expected="a name that Python knows, such as 'utf-8' or 'cp1252'"
        ) from error
    return info.name


def checked_timezone(timezone: str | tzinfo | None) -> tzinfo | None:
    """The time zone in which a source reads dates and times that have none.

    Raises:
        InvalidArgumentError: If there is no zone of that name, or if an object of another kind is given.
    """
    if timezone is None:
        return None
    if isinstance(timezone, str):
        if timezone == "UTC":
            return UTC
        try:
            return ZoneInfo(timezone)
        except (KeyError, OSError, ValueError) as error:
            raise _unknown_zone(timezone) from error
    if not isinstance(timezone, tzinfo) or hasattr(timezone, "localize"):
        raise InvalidArgumentError(
            "timezone is no time zone of the standard library",
            given=timezone,
            expected="a name such as 'Europe/Berlin', or a tzinfo",
            hint="give a zone of pytz by its name",
        )
    return timezone


def _unknown_zone(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the time zone is unknown",
        given=name,
        expected="a name such as 'Europe/Berlin', or a tzinfo",
        hint="where the system has no data of time zones: pip install tzdata",
    )
