"""From lists of Python values to Arrow arrays."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from operator import itemgetter
from types import NoneType

import pyarrow as pa

from windrow_runtime.codecs.arrow.types import arrow_type
from windrow_runtime.codecs.malformed import UnfitError, short_repr
from windrow_runtime.codecs.records import record_columns
from windrow_runtime.codecs.value_type import COLLECTIONS, Kind, RecordType, ValueType


def encode_columns(values: Sequence[object], record_type: RecordType) -> list[pa.Array]:
    """One array per column of the record type.

    Raises:
        UnfitError: A value is not of its type. Which record holds it is not known here.
    """
    if record_type.single:
        return [_encode(list(values), record_type.root, record_type.name)]
    _check_types(values, record_type.root, record_type.name)
    return _encode_parts(values, record_type.root, record_type.name)


def _check_types(values: Sequence[object], value: ValueType, path: str) -> bool:
    """Refuses values of other classes; says whether there is a ``None`` among them."""
    kinds = set(map(type, values))
    kinds.discard(value.python_type)
    has_none = NoneType in kinds
    if has_none and not value.nullable:
        raise UnfitError(path, "None in a field that is not Optional", str(value))
    kinds.discard(NoneType)
    for kind in kinds:
        if not value.admits(kind):
            wrong = next(item for item in values if type(item) is kind)
            raise UnfitError(path, f"{short_repr(wrong)} is a {kind.__name__}", str(value))
    return has_none


def _encode(values: Sequence[object], value: ValueType, path: str) -> pa.Array:
    """An array of values, ``None`` among them where the type allows it."""
    if value.kind is Kind.NONE:
        for item in values:
            if item is not None:
                raise UnfitError(path, f"{short_repr(item)} is not None", "None")
        return pa.nulls(len(values))
    has_none = _check_types(values, value, path)
    if value.kind in (Kind.RECORD, Kind.TUPLE):
        return _encode_struct(values, value, path, has_none)
    if value.kind is Kind.DICT:
        return _encode_map(values, value, path)
    if value.kind in COLLECTIONS:
        return _encode_list(values, value, path)
    return _encode_scalars(values, value, path)


def _encode_scalars(values: Sequence[object], value: ValueType, path: str) -> pa.Array:
    kind = value.kind
    if kind is Kind.ENUM:
        # Not the value attribute: a class may shadow it.
        values = [None if item is None else getattr(item, "_value_") for item in values]  # noqa: B009
    elif kind is Kind.UUID:
        values = [None if item is None else str(item) for item in values]
    elif kind is Kind.DATETIME:
        for item in values:
            if isinstance(item, datetime.datetime) and item.utcoffset() is None:
                raise UnfitError(
                    path,
                    f"{short_repr(item)} has no time zone, so it names no moment",
                    "an aware datetime, such as datetime.now(timezone.utc)",
                )
    target = arrow_type(value)
    try:
        return pa.array(values, target)
    except Exception:
        for item in values:
            try:
                pa.array([item], target)
            except Exception as error:
                raise UnfitError(path, f"{short_repr(item)}: {error}", _range_of(value)) from error
        raise


def _range_of(value: ValueType) -> str:
    if value.kind is Kind.INT:
        return f"{value} of 64 bits"
    if value.kind is Kind.DECIMAL:
        return f"{value} with at most 20 digits before the point and 18 behind it"
    return str(value)


def _encode_struct(values: Sequence[object], value: ValueType, path: str, has_none: bool) -> pa.Array:
    present = [item for item in values if item is not None] if has_none else values
    children = _encode_parts(present, value, path)
    dense = pa.StructArray.from_arrays(children, fields=list(arrow_type(value)))
    if not has_none:
        return dense
    positions = accumulate((item is not None for item in values), initial=0)
    places = [None if item is None else position for item, position in zip(values, positions, strict=False)]
    return dense.take(pa.array(places, pa.int64()))


def _encode_parts(values: Sequence[object], value: ValueType, path: str) -> list[pa.Array]:
    """Encodes the fields of records, or the parts of tuples; none of the values is ``None``."""
    if value.kind is Kind.RECORD:
        columns = record_columns(values, value, path)
        return [
            _encode(column, field.column_type, f"{path}.{field.name}")
            for field, column in zip(value.fields, columns, strict=True)
        ]
    tuples = [item for item in values if isinstance(item, tuple)]
    width = len(value.arguments)
    for wrong in set(map(len, tuples)) - {width}:
        raise UnfitError(path, f"a tuple of {wrong}", f"a tuple of {width}: {value}")
    return [_encode(list(map(itemgetter(i), tuples)), part, f"{path}[{i}]") for i, part in enumerate(value.arguments)]


def _offsets(sizes: Sequence[int | None]) -> pa.Array:
    """Offsets in which a null marks a null list."""
    ends = accumulate((size or 0 for size in sizes), initial=0)
    # zip ends with the sizes; the last offset remains.
    starts = [None if size is None else end for size, end in zip(sizes, ends, strict=False)]
    return pa.array([*starts, sum(size or 0 for size in sizes)], pa.int32())


def _encode_list(values: Sequence[object], value: ValueType, path: str) -> pa.Array:
    (element,) = value.arguments
    lists = [item for item in values if isinstance(item, (list, tuple, set, frozenset))]
    sizes = [len(item) if isinstance(item, (list, tuple, set, frozenset)) else None for item in values]
    child = _encode(list(chain.from_iterable(lists)), element, f"{path}[]")
    return pa.ListArray.from_arrays(_offsets(sizes), child, type=arrow_type(value))


def _encode_map(values: Sequence[object], value: ValueType, path: str) -> pa.Array:
    key, item_type = value.arguments
    mappings = [item for item in values if isinstance(item, Mapping)]
    sizes = [len(item) if isinstance(item, Mapping) else None for item in values]
    keys = _encode(list(chain.from_iterable(mappings)), key, f"{path}{{key}}")
    items = _encode(list(chain.from_iterable(mapping.values() for mapping in mappings)), item_type, f"{path}{{}}")
    return pa.MapArray.from_arrays(_offsets(sizes), keys, items, type=arrow_type(value))
