"""Checks columns of a source for rows that decoding would find malformed, so that these do not pass as elements."""

from __future__ import annotations

import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow_runtime.codecs.arrow.decoding import decode_batch, schema_faults
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.value_type import ANY_JSON, COLLECTIONS, NESTED, Kind, RecordType, ValueType

# Any in this module: pyarrow has no types.

# The first and the last value of a column of times that Python's years, 1 to 9999, can hold.
_MICROSECONDS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_UUID: Final = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
"""The texts of columns that are UUIDs as they are written; others are decoded, and then encoded anew."""
_DAYS: Final = tuple([(day - datetime.date(1970, 1, 1)).days for day in (datetime.date.min, datetime.date.max)])


def clean_columns(batch: pa.RecordBatch, record_type: RecordType) -> pa.RecordBatch | None:
    """Returns the columns of a type's fields from a source's batch, in the type's order and Arrow types.

    None if a record may be malformed, or a column has to be filled with defaults: then records are decoded one by one.
    """
    if schema_faults(batch.schema, record_type):
        return None  # a cast may accept what decoding refuses
    schema = arrow_schema(record_type)
    columns: list[pa.Array] = []
    for field, wanted in zip(record_type.columns, schema, strict=True):
        index = batch.schema.get_field_index(field.column)
        if index < 0 or field.type.contains(*ANY_JSON):
            return None  # a text may be invalid JSON
        column = batch.column(index)
        if pa.types.is_timestamp(column.type) and column.type.tz is None:
            return None  # decoding says what a time without a zone means
        if isinstance(column.type, pa.BaseExtensionType):
            return None
        if column.type != wanted.type:
            if not _is_cast_exact(column.type, field.type):
                return None
            try:
                column = column.cast(wanted.type)
            except pa.ArrowException:
                return None
        if not _is_clean(column, field.type):
            return None
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema.with_metadata(batch.schema.metadata))


def _is_clean(column: pa.Array, value: ValueType) -> bool:
    """Returns whether a column and its nested ones have nulls only where allowed, and only times that Python has."""
    if column.null_count:
        if not value.nullable:
            return False
        column = column.drop_null() if value.kind in NESTED else column
    if value.kind in (Kind.RECORD, Kind.TUPLE):
        return all(_is_clean(part, each.type) for part, each in zip(column.flatten(), value.columns, strict=True))
    if value.kind is Kind.DICT:
        return not _has_keys_twice(column) and all(map(_is_clean, (column.keys, column.items), value.arguments))
    if value.kind in COLLECTIONS:
        return _is_clean(column.flatten(), value.arguments[0])
    if value.kind is Kind.ENUM:
        members = [member.value for member in value.python_type]  # type: ignore[attr-defined]  # an Enum class
        return pc.all(pc.is_in(column.drop_null(), pa.array(members, column.type))).as_py() is not False
    if value.kind is Kind.UUID:
        return pc.all(pc.match_substring_regex(column, _UUID)).as_py() is not False
    if value.kind is Kind.STR:
        return is_utf_8(column)
    if value.kind is Kind.NONE:
        return bool(pa.types.is_null(column.type))
    if value.kind in (Kind.DATETIME, Kind.DATE):
        days = pa.types.is_date(column.type)
        low, high = pc.min_max(column.view(pa.int32() if days else pa.int64())).values()
        first, last = _DAYS if days else _MICROSECONDS
        return not low.is_valid or first <= low.as_py() <= high.as_py() <= last
    return True


def _has_keys_twice(maps: pa.MapArray) -> bool:
    offsets = maps.offsets.to_numpy()
    keys = maps.keys.slice(offsets[0], offsets[-1] - offsets[0])
    entries = pa.table({"map": np.repeat(np.arange(len(maps)), np.diff(offsets)), "key": keys})
    return bool(entries.group_by(["map", "key"]).aggregate([]).num_rows < entries.num_rows)


def is_utf_8(texts: pa.Array) -> bool:
    """Returns whether all texts of a column are UTF-8, which Arrow does not look at when it reads Parquet files."""
    _, ends, data = texts.buffers()
    if data is None or not len(texts):
        return True
    first, last = np.frombuffer(ends, np.int32)[[texts.offset, texts.offset + len(texts)]]
    if last == first or np.frombuffer(data, np.uint8)[first:last].max() < 128:
        return True
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_cast_exact(column_type: pa.DataType, value: ValueType) -> bool:
    """Returns whether Arrow's cast gives what decoding gives, or fails: some casts take bytes for text, or round."""
    if value.kind in {Kind.UUID, *NESTED}:
        return False
    if pa.types.is_decimal(column_type):
        is_same = value.kind is Kind.DECIMAL and value.holds_decimals(column_type.precision, column_type.scale)
        return is_same or value.kind is Kind.INT
    return True


def fitting_rows(batch: Any, record_type: RecordType) -> tuple[Any, list[int]]:
    """Returns the rows of a batch that decoding makes elements of, and the numbers of the others, which are malformed.

    The batch has the columns of the type, in its Arrow types.
    """
    if clean_columns(batch, record_type) is not None:
        return batch, []
    misfits: list[MalformedValue] = []
    decode_batch(batch, record_type, misfits.append)
    rows = [misfit.row or 0 for misfit in misfits]
    return batch.take(pa.array(np.delete(np.arange(batch.num_rows), rows))) if rows else batch, rows
