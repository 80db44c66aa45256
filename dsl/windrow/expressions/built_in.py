"""The operators, functions and methods of Python that an expression may use, a row for each.

A row says what Python computes, or the type of the result. How columns compute one is its row in the engine.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

__all__ = ["CALLS", "COMPARISONS", "METHOD_TYPES", "UNARY", "BuiltIn"]

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

METHOD_TYPES: Final[Mapping[tuple[object, str], object]] = MappingProxyType(
    {
        (str, "count"): int,
        (str, "endswith"): bool,
        (str, "lower"): str,
        (str, "split"): list[str],
        (str, "startswith"): bool,
        (str, "strip"): str,
        (str, "upper"): str,
        (datetime.datetime, "strftime"): str,
    }
)
"""The types of what methods return, by the type of the value and the name of the method."""
