"""Defines, a row for each, how columns compute Python's functions and methods of texts, numbers and times.

The types of what they return are their rows in :mod:`windrow.expressions.built_in`. What has no row here is computed in
Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from windrow_runtime.codecs.value_type import Kind

# Any in this module: pyarrow has no types.

_FIRST_SECOND: Final = -30_610_224_000  # of the year 1000: Python writes earlier years with fewer digits
_LAST_SECOND: Final = 253_402_300_799  # of the year 9999


class NotInColumnsError(Exception):
    """Arrow cannot compute an expression for a batch as Python does."""


@dataclass(frozen=True, slots=True)
class OnArrays:
    """How columns compute a function of one value, or a method of a value.

    Attributes:
        kinds: The kinds of values that it takes.
        arrow: Computes it of the array of the values, and of the constant texts.
        texts: How many constant texts the method takes, none of them empty.
        is_total: Whether ``arrow`` gives what Python gives for every array; else it may raise NotInColumnsError.
    """

    kinds: frozenset[Kind]
    arrow: Callable[..., Any]
    texts: int = 0
    is_total: bool = True


def _ascii(function: Callable[[Any], Any], texts: Any) -> Any:
    if not pc.all(pc.string_is_ascii(texts)).as_py() and len(texts):
        raise NotInColumnsError("a text has other letters than those of ASCII")
    return function(texts)


def _seconds(times: Any) -> Any:
    """The whole seconds since 1970 of times, or of seconds."""
    if not pa.types.is_timestamp(times.type):
        return times
    return pa.array(times.cast(pa.timestamp("us", tz="UTC")).view(pa.int64()).to_numpy() // 1_000_000)


def _formatted(seconds: Any, template: str) -> Any:
    """Formats times, each different one once: a batch has few of them."""
    encoded = seconds.dictionary_encode()
    distinct = encoded.dictionary
    bounds = pc.min_max(distinct)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and not _FIRST_SECOND <= low <= high <= _LAST_SECOND:
        raise NotInColumnsError("a time is in a year before 1000 or after 9999")
    texts = pc.strftime(distinct.cast(pa.timestamp("s", tz="UTC")), format=template)
    return texts.take(encoded.indices)


_STR: Final = frozenset({Kind.STR})
_INTS: Final = frozenset({Kind.BOOL, Kind.INT})

CALLS: Final[Mapping[str, OnArrays]] = {
    "float": OnArrays(_INTS | {Kind.FLOAT}, lambda numbers: numbers.cast(pa.float64(), safe=False)),
    "int": OnArrays(_INTS, lambda numbers: numbers.cast(pa.int64(), safe=False)),
    "len": OnArrays(_STR, lambda texts: pc.utf8_length(texts).cast(pa.int64())),
    "utc": OnArrays(frozenset(), _seconds),  # no column of its own, but the seconds that a method of it takes
}
"""The functions of one argument."""

METHODS: Final[Mapping[str, OnArrays]] = {
    "count": OnArrays(_STR, lambda texts, part: pc.count_substring(texts, pattern=part).cast(pa.int64()), texts=1),
    "endswith": OnArrays(_STR, lambda texts, end: pc.ends_with(texts, pattern=end), texts=1),
    "lower": OnArrays(_STR, partial(_ascii, pc.ascii_lower), is_total=False),
    "split": OnArrays(_STR, lambda texts, by: pc.split_pattern(texts, pattern=by), texts=1, is_total=False),
    "startswith": OnArrays(_STR, lambda texts, begin: pc.starts_with(texts, pattern=begin), texts=1),
    "strftime": OnArrays(frozenset({Kind.DATETIME}), _formatted, texts=1, is_total=False),
    "strip": OnArrays(_STR, pc.utf8_trim_whitespace),  # as in Python that of Unicode, \x1c to \x1f included
    "upper": OnArrays(_STR, partial(_ascii, pc.ascii_upper), is_total=False),
}
"""The methods, by their names."""
