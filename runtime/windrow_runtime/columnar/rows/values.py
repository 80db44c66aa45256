"""Makes the Python values of columns."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.value_type import Field, Kind, RecordType, ValueType
from windrow_runtime.columnar.array_types import Array

# Any: values are of every type.

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def python_values(column: Array) -> list[Any]:
    """The Python values of a column; timestamps are datetimes in UTC, also within lists."""
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", tz=column.type.tz)).view(pa.int64()).to_pylist()
        return [None if value is None else _EPOCH + datetime.timedelta(microseconds=value) for value in micros]
    if pa.types.is_list(column.type) and pa.types.is_timestamp(column.type.value_type):
        items = iter(python_values(column.flatten()))
        lengths = column.value_lengths().to_pylist()
        return [None if length is None else [next(items) for _ in range(length)] for length in lengths]
    values: list[Any] = column.to_pylist()
    return values


def element_values(column: Array, element: RecordType) -> list[Any]:
    """The same of a column in which elements of a type may be: all records in it, and all in its lists, are such."""
    kind = column.type
    if pa.types.is_struct(kind):
        value = replace(element.root, nullable=True)
    elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        value = ValueType(Kind.LIST, list, arguments=(element.root,))
    else:
        return python_values(column)
    whole = RecordType(None, str(value), value, (Field("value", "value", value),))
    return decode_batch(pa.RecordBatch.from_arrays([column], ["value"]), whole)
