"""Converts columns of texts to values: the numbers, truth values and times that Arrow reads as the plain parsers do.

The plain parsers are those of :mod:`windrow_runtime.codecs.text_forms` and of CSV.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.value_type import DefaultFactory, Kind, RecordField, RecordType, ValueType

# Any in this module: pyarrow has no types.

Mask: TypeAlias = npt.NDArray[np.bool_]

_LONGEST_INT: Final = 20
_FULL_TIME: Final = len("2026-01-31T12:00:00")
# No offset leads out of the years 1 to 9999. A leap day may be none.
_DAY: Final = (
    r"^(?:000[2-9]|00[1-9]\d|0[1-9]\d\d|[1-8]\d{3}|9[0-8]\d\d|99[0-8]\d|999[0-8])"
    r"-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|[12]\d))"
)
_CLOCK_TIME: Final = rf"{_DAY}[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{{1,6}})?"
_OFFSET: Final = r"(?:Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)$"
_LEAP_DAY: Final = "-02-29"
# Texts that Arrow reads as the plain parsers do: nearly all that they take.
_FORMS: Final = {
    Kind.BOOL: "^(?:[tT][rR][uU][eE]|[fF][aA][lL][sS][eE])$",
    Kind.INT: r"^-?\d{1,18}$",
    # A number of 2 ** 53 and more may be no float.
    Kind.FLOAT: r"^[+-]?(?:\d{1,15}|\d{1,15}\.\d*|\.\d+|\d{1,5}(?:\.\d*)?[eE]\+?\d|\d{1,15}(?:\.\d*)?[eE]-\d{1,2})$",
    Kind.DATETIME: _CLOCK_TIME + _OFFSET,
    Kind.DATE: f"{_DAY}$",
}
# An offset may move a moment by a day over the bounds of Python's years.
_MOMENTS: Final = (-62_135_596_800_000_000 + 86_400_000_000, 253_402_300_799_999_999 - 86_400_000_000)


def _byte_set(allowed: bytes) -> Any:
    table = np.zeros(256, bool)
    table[list(allowed)] = True
    return table


_DECIMAL: Final = _byte_set(b"0123456789+-.eE")
_INTEGER: Final = _byte_set(b"0123456789-")


def absent_is_none(field: RecordField) -> bool:
    """Returns whether a field that a record lacks is ``None``."""
    default = field.default
    return field.type.nullable and (default is None or (isinstance(default, DefaultFactory) and default.value is None))


def read_columns(cells: Sequence[pa.Array], record_type: RecordType) -> tuple[pa.RecordBatch, Mask]:
    """Reads the columns of a type from texts or values; returns the columns of the good rows, and a mask of these.

    The other rows are for the plain reader: they lack a value, or have a text that Arrow may read in another way.
    """
    good: Mask = np.ones(len(cells[0]), bool)
    columns: list[pa.Array] = []
    for texts, field, wanted in zip(cells, record_type.columns, arrow_schema(record_type).types, strict=True):
        if texts.null_count and not absent_is_none(field):
            good &= texts.is_valid().to_numpy(zero_copy_only=False)
        values = texts if texts.type == wanted else _converted(texts, field.type)
        if values is None:
            clear, is_clear = _clear_texts(texts, field.type)
            good &= is_clear
            values = _converted(clear, field.type)
            assert values is not None, "all texts have the form of their kind"
        columns.append(values)
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(record_type))
    return batch if good.all() else batch.filter(pa.array(good)), good


def _clear_texts(texts: pa.Array, value: ValueType) -> tuple[pa.Array, Mask]:
    """Keeps the texts that Arrow reads as the plain parsers do; returns them with null for the others, and a mask."""
    if value.kind is Kind.DATETIME and value.timezone is datetime.UTC:
        is_local = pc.match_substring_regex(texts, f"{_CLOCK_TIME}$")
        texts = pc.if_else(is_local, pc.binary_join_element_wise(texts, "Z", ""), texts)
    clear: Mask = pc.match_substring_regex(texts, _FORMS[value.kind]).fill_null(True).to_numpy(zero_copy_only=False)
    if value.kind in (Kind.DATETIME, Kind.DATE):
        is_leap_day = pc.match_substring(texts, _LEAP_DAY).fill_null(False).to_numpy(zero_copy_only=False)
        leap_days = np.flatnonzero(is_leap_day & clear)
        years = pc.utf8_slice_codeunits(texts.take(pa.array(leap_days)), 0, 4).cast(pa.int64()).to_numpy()
        clear[leap_days] = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    # Unlike if_else(), it keeps no bytes of the others.
    return texts.take(pa.array(np.arange(len(texts)), mask=~clear)), clear


def _converted(texts: pa.Array, value: ValueType) -> pa.Array | None:
    """The values of texts, nulls as nulls; ``None`` if Arrow may read one of them in another way."""
    return _moments(texts, value.timezone) if value.kind is Kind.DATETIME else _READERS[value.kind](texts)


def _ints(texts: pa.Array) -> pa.Array | None:
    # Arrow takes hexadecimal digits, and any number of leading zeros.
    return _cast(texts, pa.int64()) if _consists_of(texts, _INTEGER) and _longest(texts) <= _LONGEST_INT else None


def _floats(texts: pa.Array) -> pa.Array | None:
    # Arrow takes names of what is not finite, some of which the parsers refuse.
    numbers = _cast(texts, pa.float64()) if _consists_of(texts, _DECIMAL) else None
    # Whether a float has the digits of a larger one only the parsers know.
    return numbers if numbers is not None and _within(numbers, 1 - 2**53, 2**53 - 1) else None


def _bools(texts: pa.Array) -> pa.Array | None:
    lower = pc.ascii_lower(texts)
    true = pc.equal(lower, "true")
    return true if pc.all(pc.or_(true, pc.equal(lower, "false"))).as_py() is not False else None


def _moments(texts: pa.Array, zone: datetime.tzinfo | None) -> pa.Array | None:
    with_zone = pc.all(pc.ends_with(texts, "Z")).as_py() is not False
    # A text of this length that Arrow takes has seconds; an offset may lack minutes.
    if _shortest(texts) < _FULL_TIME + with_zone:
        return None
    if not with_zone and pc.all(pc.match_substring_regex(texts, _CLOCK_TIME + _OFFSET)).as_py() is False:
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
    least = pc.min(pc.binary_length(texts)).as_py()
    return _FULL_TIME + 1 if least is None else least


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
