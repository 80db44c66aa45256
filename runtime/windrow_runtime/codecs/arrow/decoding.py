"""From Arrow arrays to lists of Python values."""

from __future__ import annotations

import datetime
import json
import operator
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise, repeat

import pyarrow as pa
from pyarrow import types

from windrow_runtime.codecs.malformed import MalformedRecord, UnfitError
from windrow_runtime.codecs.records import build_records, build_tuples, scatter
from windrow_runtime.codecs.value_type import COLLECTIONS, Field, Kind, RecordType, ValueType, fits_decimal

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_NULL = "null in a required field"


def schema_faults(schema: pa.Schema, record_type: RecordType) -> list[str]:
    """Lists the faults that keep columns from being decoded, one line for each."""
    if record_type.single:
        return _field_faults(record_type.columns, schema.get_field_index, schema.field, "")
    return _field_faults(record_type.columns, schema.get_field_index, schema.field, f"{record_type.name}.")


def _field_faults(
    fields: Sequence[Field], index_of: Callable[[str], int], field_at: Callable[[int], pa.Field], prefix: str
) -> list[str]:
    faults: list[str] = []
    for field in fields:
        index = index_of(field.column)
        if index >= 0:
            faults += _type_faults(field_at(index).type, field.column_type, f"{prefix}{field.column}")
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
        if not types.is_struct(given):
            return wrong
        return _field_faults(value.columns, given.get_field_index, given.field, f"{path}.")
    if kind is Kind.DICT:
        if not types.is_map(given):
            return wrong
        key, item = value.arguments
        return _type_faults(given.key_type, key, f"{path}{{key}}") + _type_faults(given.item_type, item, f"{path}{{}}")
    if kind in COLLECTIONS:
        if not (types.is_list(given) or types.is_large_list(given)):
            return wrong
        return _type_faults(given.value_type, value.arguments[0], f"{path}[]")
    if kind is Kind.ENUM:
        return wrong if _type_faults(given, value.arguments[0], path) else []
    if kind is Kind.DATETIME and types.is_timestamp(given) and given.tz is None and value.timezone is None:
        return [f"{wrong[0]}: it has no time zone, so it names no moment; the source may say timezone="]
    return [] if _reads(given, kind) else wrong


def _reads(given: pa.DataType, kind: Kind) -> bool:
    """Returns whether a column of scalars can be read as a kind without loss."""
    small = types.is_integer(given) and (given.bit_width < 32 or types.is_int32(given))
    if kind is Kind.BOOL:
        return bool(types.is_boolean(given))
    if kind is Kind.INT:
        return bool(small or types.is_int64(given) or types.is_uint32(given))
    if kind is Kind.FLOAT:
        return bool(small or types.is_floating(given))
    if kind in (Kind.STR, Kind.UUID):
        return bool(types.is_string(given) or types.is_large_string(given))
    if kind is Kind.BYTES:
        return bool(types.is_binary(given) or types.is_large_binary(given))
    if kind is Kind.DECIMAL:
        return bool(types.is_decimal128(given)) and fits_decimal(given.precision, given.scale)
    if kind is Kind.DATETIME:
        return bool(types.is_timestamp(given))
    if kind is Kind.DATE:
        return bool(types.is_date32(given))
    return kind is Kind.TIMEDELTA and bool(types.is_duration(given))


def decode_rows(
    batch: pa.RecordBatch, record_type: RecordType, *, stop_at_first: bool
) -> tuple[list[object], list[MalformedRecord]]:
    """The elements of a batch whose schema fits, and the rows that do not.

    A batch that fails is halved until the row at fault is alone; its own failure tells the field and the
    reason.

    Args:
        batch: The rows.
        record_type: Their type.
        stop_at_first: Give up at the first row at fault, because it will be raised.
    """
    malformed: list[MalformedRecord] = []
    try:
        return _decode_slice(batch, record_type), malformed
    except UnfitError:
        return _decode_halves(batch, 0, batch.num_rows, record_type, malformed, stop_at_first=stop_at_first), malformed


def _decode_halves(
    batch: pa.RecordBatch,
    start: int,
    stop: int,
    record_type: RecordType,
    malformed: list[MalformedRecord],
    *,
    stop_at_first: bool,
) -> list[object]:
    part = batch.slice(start, stop - start)
    try:
        return _decode_slice(part, record_type)
    except UnfitError as error:
        if stop - start == 1:
            malformed.append(MalformedRecord(_raw(part), error.reason, error.path, start))
            return []
    middle = (start + stop) // 2
    values = _decode_halves(batch, start, middle, record_type, malformed, stop_at_first=stop_at_first)
    if malformed and stop_at_first:
        return values
    return values + _decode_halves(batch, middle, stop, record_type, malformed, stop_at_first=stop_at_first)


def _raw(row: pa.RecordBatch) -> str:
    cells = {name: _shown(row.column(i)) for i, name in enumerate(row.schema.names)}
    return json.dumps(cells, default=str, ensure_ascii=False)


def _shown(cell: pa.Array) -> object:
    """The one value of an array, or Arrow's text of it where Python has no such value: a year beyond 9999."""
    try:
        value: object = cell[0].as_py()
    except (ValueError, OverflowError):
        value = str(cell.to_string()).strip("[] \n")
    return value


def _decode_slice(batch: pa.RecordBatch, record_type: RecordType) -> list[object]:
    root, name = record_type.root, record_type.name
    if record_type.single:
        index = batch.schema.get_field_index("value")
        return [None] * batch.num_rows if index < 0 else _decode(batch.column(index), root, name)
    return _decode_parts(root, batch.schema.get_field_index, batch.column, batch.num_rows, name)


def _decode_parts(
    value: ValueType, index_of: Callable[[str], int], column_at: Callable[[int], pa.Array], count: int, path: str
) -> list[object]:
    """Records or tuples, none of them null, from their columns."""
    fields: list[Field] = []
    columns: list[list[object]] = []
    dot = "." if value.kind is Kind.RECORD else ""
    for field in value.columns:
        index = index_of(field.column)
        if index >= 0:
            columns.append(_decode(column_at(index), field.column_type, f"{path}{dot}{field.name}"))
        elif field.type.nullable and field.default is None:
            columns.append([None] * count)
        else:
            continue  # the constructor fills in the default, or the key stays absent
        fields.append(field)
    if value.kind is Kind.TUPLE:
        return build_tuples(columns)
    return build_records(value, fields, columns, count, path)


def _decode(array: pa.Array, value: ValueType, path: str) -> list[object]:
    if value.kind is Kind.NONE or (types.is_null(array.type) and value.nullable):
        return [None] * len(array)
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not array.null_count:
        return _decode_valid(array, value, path)
    if not value.nullable:
        raise UnfitError(path, _NULL, str(value))
    valid: list[bool] = array.is_valid().to_pylist()
    return scatter(_decode_valid(array.drop_null(), value, path), valid)


def _decode_valid(array: pa.Array, value: ValueType, path: str) -> list[object]:
    """The values of an array without nulls."""
    kind = value.kind
    if kind in (Kind.RECORD, Kind.TUPLE):
        children = array.flatten()
        return _decode_parts(value, array.type.get_field_index, children.__getitem__, len(array), path)
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
    offsets: list[int] = array.offsets.to_numpy().tolist()
    first, length = offsets[0], offsets[-1] - offsets[0]
    key, item = value.arguments
    # Unlike a list's flatten(), the keys and items of a slice are those of the whole array.
    keys = _decode(array.keys.slice(first, length), key, f"{path}{{key}}")
    items = _decode(array.items.slice(first, length), item, f"{path}{{}}")
    return [dict(zip(keys[start:end], items[start:end], strict=True)) for start, end in _runs(array)]


def _decode_scalars(array: pa.Array, value: ValueType, path: str) -> list[object]:
    kind = value.kind
    if kind is Kind.INT:
        return _plain(array.cast(pa.int64()))
    if kind is Kind.FLOAT:
        return _plain(array.cast(pa.float64()))
    if kind is Kind.DATETIME:
        micros = _in_microseconds(array, pa.timestamp("us", tz=array.type.tz), value, path)
        elapsed = micros.to_numpy().astype("m8[us]").tolist()
        moments = map(operator.add, repeat(_EPOCH), elapsed)
        if array.type.tz is None and value.timezone is not None:
            moments = map(partial(_at_clock, zone=value.timezone), moments)
        return _converted(moments, path, value)
    if kind is Kind.DATE:
        ordinals = map(operator.add, repeat(_EPOCH_DAY), array.view(pa.int32()).to_numpy().tolist())
        return _converted(map(datetime.date.fromordinal, ordinals), path, value)
    if kind is Kind.TIMEDELTA:
        durations = _in_microseconds(array, pa.duration("us"), value, path)
        return _converted(iter(durations.to_numpy().astype("m8[us]").tolist()), path, value)
    if kind is Kind.UUID:
        return _converted(map(uuid.UUID, array.to_pylist()), path, value)
    if kind is Kind.DECIMAL:
        return _converted(iter(array.to_pylist()), path, value)
    return _plain(array)


def _in_microseconds(array: pa.Array, wanted: pa.DataType, value: ValueType, path: str) -> pa.Array:
    """Times as numbers of microseconds. What is finer, or beyond 64 bits, does not fit: Python cannot hold it."""
    try:
        return array.cast(wanted).view(pa.int64())
    except pa.ArrowInvalid as error:
        raise UnfitError(path, f"not a {value.python_type.__name__} of microseconds: {error}", str(value)) from error


def _at_clock(shown: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    """The moment at which a clock shows a time; the first of two."""
    return shown.replace(tzinfo=zone).astimezone(datetime.UTC)


def _plain(array: pa.Array) -> list[object]:
    """Values whose Python form numpy makes: faster than ``to_pylist`` in older releases of Arrow."""
    values: list[object] = array.to_numpy(zero_copy_only=False).tolist()
    return values


def _converted(values: Iterable[object], path: str, value: ValueType) -> list[object]:
    """The values of an iterator that may fail: a year beyond 9999, an unknown member of an Enum."""
    try:
        return list(values)
    except (ValueError, OverflowError, TypeError) as error:
        raise UnfitError(path, f"not a {value.python_type.__name__}: {error}", str(value)) from error
