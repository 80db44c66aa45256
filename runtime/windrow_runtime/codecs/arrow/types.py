"""The Arrow types of record types."""

from __future__ import annotations

import pyarrow as pa

from windrow_runtime.codecs.value_type import COLLECTIONS, DECIMAL_PRECISION, DECIMAL_SCALE, Kind, RecordType, ValueType


def arrow_fields(record_type: RecordType) -> list[pa.Field]:
    """The columns of a record type as Arrow fields."""
    return [pa.field(field.column, arrow_type(field.type)) for field in record_type.columns]


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
    if kind is Kind.ENUM:
        return arrow_type(value.arguments[0])
    return {
        Kind.NONE: pa.null(),
        Kind.BOOL: pa.bool_(),
        Kind.INT: pa.int64(),
        Kind.FLOAT: pa.float64(),
        Kind.STR: pa.string(),
        Kind.UUID: pa.string(),
        Kind.BYTES: pa.binary(),
        Kind.DECIMAL: pa.decimal128(DECIMAL_PRECISION, DECIMAL_SCALE),
        Kind.DATETIME: pa.timestamp("us", tz="UTC"),
        Kind.DATE: pa.date32(),
        Kind.TIMEDELTA: pa.duration("us"),
    }[kind]
