"""Converts columns of elements into Python values."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_type
from windrow_runtime.codecs.value_type import Kind, RecordField, RecordType, ValueType
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.expressions.over_columns import PLAIN

# Any in this module: values are of every type.

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class WholeElement:
    """The expression for the element itself, whose column holds records."""

    record_type: RecordType  # a type with fields, not a single value

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the records."""
        return arrow_type(self.record_type.root)

    def evaluate(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Returns an array with the record of each element."""
        fields = list(self.arrow_type)
        return pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)


def check_element(record_type: RecordType) -> None:
    """Declines element types whose columns can hold values that the record class would reject or convert."""
    for field in record_type.columns:
        path = record_type.name if record_type.single else f"{record_type.name}.{field.name}"
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
