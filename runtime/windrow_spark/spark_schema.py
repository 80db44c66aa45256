"""Makes the Spark schema of a record type, and checks whether the schema of a DataFrame fits one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from windrow_runtime.codecs.malformed import columns_error
from windrow_runtime.codecs.unmatched import Names, missing_column
from windrow_runtime.codecs.value_type import ANY_JSON, COLLECTIONS, Kind, RecordField, RecordType, ValueType

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

# For each kind of scalars the type of its columns, and the names of the types whose values can be of the kind; a value
# that is not, by its size or its digits, is malformed.
_SCALARS: Final = {
    Kind.NONE: ("VOID", ""),
    Kind.BOOL: ("BOOLEAN", "boolean"),
    Kind.INT: ("BIGINT", "byte short integer long float double"),
    Kind.FLOAT: ("DOUBLE", "byte short integer long float double"),
    Kind.STR: ("STRING", "string char varchar"),
    Kind.UUID: ("STRING", "string char varchar binary"),
    Kind.JSON: ("STRING", "string char varchar"),
    Kind.RAW_JSON: ("STRING", "string char varchar"),
    Kind.BYTES: ("BINARY", "binary"),
    Kind.DECIMAL: ("DECIMAL", "decimal"),
    Kind.DATETIME: ("TIMESTAMP", "timestamp timestamp_ntz"),
    Kind.DATE: ("DATE", "date"),
    Kind.TIMEDELTA: ("INTERVAL DAY TO SECOND", "daytimeinterval"),
}


def spark_ddl(record_type: RecordType) -> str:
    """The Spark schema of a record type's columns, as text. All of them are nullable, as in files that Spark reads."""
    return ", ".join(f"{quoted(field.column)} {_ddl(field.type)}" for field in record_type.columns)


def check_spark_schema(schema: StructType, record_type: RecordType) -> None:
    """Raises a ``SourceError`` with a line for each column of a DataFrame that is missing or does not fit."""
    faults = _struct_faults(schema, record_type.columns, record_type.prefix)
    if faults:
        raise columns_error(
            record_type.name,
            faults,
            given=schema.simpleString(),
            expected=spark_ddl(record_type),
            hint="select, cast or rename the columns of the DataFrame, or change the record type",
        )


def quoted(name: str) -> str:
    """The name of a column in a schema or an expression of Spark's, whatever its signs."""
    return "`" + name.replace("`", "``") + "`"


def spark_names(kind: DataType) -> Names:
    """The names of the columns of a schema, and of those within them."""
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        return Names({each.name: spark_names(each.dataType) for each in kind.fields})
    if isinstance(kind, types.MapType):
        return Names(parts=(spark_names(kind.keyType), spark_names(kind.valueType)))
    return Names(parts=(spark_names(kind.elementType),)) if isinstance(kind, types.ArrayType) else Names()


# Any: Spark's types have no common attributes.
def as_stored(stored: Any, wanted: Any) -> Any:
    """Returns a wanted type, but the stored type for each column that Spark would not read as wanted."""
    from pyspark.sql import types

    if isinstance(wanted, types.StructType) and isinstance(stored, types.StructType):
        by_name = {each.name: each.dataType for each in stored.fields}
        fields = [
            (each.name, as_stored(by_name.get(each.name, each.dataType), each.dataType)) for each in wanted.fields
        ]
        return types.StructType([types.StructField(name, kind) for name, kind in fields])
    if isinstance(wanted, types.ArrayType) and isinstance(stored, types.ArrayType):
        return types.ArrayType(as_stored(stored.elementType, wanted.elementType))
    if isinstance(wanted, types.MapType) and isinstance(stored, types.MapType):
        pairs = (stored.keyType, wanted.keyType), (stored.valueType, wanted.valueType)
        return types.MapType(*(as_stored(*pair) for pair in pairs))
    if isinstance(stored, types.DecimalType):
        widens = (
            isinstance(wanted, types.DecimalType)
            and stored.scale <= wanted.scale
            and stored.precision - stored.scale <= wanted.precision - wanted.scale
        )
        return wanted if widens else stored
    narrow = isinstance(stored, types.LongType) and isinstance(wanted, types.DoubleType)
    narrow |= isinstance(stored, (types.FloatType, types.DoubleType)) and isinstance(wanted, types.LongType)
    is_bytes = isinstance(stored, types.BinaryType) and isinstance(wanted, types.StringType)
    return stored if narrow or is_bytes else wanted


# Any: as above.
def with_texts(stored: Any, value: ValueType | RecordType) -> Any:
    """Returns a type of a Parquet file with texts in the place of bytes where the record type asks for texts."""
    from pyspark.sql import types

    if isinstance(stored, types.StructType):
        wanted = {field.column: field.type for field in value.columns}
        return types.StructType(
            [
                types.StructField(each.name, with_texts(each.dataType, wanted[each.name]))
                if each.name in wanted
                else each
                for each in stored.fields
            ]
        )
    if isinstance(value, ValueType) and value.arguments and isinstance(stored, types.ArrayType):
        return types.ArrayType(with_texts(stored.elementType, value.arguments[0]))
    if isinstance(value, ValueType) and value.kind is Kind.DICT and isinstance(stored, types.MapType):
        return types.MapType(*map(with_texts, (stored.keyType, stored.valueType), value.arguments))
    is_text = isinstance(value, ValueType) and value.scalar_kind in (Kind.STR, *ANY_JSON)
    return types.StringType() if is_text and isinstance(stored, types.BinaryType) else stored


# Any: as above.
def without_void(stored: Any, wanted: Any) -> Any:
    """Returns a column's type with wanted types in the place of void, of which no file holds values."""
    from pyspark.sql import types

    if isinstance(stored, types.StructType) and isinstance(wanted, types.StructType):
        by_name = {each.name: each.dataType for each in wanted.fields}
        fields = [(each.name, without_void(each.dataType, by_name.get(each.name))) for each in stored.fields]
        return types.StructType([types.StructField(name, kind) for name, kind in fields])
    if isinstance(stored, types.ArrayType):
        return types.ArrayType(without_void(stored.elementType, getattr(wanted, "elementType", None)))
    if isinstance(stored, types.MapType):
        return types.MapType(
            without_void(stored.keyType, getattr(wanted, "keyType", None)),
            without_void(stored.valueType, getattr(wanted, "valueType", None)),
        )
    return (wanted or types.StringType()) if isinstance(stored, types.NullType) else stored


def _ddl(value: ValueType) -> str:
    kind = value.kind
    if kind in (Kind.RECORD, Kind.TUPLE):
        inner = ", ".join(f"{quoted(field.column)}: {_ddl(field.type)}" for field in value.columns)
        return f"STRUCT<{inner}>"
    if kind is Kind.DICT:
        return f"MAP<{', '.join(map(_ddl, value.arguments))}>"
    if kind is Kind.DECIMAL:
        return f"DECIMAL({value.precision},{value.scale})"
    return f"ARRAY<{_ddl(value.arguments[0])}>" if kind in COLLECTIONS else _SCALARS[value.scalar_kind][0]


def _struct_faults(schema: StructType, fields: tuple[RecordField, ...], prefix: str) -> list[str]:
    faults: list[str] = []
    for field in fields:
        path = f"{prefix}{field.column}"
        same = [column for column in schema.fields if column.name == field.column]
        if len(same) > 1:
            faults.append(f"{path}: {len(same)} columns of this name")
        elif same:
            faults += _type_faults(same[0].dataType, field.column_type, path)
        else:
            faults += missing_column(field, fields, schema.names, path)
    return faults


def _type_faults(column_type: DataType, value: ValueType, path: str) -> list[str]:
    from pyspark.sql import types

    kind = value.kind
    wrong = [f"{path}: expected {value} ({_ddl(value)}), not {column_type.simpleString().upper()}"]
    if isinstance(column_type, types.NullType) or kind is Kind.NONE:
        return []  # the values tell, if there are any
    if kind in (Kind.RECORD, Kind.TUPLE):
        if not isinstance(column_type, types.StructType):
            return wrong
        # Spark gives workers no struct with two fields of a name, even if nobody asks for them.
        field_columns = {field.column for field in value.columns}
        twice = {name for name in column_type.names if name not in field_columns and column_type.names.count(name) > 1}
        return [f"{path}.{name}: several fields of this name" for name in sorted(twice)] + _struct_faults(
            column_type, value.columns, f"{path}."
        )
    if kind is Kind.DICT:
        if not isinstance(column_type, types.MapType):
            return wrong
        key, item = value.arguments
        return _type_faults(column_type.keyType, key, f"{path}{{key}}") + _type_faults(
            column_type.valueType, item, f"{path}{{}}"
        )
    if kind in COLLECTIONS:
        if not isinstance(column_type, types.ArrayType):
            return wrong
        return _type_faults(column_type.elementType, value.arguments[0], f"{path}[]")
    if isinstance(column_type, types.TimestampNTZType) and kind is Kind.DATETIME and value.timezone is None:
        return [f"{wrong[0]}: it has no time zone, so it names no moment; the source may say timezone="]
    if isinstance(column_type, types.DecimalType) and (
        value.scalar_kind is Kind.INT or (value.scalar_kind is Kind.FLOAT and column_type.scale <= 0)
    ):
        return []  # such as unsigned numbers of 64 bits in Parquet, for Spark
    return [] if column_type.typeName() in _SCALARS[value.scalar_kind][1].split() else wrong
