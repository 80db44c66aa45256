"""Packs lists of Python values into bytes, for the exchange between Python workers.

Values of one record class are taken apart into columns and put together again by calling the class; that is two to five
times as fast as pickling them one by one. Everything else is pickled as it is. No value changes its type: a list whose
values are not all of exactly one class is pickled.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from windrow_runtime.codecs.records import construct, record_fields
from windrow_runtime.spark.exchange.classes import class_name, find_class, pickle_any

# Any throughout this module: values are the user's, of every type.

PackedValues: TypeAlias = "Sequence[Any] | tuple[bytes, int, tuple[PackedValues, ...]] | bytes"
"""A list of scalars as it is; or the name of a class, how many values, and their columns; or a pickle."""

PackedTimestamps: TypeAlias = "bytes | list[int | None]"
"""64-bit numbers side by side; or a list where some element has no timestamp."""

_SCALARS = frozenset({bool, int, float, str, bytes, type(None)})


def pack_values(values: list[Any]) -> PackedValues:
    """Turns values into nested builtins, which pickle carries fast. Undone by :func:`unpack_values`."""
    kinds = set(map(type, values))
    if kinds <= _SCALARS:
        return values
    if len(kinds) == 1:
        (kind,) = kinds
        names = record_fields(kind)
        if names:
            # One pass for each field is three times as fast as making a tuple of each value.
            columns = (list(map(attrgetter(name), values)) for name in names)
            return (class_name(kind), len(values), tuple(map(pack_values, columns)))
    return pickle_any(values)


def unpack_values(packed: PackedValues) -> Sequence[Any]:
    """Returns the values that :func:`pack_values` was given."""
    if isinstance(packed, bytes):
        values: Sequence[Any] = pickle.loads(packed)
        return values
    if isinstance(packed, tuple):
        reference, _, columns = packed
        return construct(find_class(reference), [unpack_values(column) for column in columns])
    return packed


def pack_timestamps(timestamps: Sequence[int | None]) -> PackedTimestamps:
    """Turns timestamps into nested builtins. Undone by :func:`unpack_timestamps`."""
    try:
        # None makes this raise, which costs less than a search for None.
        return array("q", timestamps).tobytes()  # type: ignore[type-var]
    except TypeError:
        return list(timestamps)


def unpack_timestamps(packed: PackedTimestamps) -> Sequence[int | None]:
    """Returns the timestamps that :func:`pack_timestamps` was given."""
    if isinstance(packed, bytes):
        return array("q", packed).tolist()
    return packed
