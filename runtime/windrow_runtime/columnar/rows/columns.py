"""Checks columns that a source gives as elements, and converts columns of elements into Python values."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow_runtime.codecs.arrow.decoding import decode_batch, schema_faults
from windrow_runtime.codecs.arrow.encoding import arrow_schema, arrow_type
from windrow_runtime.codecs.value_type import ANY_JSON, COLLECTIONS, NESTED, Kind, RecordType, ValueType
from windrow_runtime.codecs.value_type import Field as RecordField
from windrow_runtime.columnar.expressions.over_columns import PLAIN
from windrow_runtime.operators.errors import DeclinedError

# Any in this module: values are of every type.

# The first and the last value of a column of times that Python's years, 1 to 9999, can hold.
_MICROSECONDS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DAYS: Final = tuple([(day - datetime.date(1970, 1, 1)).days for day in (datetime.date.min, datetime.date.max)])
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def clean_columns(batch: pa.RecordBatch, kind: RecordType) -> pa.RecordBatch | None:
    """Returns the columns of a type's fields from a source's batch, in the type's order and Arrow types.

    None if a record may be malformed, or a column has to be filled with defaults: then records are decoded one by one.
    """
    if schema_faults(batch.schema, kind):
        return None  # a cast may accept what decoding refuses
    schema = arrow_schema(kind)
    columns: list[pa.Array] = []
    for field, wanted in zip(kind.columns, schema, strict=True):
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
    """Returns whether a column, and those within it, have nulls where they may have some, and times that Python has."""
    if column.null_count:
        if not value.nullable:
            return False
        column = column.drop_null() if value.kind in NESTED else column
    if value.kind in (Kind.RECORD, Kind.TUPLE):
        return all(_is_clean(part, each.type) for part, each in zip(column.flatten(), value.columns, strict=True))
    if value.kind is Kind.DICT:
        return all(map(_is_clean, (column.keys, column.items), value.arguments))
    if value.kind in COLLECTIONS:
        return _is_clean(column.flatten(), value.arguments[0])
    if value.scalar_kind is Kind.STR:
        return is_utf_8(column)
    if value.kind in (Kind.DATETIME, Kind.DATE):
        days = pa.types.is_date(column.type)
        low, high = pc.min_max(column.view(pa.int32() if days else pa.int64())).values()
        first, last = _DAYS if days else _MICROSECONDS
        return not low.is_valid or first <= low.as_py() <= high.as_py() <= last
    return True


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


@dataclass(frozen=True, slots=True)
class WholeElement:
    """The expression for the element itself, whose column holds records."""

    kind: RecordType  # a type with fields, not a single value

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the records."""
        return arrow_type(self.kind.root)

    def evaluate(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Returns an array with the record of each element."""
        fields = list(self.arrow_type)
        return pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)


def check_element(kind: RecordType) -> None:
    """Declines element types whose columns can hold values that the record class would reject or convert."""
    for field in kind.columns:
        path = kind.name if kind.single else f"{kind.name}.{field.name}"
        if field.type.kind not in PLAIN:
            raise DeclinedError(f"{path} is a {field.type}")
        if field.type.kind is Kind.DECIMAL and not field.type.has_default_digits:
            raise DeclinedError(f"{path} is a {field.type}, which says its digits")
        if field.absent_allowed:
            raise DeclinedError(f"{path} may be absent")


def python_values(column: pa.Array) -> list[Any]:
    """Returns a column as Python values: timestamps, also within lists, as datetimes in UTC, and structs as tuples."""
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", tz=column.type.tz)).view(pa.int64()).to_pylist()
        return [None if value is None else _EPOCH + datetime.timedelta(microseconds=value) for value in micros]
    kind = column.type.value_type if pa.types.is_list(column.type) else None
    if kind is not None and (pa.types.is_timestamp(kind) or pa.types.is_struct(kind)):
        items = iter(python_values(column.flatten()))
        lengths = column.value_lengths().to_pylist()
        return [None if length is None else [next(items) for _ in range(length)] for length in lengths]
    if pa.types.is_struct(column.type):
        tuples: list[Any] = list(zip(*map(python_values, column.flatten()), strict=True))
        is_valid = column.is_valid().to_pylist() if column.null_count else None
        return (
            tuples
            if is_valid is None
            else [each if valid else None for each, valid in zip(tuples, is_valid, strict=True)]
        )
    values: list[Any] = column.to_pylist()
    return values


def element_values(column: pa.Array, element: RecordType) -> list[Any]:
    """Returns the values of a column as :func:`python_values` does, but records as objects of the element's class."""
    column_type, whole = column.type, None if element.single else arrow_type(element.root)
    if column_type == whole:
        value = replace(element.root, nullable=True)
    elif pa.types.is_list(column_type) and column_type.value_type == whole:
        value = ValueType(Kind.LIST, list, arguments=(element.root,))
    else:
        return python_values(column)
    whole = RecordType(None, str(value), value, (RecordField("value", "value", value),))
    return decode_batch(pa.RecordBatch.from_arrays([column], ["value"]), whole)
