"""The Spark schema of a record type, and whether a DataFrame's schema fits one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windrow_runtime.codecs.malformed import columns_error
from windrow_runtime.codecs.value_type import (
    COLLECTIONS,
    DECIMAL_PRECISION,
    DECIMAL_SCALE,
    Field,
    Kind,
    RecordType,
    ValueType,
    fits_decimal,
)

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_DDL = {
    Kind.NONE: "VOID",
    Kind.BOOL: "BOOLEAN",
    Kind.INT: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.STR: "STRING",
    Kind.UUID: "STRING",
    Kind.BYTES: "BINARY",
    Kind.DECIMAL: f"DECIMAL({DECIMAL_PRECISION},{DECIMAL_SCALE})",
    Kind.DATETIME: "TIMESTAMP",
    Kind.DATE: "DATE",
    Kind.TIMEDELTA: "INTERVAL DAY TO SECOND",
}


def spark_ddl(record_type: RecordType) -> str:
    """The Spark schema of a record type's columns, as text. All of them are nullable, as in files that Spark reads."""
    return ", ".join(f"{_quoted(field.column)} {_ddl(field.type)}" for field in record_type.columns)


def check_spark_schema(schema: StructType, record_type: RecordType) -> None:
    """Checks the columns of a DataFrame against a record type.

    Other columns are ignored; a column may be missing where its field has a default or is Optional; narrower
    numbers are widened; a timestamp without a zone fits where the type says where its clock is.

    Raises:
        SourceError: Columns are missing or have other types; the message lists all of them.
    """
    prefix = "" if record_type.single else f"{record_type.name}."
    faults = _struct_faults(schema, record_type.columns, prefix)
    if faults:
        raise columns_error(
            record_type.name,
            faults,
            given=schema.simpleString(),
            expected=spark_ddl(record_type),
            hint="select, cast or rename the columns of the DataFrame, or change the record type",
        )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _ddl(value: ValueType) -> str:
    kind = value.kind
    if kind in (Kind.RECORD, Kind.TUPLE):
        inner = ", ".join(f"{_quoted(field.column)}: {_ddl(field.type)}" for field in value.columns)
        return f"STRUCT<{inner}>"
    if kind is Kind.DICT:
        key, item = value.arguments
        return f"MAP<{_ddl(key)}, {_ddl(item)}>"
    if kind in COLLECTIONS:
        return f"ARRAY<{_ddl(value.arguments[0])}>"
    return _ddl(value.arguments[0]) if kind is Kind.ENUM else _DDL[kind]


def _struct_faults(schema: StructType, fields: tuple[Field, ...], prefix: str) -> list[str]:
    faults: list[str] = []
    for field in fields:
        path = f"{prefix}{field.column}"
        same = [given for given in schema.fields if given.name == field.column]
        if len(same) > 1:
            faults.append(f"{path}: {len(same)} columns of this name")
        elif same:
            faults += _type_faults(same[0].dataType, field.column_type, path)
        elif field.required:
            faults.append(f"{path}: no such column; expected {field.type}{_likely(schema, field.column)}")
    return faults


def _likely(schema: StructType, name: str) -> str:
    for given in schema.names:
        if given.lower() == name.lower():
            return f" (there is {given!r}: names differ in case)"
    return ""


def _type_faults(given: DataType, value: ValueType, path: str) -> list[str]:
    from pyspark.sql import types

    kind = value.kind
    wrong = [f"{path}: expected {value} ({_ddl(value)}), not {given.simpleString().upper()}"]
    if isinstance(given, types.NullType):
        return [] if value.nullable else wrong
    if kind in (Kind.RECORD, Kind.TUPLE):
        return _struct_faults(given, value.columns, f"{path}.") if isinstance(given, types.StructType) else wrong
    if kind is Kind.DICT:
        if not isinstance(given, types.MapType):
            return wrong
        key, item = value.arguments
        return _type_faults(given.keyType, key, f"{path}{{key}}") + _type_faults(given.valueType, item, f"{path}{{}}")
    if kind in COLLECTIONS:
        if not isinstance(given, types.ArrayType):
            return wrong
        return _type_faults(given.elementType, value.arguments[0], f"{path}[]")
    if kind is Kind.ENUM:
        return wrong if _type_faults(given, value.arguments[0], path) else []
    if isinstance(given, types.TimestampNTZType) and kind is Kind.DATETIME and value.timezone is None:
        return [f"{wrong[0]}: it has no time zone, so it names no moment; the source may say timezone="]
    return [] if _reads(given, kind) else wrong


def _reads(given: DataType, kind: Kind) -> bool:
    from pyspark.sql import types

    small = (types.ByteType, types.ShortType, types.IntegerType)
    if kind is Kind.DECIMAL:
        return isinstance(given, types.DecimalType) and fits_decimal(given.precision, given.scale)
    readable: dict[Kind, tuple[type[DataType], ...]] = {
        Kind.BOOL: (types.BooleanType,),
        Kind.INT: (*small, types.LongType),
        Kind.FLOAT: (*small, types.FloatType, types.DoubleType),
        Kind.STR: (types.StringType, types.CharType, types.VarcharType),
        Kind.UUID: (types.StringType, types.CharType, types.VarcharType),
        Kind.BYTES: (types.BinaryType,),
        Kind.DATETIME: (types.TimestampType, types.TimestampNTZType),
        Kind.DATE: (types.DateType,),
        Kind.TIMEDELTA: (types.DayTimeIntervalType,),
    }
    return isinstance(given, readable.get(kind, ()))
