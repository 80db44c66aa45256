"""Encodes elements as Arrow record batches.

A batch of records becomes one list a field, and a list becomes one Arrow array. Nothing is converted cell by cell,
except to find the record at fault once a batch has failed.
"""

from __future__ import annotations

import datetime
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, chain
from operator import itemgetter
from types import NoneType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from windrow.errors import InvalidArgumentError
from windrow_runtime.codecs.exact import as_plain
from windrow_runtime.codecs.json.any_json import checked_text, dump, plain_json
from windrow_runtime.codecs.malformed import UnfitError, misfit, short_repr
from windrow_runtime.codecs.records import record_columns
from windrow_runtime.codecs.value_type import COLLECTIONS, JSON_NULL, NESTED, Kind, RecordField, RecordType, ValueType

# Any in this module: pyarrow has no types.

_SCALARS: Final = {
    Kind.NONE: pa.null(),
    Kind.BOOL: pa.bool_(),
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.STR: pa.string(),
    Kind.UUID: pa.string(),
    Kind.JSON: pa.string(),
    Kind.RAW_JSON: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.DATETIME: pa.timestamp("us", tz="UTC"),
    Kind.DATE: pa.date32(),
    Kind.TIMEDELTA: pa.duration("us"),
}
_YEARS: Final = range(-62_135_596_800_000_000, 253_402_300_800_000_000)
"""The microseconds since 1970 of the years 1 to 9999."""
_CONTAINERS: Final = (list, tuple, set, frozenset, dict)


def arrow_type(value: ValueType) -> pa.DataType:
    """The Arrow type of a column: the one that Spark uses for the same Spark type."""
    kind = value.kind
    if kind in (Kind.RECORD, Kind.TUPLE):
        return pa.struct([pa.field(field.column, arrow_type(field.type)) for field in value.columns])
    if kind is Kind.DICT:
        key, item = value.arguments
        return pa.map_(arrow_type(key), arrow_type(item))
    if kind in COLLECTIONS:
        # "element" is Spark's name for it, and Arrow's type equality looks at names.
        return pa.list_(pa.field("element", arrow_type(value.arguments[0])))
    if kind is Kind.DECIMAL:
        return pa.decimal128(value.precision, value.scale)
    return arrow_type(value.arguments[0]) if kind is Kind.ENUM else _SCALARS[kind]


def arrow_schema(record_type: RecordType) -> pa.Schema:
    """The Arrow schema of a record type's columns, all nullable, as in every Spark table that was read from files."""
    return pa.schema([pa.field(field.column, arrow_type(field.type)) for field in record_type.columns])


def encode_batch(values: Sequence[object], record_type: RecordType) -> pa.RecordBatch:
    """Encodes elements as a record batch; raises an ``InvalidArgumentError`` for one that does not fit the type."""
    try:
        encoded = _encode(values, record_type.root, record_type.name)
    except Exception as error:  # pyarrow and attributes of the user's may raise anything
        raise _encoding_error(values, record_type, error) from error
    if record_type.single:
        return pa.RecordBatch.from_arrays([encoded], schema=arrow_schema(record_type))
    return pa.RecordBatch.from_struct_array(encoded)


def _encoding_error(values: Sequence[object], record_type: RecordType, first: Exception) -> InvalidArgumentError:
    """Finds the first record at fault by bisection, and says what is wrong with it."""
    name = record_type.name

    def fault_in(some: Sequence[object]) -> Exception | None:
        try:
            _encode(some, record_type.root, name)
        except Exception as error:
            return error
        return None

    # Values that hold the fault fail, and so do all longer ones.
    first_bad = bisect_left(range(len(values) - 1), True, key=lambda last: fault_in(values[: last + 1]) is not None)
    record = values[first_bad]
    fault = fault_in([record]) or first
    if isinstance(fault, UnfitError):
        return misfit(record, fault, name)
    return InvalidArgumentError(
        f"a value cannot be written to a column: {type(fault).__name__}: {fault}",
        given=short_repr(record),
        expected=name,
        where=name,
    )


def _encode(values: Sequence[object], value: ValueType, path: str) -> pa.Array:
    """Encodes values as an array, with nulls where the type is Optional; ``UnfitError`` for a value of another type."""
    if value.kind is Kind.NONE:
        for item in values:
            if item is not None:
                raise UnfitError(path, f"{short_repr(item)} is not None", "None")
        return pa.nulls(len(values))
    has_none, others = _check_types(values, value, path)
    if others and value.kind not in NESTED:
        values = [None if item is None else as_plain(item, value, path) for item in values]
    if value.kind in (Kind.RECORD, Kind.TUPLE):
        return _encode_struct(values, value, path, has_none)
    if value.kind is Kind.DICT or value.kind in COLLECTIONS:
        return _encode_container(values, value, path)
    return _encode_scalars(values, value, path)


def _check_types(values: Sequence[object], value: ValueType, path: str) -> tuple[bool, set[type]]:
    """Refuses values of wrong classes; returns whether a ``None`` is among them, and the other classes than its own."""
    kinds = set(map(type, values))
    kinds.discard(value.python_type)
    has_none = NoneType in kinds
    if has_none and not value.nullable:
        raise UnfitError(path, "None in a field that is not Optional", str(value))
    kinds.discard(NoneType)
    for class_ in kinds:
        if not value.admits(class_):
            wrong = next(item for item in values if type(item) is class_)
            raise UnfitError(path, f"{short_repr(wrong)} is a {class_.__name__}", str(value))
    return has_none, kinds


def _encode_scalars(values: Sequence[object], value: ValueType, path: str) -> pa.Array:
    kind = value.kind
    if kind is Kind.ENUM:
        # Not the value attribute: a class may shadow it.
        values = [None if item is None else getattr(item, "_value_") for item in values]  # noqa: B009
    elif kind is Kind.UUID:
        values = [None if item is None else str(item) for item in values]
    elif kind is Kind.JSON:
        if any(item is JSON_NULL for item in values):
            raise UnfitError(path, "None under a key that may be missing: a column has one null for both", str(value))
        values = [None if item is None else dump(plain_json(item, path)) for item in values]
    elif kind is Kind.RAW_JSON:
        values = [None if item is None else checked_text(str(item), path) for item in values]
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
        array = pa.array(values, target)
    except Exception:
        digits = f" with at most {value.precision - value.scale} digits before the point and {value.scale} after it"
        limits = {Kind.INT: " of 64 bits", Kind.DECIMAL: digits}
        for item in values:
            try:
                pa.array([item], target)
            except Exception as error:
                raise UnfitError(path, f"{short_repr(item)}: {error}", f"{value}{limits.get(kind, '')}") from error
        raise
    if kind is Kind.DATETIME:
        _check_years(values, array, value, path)
    return array


def _check_years(values: Sequence[object], moments: pa.Array, value: ValueType, path: str) -> None:
    """Refuses a moment whose offset takes it out of the years that Python has in UTC, where Arrow counts on."""
    ends = pc.min_max(moments.view(pa.int64())).as_py().values()
    if not all(end is None or end in _YEARS for end in ends):
        for item in values:
            if item is not None:
                as_plain(item, value, path)


def _encode_struct(values: Sequence[object], value: ValueType, path: str, has_none: bool) -> pa.Array:
    """Encodes records or tuples."""
    present = [item for item in values if item is not None] if has_none else values
    if value.kind is Kind.RECORD:
        columns = record_columns(present, value, path)
        paths = [f"{path}.{field.name}" for field in value.fields]
    else:
        tuples = [item for item in present if isinstance(item, tuple)]
        width = len(value.arguments)
        for wrong in set(map(len, tuples)) - {width}:
            raise UnfitError(path, f"a tuple of {wrong}", f"a tuple of {width}: {value}")
        columns = [list(map(itemgetter(i), tuples)) for i in range(width)]
        paths = [f"{path}[{i}]" for i in range(width)]
    types = [field.column_type for field in value.columns]
    dense = pa.StructArray.from_arrays(list(map(_encode, columns, types, paths)), fields=list(arrow_type(value)))
    if not has_none:
        return dense
    positions = accumulate((item is not None for item in values), initial=0)
    places = [None if item is None else position for item, position in zip(values, positions, strict=False)]
    return dense.take(pa.array(places, pa.int64()))


def _encode_container(values: Sequence[object], value: ValueType, path: str) -> pa.Array:
    """Encodes lists, sets and dicts: their elements as one array, and where each of them ends."""
    present = [item for item in values if isinstance(item, _CONTAINERS)]
    ends = accumulate(map(len, present), initial=0)
    # A null among the offsets marks a null list; the last one is the end of all.
    offsets = pa.array([*(None if item is None else next(ends) for item in values), next(ends)], pa.int32())
    elements = list(chain.from_iterable(present))
    if value.kind is not Kind.DICT:
        child = _encode(elements, value.arguments[0], f"{path}[]")
        return pa.ListArray.from_arrays(offsets, child, type=arrow_type(value))
    keys = _encode(elements, value.arguments[0], f"{path}{{key}}")
    dicts = [item for item in present if isinstance(item, dict)]
    items = _encode([item for each in dicts for item in each.values()], value.arguments[1], f"{path}{{}}")
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(value))


def with_constants(
    rows: pa.RecordBatch, record_type: RecordType, fields: Collection[RecordField], values: Mapping[str, object]
) -> pa.RecordBatch:
    """Adds columns with one value in all rows, for fields that the file of the rows lacks; null without a value."""
    columns: list[Any] = []
    arrays: list[Any] = []
    for field in record_type.columns:
        if field not in fields:
            for index in rows.schema.get_all_field_indices(field.column):
                columns.append(rows.schema.field(index))
                arrays.append(rows.column(index))
            continue
        wanted = arrow_type(field.type)
        array = pa.nulls(rows.num_rows, wanted)
        if values.get(field.name) is not None:
            single = RecordType(None, field.name, field.type, (RecordField("value", "value", field.type),))
            array = pa.repeat(encode_batch([values[field.name]], single).column(0)[0], rows.num_rows)
        columns.append(pa.field(field.column, wanted))
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(columns, metadata=rows.schema.metadata))
