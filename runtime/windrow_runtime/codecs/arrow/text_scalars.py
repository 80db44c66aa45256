"""Values of columns of texts: numbers, truth values, dates and times, where Arrow reads each as the plain parsers do.

Each function takes an array of texts, in which nulls stay null. It gives ``None`` where a text is not the value that
the parsers of :mod:`windrow_runtime.codecs.text_forms` and of CSV make of it, or where only Python can tell.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow_runtime.codecs.value_type import Kind, ValueType

# Any in this module: pyarrow has no types.

_LONGEST_INT: Final = 20
_FULL_TIME: Final = len("2026-01-31T12:00:00")
_TIME: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?"
_OFFSET_TIME: Final = rf"{_TIME}(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)$"
# Most texts that are read as values of their kinds, and few others.
_FORMS: Final = {
    Kind.BOOL: "(?i)^(true|false)$",
    Kind.INT: r"^-?\d{1,18}$",
    Kind.FLOAT: r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?$",
    Kind.DATETIME: _OFFSET_TIME,
    Kind.DATE: r"^\d{4}-\d\d-\d\d$",
}
# An offset may move a moment by a day over the bounds of Python's years.
_MOMENTS: Final = (-62_135_596_800_000_000 + 86_400_000_000, 253_402_300_799_999_999 - 86_400_000_000)


def _byte_set(allowed: bytes) -> Any:
    table = np.zeros(256, bool)
    table[list(allowed)] = True
    return table


_DECIMAL: Final = _byte_set(b"0123456789+-.eE")
_INTEGER: Final = _byte_set(b"0123456789-")


def text_values(texts: pa.Array, value: ValueType) -> pa.Array | None:
    """Returns the values of texts as a column of their type; the kind is one of ``TEXT_KINDS``."""
    if value.kind is Kind.DATETIME:
        return _moments(texts, value.timezone)
    read = _READERS.get(value.kind)
    return texts if read is None else read(texts)


def doubtful_texts(texts: pa.Array, value: ValueType) -> Any:
    """Returns which texts may have to be read in another way, where :func:`text_values` cannot read them all."""
    form = f"{_TIME}$" if value.kind is Kind.DATETIME and value.timezone is datetime.UTC else _FORMS[value.kind]
    return ~pc.match_substring_regex(texts, form).fill_null(True).to_numpy(zero_copy_only=False)


def _ints(texts: pa.Array) -> pa.Array | None:
    # Arrow takes hexadecimal digits, and any number of zeros in front.
    return _cast(texts, pa.int64()) if _consists_of(texts, _INTEGER) and _longest(texts) <= _LONGEST_INT else None


def _floats(texts: pa.Array) -> pa.Array | None:
    # Arrow takes names of what is not finite, some of which the parsers refuse.
    numbers = _cast(texts, pa.float64()) if _consists_of(texts, _DECIMAL) else None
    return numbers if numbers is not None and pc.all(pc.is_finite(numbers)).as_py() is not False else None


def _bools(texts: pa.Array) -> pa.Array | None:
    lower = pc.ascii_lower(texts)
    true = pc.equal(lower, "true")
    return true if pc.all(pc.or_(true, pc.equal(lower, "false"))).as_py() is not False else None


def _moments(texts: pa.Array, zone: datetime.tzinfo | None) -> pa.Array | None:
    with_zone = pc.all(pc.ends_with(texts, "Z")).as_py() is not False
    # A text of this length that Arrow takes has seconds; an offset may lack minutes.
    if _shortest(texts) < _FULL_TIME + with_zone:
        return None
    if not with_zone and pc.all(pc.match_substring_regex(texts, _OFFSET_TIME)).as_py() is False:
        if zone is not datetime.UTC:
            return None  # Python knows where the clock is
        shown = _cast(texts, pa.timestamp("us"))
        moments = None if shown is None else shown.cast(pa.timestamp("us", "UTC"))
    else:
        moments = _cast(texts, pa.timestamp("us", "UTC"))
    return moments if moments is not None and _within(moments.view(pa.int64()), *_MOMENTS) else None


def _dates(texts: pa.Array) -> pa.Array | None:
    days = _cast(texts, pa.date32()) if _shortest(texts) >= len("2026-01-31") else None
    first = (datetime.date.min - datetime.date(1970, 1, 1)).days
    return days if days is not None and _within(days.view(pa.int32()), first, 1 << 30) else None


def _cast(texts: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    try:
        return texts.cast(wanted)
    except pa.ArrowInvalid:
        return None


def _within(numbers: pa.Array, first: int, last: int) -> bool:
    low, high = (bound.as_py() for bound in pc.min_max(numbers).values())
    return low is None or first <= low <= high <= last


def _longest(texts: pa.Array) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _shortest(texts: pa.Array) -> int:
    found = pc.min(pc.binary_length(texts)).as_py()
    return _FULL_TIME + 1 if found is None else found


def _consists_of(texts: pa.Array, allowed: Any) -> bool:
    """Returns whether all bytes of texts are among some; nulls have none."""
    _, ends, data = texts.buffers()
    if data is None:
        return True
    bounds = np.frombuffer(ends, np.int32)[[texts.offset, texts.offset + len(texts)]]
    return bool(allowed[np.frombuffer(data, np.uint8)[bounds[0] : bounds[1]]].all())


_READERS: Final[dict[Kind, Callable[[pa.Array], pa.Array | None]]] = {
    Kind.BOOL: _bools,
    Kind.INT: _ints,
    Kind.FLOAT: _floats,
    Kind.DATE: _dates,
}
TEXT_KINDS: Final = frozenset({*_READERS, Kind.STR, Kind.DATETIME})
