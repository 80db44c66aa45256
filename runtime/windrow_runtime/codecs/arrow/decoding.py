"""Decodes Arrow record batches: each array becomes one list, and the lists of the fields become records."""

from __future__ import annotations

import datetime
import json
import operator
import uuid
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise, repeat
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from windrow_runtime.codecs.exact import exactly
from windrow_runtime.codecs.json.any_json import checked_text, value_of_text
from windrow_runtime.codecs.json.encoder import JsonLines
from windrow_runtime.codecs.malformed import MalformedValue, UnfitError, columns_error, shown_error
from windrow_runtime.codecs.records import build_records, made_of
from windrow_runtime.codecs.unmatched import Names, missing_column
from windrow_runtime.codecs.value_type import ANY_JSON, COLLECTIONS, Kind, RecordField, RecordType, ValueType

# Any in this module: values of every type.

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


def batch_of(arrays: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A record batch of columns that a source has, which may be none: Arrow takes the number of rows from a column.

    Where there is no column, the batch gets one of nulls, whose name is that of no field: all fields have defaults.
    """
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], schema=schema.append(pa.field(NO_FIELD, pa.null())))


NO_FIELD: Final = "\0"
"""The name of a column that only says how many rows there are; no file can have such a name."""


def column_names(kind: pa.Schema | pa.DataType) -> Names:
    """The names of the columns of a schema, and of those within them."""
    if isinstance(kind, pa.Schema) or types.is_struct(kind):
        return Names({each.name: column_names(each.type) for each in kind})
    if types.is_dictionary(kind):
        return column_names(kind.value_type)
    if types.is_map(kind):
        return Names(parts=(column_names(kind.key_type), column_names(kind.item_type)))
    return Names(parts=(column_names(kind.value_type),)) if is_list(kind) else Names()


def schema_faults(schema: pa.Schema, record_type: RecordType) -> list[str]:
    """Lists the faults that keep columns from being decoded, one line for each."""
    return _field_faults(schema, record_type.columns, record_type.prefix)


def _field_faults(schema: pa.Schema | pa.StructType, fields: Sequence[RecordField], prefix: str) -> list[str]:
    faults: list[str] = []
    for field in fields:
        path = f"{prefix}{field.column}"
        indices = schema.get_all_field_indices(field.column)
        if len(indices) > 1:
            faults.append(f"{path}: {len(indices)} columns of this name")
        elif indices:
            faults += _type_faults(schema.field(indices[0]).type, field.column_type, path)
        else:
            faults += missing_column(field, fields, schema.names, path)
    return faults


def _type_faults(column_type: pa.DataType, value: ValueType, path: str) -> list[str]:
    kind = value.kind
    wrong = [f"{path}: expected {value}, not {column_type}"]
    column_type = _plain_type(column_type)
    if types.is_null(column_type) or kind is Kind.NONE:
        return []  # the values tell, if there are any
    if kind in (Kind.RECORD, Kind.TUPLE):
        return _field_faults(column_type, value.columns, f"{path}.") if types.is_struct(column_type) else wrong
    if kind is Kind.DICT:
        if not types.is_map(column_type):
            return wrong
        key, item = value.arguments
        return _type_faults(column_type.key_type, key, f"{path}{{key}}") + _type_faults(
            column_type.item_type, item, f"{path}{{}}"
        )
    if kind in COLLECTIONS:
        return _type_faults(column_type.value_type, value.arguments[0], f"{path}[]") if is_list(column_type) else wrong
    if kind is Kind.DATETIME and types.is_timestamp(column_type) and column_type.tz is None and value.timezone is None:
        return [f"{wrong[0]}: it has no time zone, so it names no moment; the source may say timezone="]
    return [] if any(reads(column_type) for reads in _READABLE.get(value.scalar_kind, ())) else wrong


def _plain_type(column_type: pa.DataType) -> pa.DataType:
    """The type in which a column's values are stored, without extension types, dictionaries and run lengths."""
    while True:
        if isinstance(column_type, pa.BaseExtensionType):
            column_type = column_type.storage_type
        elif types.is_dictionary(column_type) or types.is_run_end_encoded(column_type):
            column_type = column_type.value_type
        else:
            return column_type


def plain(array: pa.Array) -> pa.Array:
    """Decodes extension types, dictionaries, run lengths and list views of a column into plain Arrow values."""
    while True:
        column_type = array.type
        if isinstance(column_type, pa.BaseExtensionType):
            array = array.storage
        elif types.is_dictionary(column_type):
            # Arrow has no kernel that decodes a dictionary of views, as polars has them.
            array = pa.DictionaryArray.from_arrays(array.indices, plain(array.dictionary)).dictionary_decode()
        elif types.is_run_end_encoded(column_type):
            array = pc.run_end_decode(array)
        elif types.is_fixed_size_list(column_type):
            array = array.cast(pa.list_(column_type.value_field))
        elif types.is_list_view(column_type) or types.is_large_list_view(column_type):
            array = _list_of_views(array)
        elif types.is_string_view(column_type):
            array = array.cast(pa.string())
        elif types.is_binary_view(column_type) or types.is_fixed_size_binary(column_type):
            array = array.cast(pa.binary())
        else:
            return array


def _list_of_views(array: pa.Array) -> pa.Array:
    """Converts list views to lists, whose values lie in order; Arrow's own cast loses values of the last list."""
    is_valid: list[bool] = array.is_valid().to_pylist()
    sizes: list[int] = array.sizes.to_pylist()
    ends = accumulate((size for size, valid in zip(sizes, is_valid, strict=True) if valid), initial=0)
    # A null among the offsets marks a null list; the last one is the end of all.
    offsets = pa.array([*(next(ends) if valid else None for valid in is_valid), next(ends)], pa.int32())
    return pa.ListArray.from_arrays(offsets, array.flatten())


def is_list(column_type: pa.DataType) -> bool:
    """Whether a column has lists, of any form."""
    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    return any(is_kind(column_type) for is_kind in kinds)


def _is_text(column_type: pa.DataType) -> bool:
    return any(is_kind(column_type) for is_kind in (types.is_string, types.is_large_string, types.is_string_view))


def _is_binary(column_type: pa.DataType) -> bool:
    kinds = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return any(is_kind(column_type) for is_kind in kinds)


def _is_whole(column_type: pa.DataType) -> bool:
    """Whether the numbers of a column have no digits after the point; Spark has unsigned ones as such decimals."""
    return bool(types.is_integer(column_type) or (types.is_decimal(column_type) and column_type.scale <= 0))


# The columns of scalars whose values can be those of a kind. Each value that is not, by its size or its digits, is
# malformed. A time span may be a number of microseconds, as Spark writes it to Parquet.
_READABLE: Final[dict[Kind, tuple[Callable[[pa.DataType], bool], ...]]] = {
    Kind.BOOL: (types.is_boolean,),
    Kind.INT: (types.is_integer, types.is_decimal, types.is_float32, types.is_float64),
    Kind.FLOAT: (_is_whole, types.is_floating),
    Kind.STR: (_is_text,),
    Kind.UUID: (_is_text, _is_binary),
    Kind.JSON: (_is_text,),
    Kind.RAW_JSON: (_is_text,),
    Kind.BYTES: (_is_binary,),
    Kind.DECIMAL: (types.is_decimal,),
    Kind.DATETIME: (types.is_timestamp,),
    Kind.DATE: (types.is_date,),
    Kind.TIMEDELTA: (types.is_duration, types.is_int64),
}


def decode_batch(
    batch: pa.RecordBatch, record_type: RecordType, on_error: Callable[[MalformedValue], None] | None = None
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
    batch: pa.RecordBatch, record_type: RecordType, on_error: Callable[[MalformedValue], None] | None, first: int
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
    malformed = MalformedValue(_raw(batch), fault.reason, fault.path, first)
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
    fields: list[RecordField] = []
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
    array = plain(array)
    if types.is_null(array.type) and (value.nullable or not len(array)):
        return [None] * len(array)
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
    if kind is Kind.NONE and len(array):
        raise UnfitError(path, f"expected None, not a value of {array.type}")
    if kind in (Kind.RECORD, Kind.TUPLE):
        return _decode_struct(pa.RecordBatch.from_struct_array(array), value, path)
    if kind is Kind.DICT:
        return _decode_map(array, value, path)
    if kind in COLLECTIONS:
        items = _decode(array.flatten(), value.arguments[0], f"{path}[]")
        if kind is Kind.LIST:
            return [items[start:end] for start, end in _runs(array)]
        return [made_of(value.python_type, items[start:end], path) for start, end in _runs(array)]
    if kind is Kind.ENUM:
        members = _decode_valid(array, value.arguments[0], path)
        # Unlike map, a generator does not take a StopIteration of the class for the end of the values.
        return _converted((value.python_type(member) for member in members), path, value)
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
    runs = _runs(array)
    dicts: list[object] = [dict(zip(keys[start:end], items[start:end], strict=True)) for start, end in runs]
    if sum(map(len, dicts)) < length:  # type: ignore[arg-type]  # they are dicts
        raise UnfitError(f"{path}{{key}}", "a map has a key twice")
    return dicts


def _decode_scalars(array: pa.Array, value: ValueType, path: str) -> list[object]:
    kind = value.kind
    if kind is Kind.DATETIME:
        elapsed = _microseconds(array, pa.timestamp("us", tz=array.type.tz), value, path)
        moments: Iterable[datetime.datetime] = map(operator.add, repeat(_EPOCH), elapsed)
        if array.type.tz is None and value.timezone is not None:
            # A local time that the clock shows twice is taken for the first of the two moments.
            moments = (shown.replace(tzinfo=value.timezone).astimezone(datetime.UTC) for shown in moments)
        return _converted(moments, path, value)
    if kind is Kind.DATE:
        days = _cast(array, pa.date32(), value, path).view(pa.int32())
        ordinals = map(operator.add, repeat(_EPOCH_DAY), days.to_numpy().tolist())
        return _converted(map(datetime.date.fromordinal, ordinals), path, value)
    if kind is Kind.TIMEDELTA:
        return _converted(_microseconds(array, pa.duration("us"), value, path), path, value)
    if kind in ANY_JSON:
        read_text = value_of_text if kind is Kind.JSON else checked_text
        return [read_text(text, path) for text in _texts(array, path)]
    if kind is Kind.UUID:
        read = uuid.UUID if _is_text(array.type) else _uuid_of_bytes
        return _converted(map(read, _texts(array, path)), path, value)
    if kind is Kind.DECIMAL:
        if not value.holds_decimals(array.type.precision, array.type.scale):
            return [exactly(number, value, path) for number in array.to_pylist()]
        return _converted(array.to_pylist(), path, value)
    if kind is Kind.INT:
        array = _cast(array, pa.int64(), value, path)
    elif kind is Kind.FLOAT:
        if types.is_decimal(array.type) or array.type.id in _WIDE:
            return [exactly(int(number), value, path) for number in array.to_pylist()]
        array = array.cast(pa.float64())
    return _texts(array, path)


_WIDE: Final = (pa.int64().id, pa.uint64().id)


def _texts(array: pa.Array, path: str) -> list[Any]:
    """The texts of a column, or the bytes; files may have texts that are not UTF-8, which Arrow does not look at."""
    try:
        # Numpy makes Python's values faster than to_pylist() in older releases of Arrow.
        texts: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    except (pa.ArrowException, UnicodeDecodeError):
        raise UnfitError(path, "the text is not UTF-8") from None
    return texts


def _uuid_of_bytes(data: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=data)


def _cast(array: pa.Array, wanted: pa.DataType, value: ValueType, path: str) -> pa.Array:
    """Values as another type of Arrow, which has to hold each of them exactly."""
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid as error:
        raise UnfitError(path, f"not a {value}: {error}") from error


def _microseconds(array: pa.Array, wanted: pa.DataType, value: ValueType, path: str) -> list[datetime.timedelta]:
    """Times as spans of microseconds. What is finer, or beyond 64 bits, does not fit: Python cannot hold it."""
    try:
        numbers = array.cast(wanted).view(pa.int64())
    except pa.ArrowInvalid as error:
        raise UnfitError(path, f"not a {value.python_type.__name__} of microseconds: {error}") from error
    spans: list[datetime.timedelta] = numbers.to_numpy().astype("m8[us]").tolist()
    return spans


def _converted(values: Iterable[object], path: str, value: ValueType) -> list[object]:
    """The values of an iterator that may fail: a year beyond 9999, an unknown member of an Enum, by the user's code."""
    try:
        return list(values)
    except Exception as error:
        reason = shown_error(error).partition(": ")[2]
        raise UnfitError(path, f"not a {value.python_type.__name__}: {reason}") from error
