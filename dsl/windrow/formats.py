"""Defines annotations for the formats of fields: patterns of dates, epoch times, and any JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final, NewType

from typing_extensions import TypeAliasType

from windrow.errors import InvalidArgumentError
from windrow.text_options import checked_timezone

__all__ = ["DateFormat", "EpochMicros", "EpochMillis", "EpochSeconds", "EpochTime", "JsonValue", "RawJson"]


@dataclass(frozen=True, slots=True, init=False)
class DateFormat:
    """The pattern in which JSON and CSV have a ``datetime`` or a ``date``.

    It annotates the type of a field: ``Annotated[datetime, DateFormat("%d.%m.%Y %H:%M")]``.

    Sources read the text with Python's ``strptime``, and sinks write it with ``strftime``. A sink refuses a value that
    would not be read back as it was, such as one with seconds where the pattern has none.

    Args:
        pattern: The directives of ``strptime``, such as ``"%d.%m.%Y %H:%M"``. Where it has ``%z`` the text has the
            offset itself.
        timezone: Where the clock is of a pattern without ``%z``: a name such as ``"Europe/Berlin"``, or a ``tzinfo``.
            Without it a source reads with its own ``timezone``, and a sink refuses a ``datetime``.

    Raises:
        InvalidArgumentError: For a pattern that ``strptime`` does not know, or one with ``%Z``, whose zone it drops, or
            for an unknown time zone.
    """

    pattern: str
    timezone: tzinfo | None

    def __init__(self, pattern: str, *, timezone: str | tzinfo | None = None) -> None:
        _check_pattern(pattern)
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "timezone", checked_timezone(timezone))

    def __str__(self) -> str:
        return f"a text of the pattern {self.pattern!r}"


_EXAMPLE: Final = datetime(2001, 2, 13, 14, 5, 6, 700_000, tzinfo=UTC)


def _check_pattern(pattern: str) -> None:
    if isinstance(pattern, str) and "%" in pattern and "%Z" not in pattern.replace("%%", ""):
        try:
            datetime.strptime(_EXAMPLE.strftime(pattern), pattern)
        except ValueError as error:
            reason = f": {error}"
        else:
            return
    else:
        reason = ""
    raise InvalidArgumentError(
        f"a date format is a pattern of strptime{reason}",
        given=pattern,
        expected='directives such as "%d.%m.%Y %H:%M", without %Z',
        hint="write the letters of a zone as they are, and give timezone=; an offset is %z; %d reads one digit as well",
    )


@dataclass(frozen=True, slots=True)
class EpochTime:
    """A ``datetime`` as the number of units since 1970 in UTC; see :data:`EpochMillis`.

    Attributes:
        unit: What is counted.
        per_second: How many units a second has.
    """

    unit: str
    per_second: int

    def __str__(self) -> str:
        return f"a number of {self.unit} since 1970"


EpochSeconds: Final = EpochTime("seconds", 1)
"""JSON and CSV have a field ``Annotated[datetime, EpochSeconds]`` as seconds since 1970 in UTC.

The number may have a fraction, which is rounded to microseconds."""

EpochMillis: Final = EpochTime("milliseconds", 1_000)
"""JSON and CSV have a field ``Annotated[datetime, EpochMillis]`` as milliseconds since 1970 in UTC."""

EpochMicros: Final = EpochTime("microseconds", 1_000_000)
"""JSON and CSV have a field ``Annotated[datetime, EpochMicros]`` as microseconds since 1970 in UTC."""

JsonValue = TypeAliasType("JsonValue", "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None")
"""The type of a field that holds any JSON value, as Python's ``json`` makes it; ``Any`` in a record means the same.

JSON sources take the value that stands there, and :class:`~windrow.sinks.JsonFileSink` writes it as it is. A cell of
CSV and a text column of Parquet, Delta Lake, Iceberg, SQLite or a DataFrame hold the JSON text of the value, and
PostgreSQL has it as ``JSONB``; the value ``None`` is an empty cell, or null. Text that is no JSON makes a malformed
record. Values are nested at most 200 deep, and their numbers are finite. A sink raises an ``InvalidArgumentError`` for
what JSON does not have, such as a tuple or a ``datetime``."""

RawJson = NewType("RawJson", str)
"""The type of a field that holds the text of a JSON value, which is checked and not parsed.

JSON sources take the text as it stands, with its spaces, its digits and the order of its keys, and
:class:`~windrow.sinks.JsonFileSink` writes it as the value itself, with blanks in the place of line ends between its
parts. Elsewhere it is held as a :data:`JsonValue` is. The text ``null`` is a value; ``None`` needs ``RawJson | None``,
which takes a null for it."""
