"""Elements of Arrow record batches: each array becomes one list, and the lists of the fields become records."""

from __future__ import annotations

import datetime
import json
import operator
import uuid
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, repeat
from typing import Final

import pyarrow as pa
from pyarrow import types

from windrow_runtime.codecs.json.lines import JsonLines
from windrow_runtime.codecs.malformed import MalformedRecord, UnfitError, columns_error
from windrow_runtime.codecs.records import build_records
from windrow_runtime.codecs.value_type import COLLECTIONS, Field, Kind, RecordType, ValueType, fits_decimal

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()


def check_arrow_schema(schema: pa.Schema, record_type: RecordType) -> None:
    """Raises a ``SourceError`` with a line for each column that is missing or cannot be decoded; others are ignored."""
    faults = schema_faults(schema, record_type)
    if faults:
        raise columns_error(
            record_type.name,
            faults,
            given=", ".join(f"{field.name}: {field.type}" for field in schema),
            expected=", ".join(f"{field.column}: {field.type}" for field in record_type.columns),
            hint="correct the columns or the record type; a field that is Optional or has a default needs no column",
        )


def schema_faults(schema: pa.Schema, record_type: RecordType) -> list[str]:
    """Lists the faults that keep columns from being decoded, one line for each."""
    return _field_faults(schema, record_type.columns, record_type.prefix)


def _field_faults(schema: pa.Schema | pa.StructType, fields: Sequence[Field], prefix: str) -> list[str]:
    faults: list[str] = []
    for field in fields:
        index = schema.get_field_index(field.column)
        if index >= 0:
            faults += _type_faults(schema.field(index).type, field.column_type, f"{prefix}{field.column}")
        elif field.required:
            faults.append(f"{prefix}{field.column}: no such column, or two of them; expected {field.type}")
    return faults


def _type_faults(given: pa.DataType, value: ValueType, path: str) -> list[str]:
    kind = value.kind
    wrong = [f"{path}: expected {value}, not {given}"]
    if types.is_dictionary(given):
        given = given.value_type
    if types.is_null(given):
        return [] if value.nullable else wrong
    if kind in (Kind.RECORD, Kind.TUPLE):
        return _field_faults(given, value.columns, f"{path}.") if types.is_struct(given) else wrong
    if kind is Kind.DICT:
        if not types.is_map(given):
            return wrong
        key, item = value.arguments
        return _type_faults(given.key_type, key, f"{path}{{key}}") + _type_faults(given.item_type, item, f"{path}{{}}")
    if kind in COLLECTIONS:
        if not (types.is_list(given) or types.is_large_list(given)):
            return wrong
        return _type_faults(given.value_type, value.arguments[0], f"{path}[]")
    if kind is Kind.DATETIME and types.is_timestamp(given) and given.tz is None and value.timezone is None:
        return [f"{wrong[0]}: it has no time zone, so it names no moment; the source may say timezone="]
    reads = given.id in _READABLE.get(value.scalar_kind, ())
    return [] if reads and (kind is not Kind.DECIMAL or fits_decimal(given.precision, given.scale)) else wrong


def _ids(*given: pa.DataType) -> frozenset[int]:
    return frozenset(one.id for one in given)


_SMALL: Final = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())
# The columns of scalars that can be read as a kind without loss, whatever the unit of times is.
_READABLE: Final[dict[Kind, frozenset[int]]] = {
    Kind.BOOL: _ids(pa.bool_()),
    Kind.INT: _ids(*_SMALL, pa.int64(), pa.uint32()),
    Kind.FLOAT: _ids(*_SMALL, pa.float16(), pa.float32(), pa.float64()),
    Kind.STR: _ids(pa.string(), pa.large_string()),
    Kind.UUID: _ids(pa.string(), pa.large_string()),
    Kind.BYTES: _ids(pa.binary(), pa.large_binary()),
    Kind.DECIMAL: _ids(pa.decimal128(1)),
    Kind.DATETIME: _ids(pa.timestamp("us")),
    Kind.DATE: _ids(pa.date32()),
    Kind.TIMEDELTA: _ids(pa.duration("us")),
}


def decode_batch(
    batch: pa.RecordBatch, record_type: RecordType, on_error: Callable[[MalformedRecord], None] | None = None
) -> list[object]:
    """The elements of a record batch, in the order of the rows; columns are found by name.

    Datetimes come back in UTC. Rows that do not fit are missing from the answer: ``on_error`` is called for each of
    them, in their order, and ``MalformedRecord.row`` says which it is. Without ``on_error`` the first is a
    ``MalformedRecordError``. Columns that do not fit the record type are a ``SourceError``.
    """
    check_arrow_schema(batch.schema, record_type)
    return _decode_rows(batch, record_type, on_error, 0)


def lines_of_rows(batch: pa.RecordBatch, record_type: RecordType, lines: JsonLines) -> str:
    """The JSON lines of the elements of a record batch with all columns of the type, without making the elements."""
    if not lines.has_columns:
        return lines.encode(decode_batch(batch, record_type))
    name = record_type.name
    return lines.of_columns(
        [_decode(batch.column(field.column), field.type, f"{name}.{field.name}") for field in record_type.columns]
    )


def _decode_rows(
    batch: pa.RecordBatch, record_type: RecordType, on_error: Callable[[MalformedRecord], None] | None, first: int
) -> list[object]:
    """Halves a batch that fails until the row at fault is alone; its own failure tells the field and the reason."""
    root, name = record_type.root, record_type.name
    try:
        if not record_type.single:
            return _decode_struct(batch, root, name)
        index = batch.schema.get_field_index("value")
        return [None] * batch.num_rows if index < 0 else _decode(batch.column(index), root, name)
    except UnfitError as error:
        fault = error
    if batch.num_rows > 1:
        middle = batch.num_rows // 2
        values = _decode_rows(batch.slice(0, middle), record_type, on_error, first)
        return values + _decode_rows(batch.slice(middle), record_type, on_error, first + middle)
    malformed = MalformedRecord(_raw(batch), fault.reason, fault.path, first)
    if on_error is None:
        raise malformed.error()
    on_error(malformed)
    return []


def _raw(row: pa.RecordBatch) -> str:
    """A row as JSON, with Arrow's text of a value that Python does not have: a year beyond 9999."""
    cells: dict[str, object] = {}
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            cells[name] = column[0].as_py()
        except (ValueError, OverflowError):
            cells[name] = str(column.to_string()).strip("[] \n")
    return json.dumps(cells, default=str, ensure_ascii=False)


def _decode_struct(batch: pa.RecordBatch, value: ValueType, path: str) -> list[object]:
    """Decodes records or tuples, none of them null."""
    fields: list[Field] = []
    columns: list[list[object]] = []
    dot = "." if value.kind is Kind.RECORD else ""
    for field in value.columns:
        index = batch.schema.get_field_index(field.column)
        if index >= 0:
            columns.append(_decode(batch.column(index), field.column_type, f"{path}{dot}{field.name}"))
        elif field.type.nullable and field.default is None:
            columns.append([None] * batch.num_rows)
        else:
            continue  # the constructor fills in the default, or the key stays absent
        fields.append(field)
    if value.kind is Kind.TUPLE:
        return list(zip(*columns, strict=True))
    return build_records(value, fields, columns, batch.num_rows, path)


def _decode(array: pa.Array, value: ValueType, path: str) -> list[object]:
    if value.kind is Kind.NONE or (types.is_null(array.type) and value.nullable):
        return [None] * len(array)
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not array.null_count:
        return _decode_valid(array, value, path)
    if not value.nullable:
        raise UnfitError(path, "null in a required field")
    valid: list[bool] = array.is_valid().to_pylist()
    following = iter(_decode_valid(array.drop_null(), value, path))
    return [next(following) if ok else None for ok in valid]


def _decode_valid(array: pa.Array, value: ValueType, path: str) -> list[object]:
    """The values of an array without nulls."""
    kind = value.kind
    if kind in (Kind.RECORD, Kind.TUPLE):
        return _decode_struct(pa.RecordBatch.from_struct_array(array), value, path)
    if kind is Kind.DICT:
        return _decode_map(array, value, path)
    if kind in COLLECTIONS:
        items = _decode(array.flatten(), value.arguments[0], f"{path}[]")
        runs: list[object] = [items[start:end] for start, end in _runs(array)]
        return runs if kind is Kind.LIST else list(map(value.python_type, runs))
    if kind is Kind.ENUM:
        members = _decode_valid(array, value.arguments[0], path)
        return _converted(map(value.python_type, members), path, value)
    return _decode_scalars(array, value, path)


def _runs(array: pa.Array) -> Sequence[tuple[int, int]]:
    """The starts and ends of the lists of an array within its flattened values."""
    offsets: list[int] = array.offsets.to_numpy().tolist()
    first = offsets[0] if offsets else 0
    return [(start - first, end - first) for start, end in pairwise(offsets)]


def _decode_map(array: pa.Array, value: ValueType, path: str) -> list[object]:
    offsets = array.offsets
    first, length = offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py()
    key, item = value.arguments
    # Unlike a list's flatten(), the keys and items of a slice are those of the whole array.
    keys = _decode(array.keys.slice(first, length), key, f"{path}{{key}}")
    items = _decode(array.items.slice(first, length), item, f"{path}{{}}")
    return [dict(zip(keys[start:end], items[start:end], strict=True)) for start, end in _runs(array)]


def _decode_scalars(array: pa.Array, value: ValueType, path: str) -> list[object]:
    kind = value.kind
    if kind is Kind.DATETIME:
        elapsed = _microseconds(array, pa.timestamp("us", tz=array.type.tz), value, path)
        moments: Iterable[datetime.datetime] = map(operator.add, repeat(_EPOCH), elapsed)
        if array.type.tz is None and value.timezone is not None:
            # What the clock shows twice is the first of the two moments.
            moments = (shown.replace(tzinfo=value.timezone).astimezone(datetime.UTC) for shown in moments)
        return _converted(moments, path, value)
    if kind is Kind.DATE:
        ordinals = map(operator.add, repeat(_EPOCH_DAY), array.view(pa.int32()).to_numpy().tolist())
        return _converted(map(datetime.date.fromordinal, ordinals), path, value)
    if kind is Kind.TIMEDELTA:
        return _converted(_microseconds(array, pa.duration("us"), value, path), path, value)
    if kind is Kind.UUID:
        return _converted(map(uuid.UUID, array.to_pylist()), path, value)
    if kind is Kind.DECIMAL:
        return _converted(array.to_pylist(), path, value)
    if kind is Kind.INT:
        array = array.cast(pa.int64())
    elif kind is Kind.FLOAT:
        array = array.cast(pa.float64())
    # Numpy makes Python's values faster than to_pylist() in older releases of Arrow.
    values: list[object] = array.to_numpy(zero_copy_only=False).tolist()
    return values


def _microseconds(array: pa.Array, wanted: pa.DataType, value: ValueType, path: str) -> list[datetime.timedelta]:
    """Times as spans of microseconds. What is finer, or beyond 64 bits, does not fit: Python cannot hold it."""
    try:
        numbers = array.cast(wanted).view(pa.int64())
    except pa.ArrowInvalid as error:
        raise UnfitError(path, f"not a {value.python_type.__name__} of microseconds: {error}") from error
    spans: list[datetime.timedelta] = numbers.to_numpy().astype("m8[us]").tolist()
    return spans


def _converted(values: Iterable[object], path: str, value: ValueType) -> list[object]:
    """The values of an iterator that may fail: a year beyond 9999, an unknown member of an Enum."""
    try:
        return list(values)
    except (ValueError, OverflowError, TypeError) as error:
        raise UnfitError(path, f"not a {value.python_type.__name__}: {error}") from error
