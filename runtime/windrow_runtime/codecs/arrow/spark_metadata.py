"""Makes the schema that Spark notes in the metadata of Parquet files, and by which it reads types Parquet lacks."""

from __future__ import annotations

import json
from typing import Final

from windrow_runtime.codecs.value_type import COLLECTIONS, Kind, RecordField, RecordType, ValueType

SPARK_KEY: Final = b"org.apache.spark.sql.parquet.row.metadata"
"""The key of the schema in the metadata of a file."""

_SCALARS: Final = {
    Kind.NONE: "void",
    Kind.BOOL: "boolean",
    Kind.INT: "long",
    Kind.FLOAT: "double",
    Kind.STR: "string",
    Kind.UUID: "string",
    Kind.JSON: "string",
    Kind.RAW_JSON: "string",
    Kind.BYTES: "binary",
    Kind.DATETIME: "timestamp",
    Kind.DATE: "date",
    Kind.TIMEDELTA: "interval day to second",
}


def spark_metadata(record_type: RecordType) -> dict[bytes, bytes]:
    """The metadata of a file with the columns of a type, all of them nullable."""
    return {SPARK_KEY: json.dumps(_struct(record_type.columns)).encode()}


def _struct(fields: tuple[RecordField, ...]) -> dict[str, object]:
    columns = [{"name": field.column, "type": _type(field.type), "nullable": True, "metadata": {}} for field in fields]
    return {"type": "struct", "fields": columns}


def _type(value: ValueType) -> object:
    kind = value.kind
    if kind in (Kind.RECORD, Kind.TUPLE):
        return _struct(value.columns)
    if kind is Kind.DICT:
        key, item = map(_type, value.arguments)
        return {"type": "map", "keyType": key, "valueType": item, "valueContainsNull": True}
    if kind in COLLECTIONS:
        return {"type": "array", "elementType": _type(value.arguments[0]), "containsNull": True}
    if kind is Kind.DECIMAL:
        return f"decimal({value.precision},{value.scale})"
    return _SCALARS[value.scalar_kind]
