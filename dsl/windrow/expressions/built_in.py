"""Lists the operators, functions and methods of Python that an expression may use, a row for each.

A row says what Python computes, or the type of the result. How columns compute one is its row in the engine.
"""

from __future__ import annotations

import datetime
import decimal
import math
import operator
import time
import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

# Any in this module: operands of every type.

UNARY: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {"-": operator.neg, "+": operator.pos, "abs": operator.abs}
)
"""The operators of one operand."""

COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})


class BuiltIn(NamedTuple):
    """A function of one argument, and the type of its result."""

    python: Callable[[Any], Any]
    result: type


def _utc(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


CALLS: Final[Mapping[str, BuiltIn]] = MappingProxyType(
    {
        "float": BuiltIn(float, float),
        "int": BuiltIn(int, int),
        "len": BuiltIn(len, int),
        "utc": BuiltIn(_utc, datetime.datetime),
    }
)
"""The functions of one argument; ``utc`` is ``datetime.fromtimestamp(seconds, UTC)``."""


def _rows(table: Mapping[object, Mapping[object, str]]) -> Mapping[tuple[object, str], object]:
    """Makes the table of the types of attributes or methods, by class and name."""
    return MappingProxyType(
        {
            (owner, name): kind
            for owner, kinds in table.items()
            for kind, names in kinds.items()
            for name in names.split()
        }
    )


_CLOCK = "hour minute second microsecond fold"

ATTRIBUTE_TYPES: Final = _rows(
    {
        int: {int: "real imag numerator denominator"},
        float: {float: "real imag"},
        datetime.date: {int: "year month day"},
        datetime.datetime: {int: _CLOCK, datetime.tzinfo | None: "tzinfo"},
        datetime.time: {int: _CLOCK, datetime.tzinfo | None: "tzinfo"},
        datetime.timedelta: {int: "days seconds microseconds"},
        uuid.UUID: {int: "int", bytes: "bytes", str: "hex urn"},
    }
)
"""The types of attributes of Python's classes, by the class that has them and their names."""

METHOD_TYPES: Final = _rows(
    {
        int: {int: "bit_length bit_count conjugate", tuple[int, int]: "as_integer_ratio"},
        float: {bool: "is_integer", str: "hex", tuple[int, int]: "as_integer_ratio", float: "conjugate"},
        str: {
            int: "count find index rfind rindex",
            bool: "endswith isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable "
            "isspace istitle isupper startswith",
            str: "capitalize casefold center expandtabs format join ljust lower lstrip removeprefix removesuffix "
            "replace rjust rstrip strip swapcase title translate upper zfill",
            list[str]: "rsplit split splitlines",
            tuple[str, str, str]: "partition rpartition",
            bytes: "encode",
        },
        bytes: {
            int: "count find index rfind rindex",
            bool: "endswith isalnum isalpha isascii isdigit islower isspace istitle isupper startswith",
            bytes: "join lower lstrip removeprefix removesuffix replace rstrip strip title upper",
            list[bytes]: "split splitlines",
            str: "decode hex",
        },
        decimal.Decimal: {
            bool: "is_finite is_infinite is_nan is_signed is_zero",
            decimal.Decimal: "copy_abs copy_negate exp ln log10 normalize quantize sqrt to_integral_value",
            int: "adjusted",
            tuple[int, int]: "as_integer_ratio",
        },
        datetime.date: {str: "ctime isoformat strftime", int: "isoweekday toordinal weekday", datetime.date: "replace"},
        datetime.datetime: {
            str: "ctime isoformat strftime",
            float: "timestamp",
            datetime.date: "date",
            datetime.time: "time timetz",
            datetime.datetime: "astimezone replace",
            datetime.timedelta | None: "dst utcoffset",
            str | None: "tzname",
        },
        datetime.time: {str: "isoformat strftime"},
        datetime.timedelta: {float: "total_seconds"},
        list: {int: "count index"},
    }
)
"""The types of what methods return, by the class that has them and their names."""

_MOMENT: Final = datetime.datetime

FUNCTION_TYPES: Final[Mapping[object, object]] = MappingProxyType(
    {
        **dict.fromkeys((ascii, bin, chr, format, hex, oct, repr), str),
        **dict.fromkeys((callable, isinstance, issubclass, math.isfinite, math.isinf, math.isnan, math.isclose), bool),
        **dict.fromkeys((hash, id, len, ord, math.gcd, time.time_ns), int),
        **dict.fromkeys((math.sqrt, math.exp, math.log, math.log2, math.log10, math.log1p, math.pow), float),
        **dict.fromkeys((math.sin, math.cos, math.tan, math.atan2, math.hypot, math.radians, math.degrees), float),
        **dict.fromkeys((math.fabs, math.fmod, math.dist, time.time), float),
        **dict.fromkeys((_MOMENT.combine, _MOMENT.fromisoformat, _MOMENT.fromtimestamp, _MOMENT.now), _MOMENT),
        _MOMENT.strptime: _MOMENT,
        datetime.date.fromisoformat: datetime.date,
    }
)
"""The types of what functions return, whatever they are given."""


def _operators() -> Mapping[tuple[str, object, object], object]:
    decimals, spans = decimal.Decimal, datetime.timedelta
    rows: list[tuple[str, object, object, object]] = [
        ("+ - * // %", int, int, int),
        ("/", int, int, float),
        *[("+ - * / // %", one, other, float) for one, other in ((int, float), (float, int), (float, float))],
        ("**", float, int, float),
        *[("+ - * / // % **", one, other, decimals) for one, other in ((decimals, int), (int, decimals))],
        ("+ - * / // % **", decimals, decimals, decimals),
        ("+ - %", spans, spans, spans),
        ("/", spans, spans, float),
        ("//", spans, spans, int),
        ("* / //", spans, int, spans),
        ("* /", spans, float, spans),
        *[("*", number, spans, spans) for number in (int, float)],
    ]
    for moments in (datetime.date, datetime.datetime):
        rows += [("-", moments, moments, spans), ("+ -", moments, spans, moments), ("+", spans, moments, moments)]
    for texts in (str, bytes):
        rows += [("+", texts, texts, texts), ("*", texts, int, texts), ("*", int, texts, texts)]
    return {(symbol, left, right): result for symbols, left, right, result in rows for symbol in symbols.split()}


OPERATOR_TYPES: Final = MappingProxyType(_operators())
"""The types of what operators give, by their symbol and the types of their operands."""

UNARY_TYPES: Final[Mapping[object, object]] = MappingProxyType(
    {bool: int, **{kind: kind for kind in (int, float, decimal.Decimal, datetime.timedelta)}}
)
"""The types of what the operators of one operand give, by the type of that."""
