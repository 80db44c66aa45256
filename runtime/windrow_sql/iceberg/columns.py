"""Says why the columns of an Iceberg table do not fit a record type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from windrow_runtime.codecs.value_type import COLLECTIONS, Kind, RecordField, RecordType, ValueType

_SCALARS: Final = {
    Kind.BOOL: BooleanType(),
    Kind.INT: LongType(),
    Kind.FLOAT: DoubleType(),
    Kind.STR: StringType(),
    Kind.UUID: StringType(),
    Kind.JSON: StringType(),
    Kind.RAW_JSON: StringType(),
    Kind.BYTES: BinaryType(),
    Kind.DATETIME: TimestamptzType(),
    Kind.DATE: DateType(),
}


def column_faults(record_type: RecordType, schema: Schema) -> list[str]:
    """Returns a text for each reason why rows of a record type do not fit the columns of a table."""
    return list(_struct_faults(record_type.columns, schema.fields, record_type.name, ""))


def partition_faults(record_type: RecordType, spec: PartitionSpec, schema: Schema) -> list[str]:
    """Returns a text for each reason why the library cannot divide rows of a record type by a partition spec."""
    sources = Counter(schema.find_column_name(field.source_id) or "" for field in spec.fields)
    own = {field.column for field in record_type.columns}
    faults = [f"{name}: several partitions are of this column" for name, count in sources.items() if count > 1]
    # The library selects the rows of a partition by ``==``: it would write rows with 0.0 and -0.0 twice, NaN never.
    faults += [
        f"{name}: a partition is of this column, which is a {schema.find_type(name)}"
        for name in sources
        if name and isinstance(schema.find_type(name), (FloatType, DoubleType))
    ]
    return faults + [
        f"{name}: a partition is of this column, and {record_type.name} has no such field"
        for name in sources
        if name not in own and name.partition(".")[0] not in own
    ]


def named_partitions(spec: PartitionSpec, schema: Schema) -> Mapping[str, str]:
    """Returns the names of partitions by the texts of a column, by the column."""
    by_text = [field for field in spec.fields if isinstance(field.transform, IdentityTransform)]
    columns = {field.name: schema.find_field(field.source_id) for field in by_text}
    return {column.name: name for name, column in columns.items() if isinstance(column.field_type, StringType)}


def columns_of(record_type: RecordType, schema: Schema) -> list[NestedField | None]:
    """Returns the columns of a table that rows of a record type fill, with the ids by which files have them."""
    by_name = {column.name: column for column in schema.fields}
    return [by_name.get(field.column) for field in record_type.columns]


def _struct_faults(
    fields: Iterable[RecordField], columns: Sequence[NestedField], name: str, path: str
) -> Iterator[str]:
    others = {column.name: column for column in columns}
    for field in fields:
        column = others.pop(field.column, None)
        if column is None:
            yield f"{path}{field.name}: no such column; expected {_shown(field.type)}"
        else:
            yield from _field_faults(field.column_type, column, f"{path}{field.name}")
    for column in others.values():
        if column.required:
            yield f"{path}{column.name}: the column is required, and {name} has no such field"


def _field_faults(value: ValueType, column: NestedField, path: str) -> Iterator[str]:
    if column.required and value.nullable:
        yield f"{path}: the column is required, and the field may be None"
    yield from _type_faults(value, column.field_type, path)


def _type_faults(value: ValueType, column: IcebergType, path: str) -> Iterator[str]:
    if value.kind in (Kind.RECORD, Kind.TUPLE) and isinstance(column, StructType):
        yield from _struct_faults(value.columns, column.fields, str(value), f"{path}.")
    elif value.kind is Kind.DICT and isinstance(column, MapType):
        key, item = value.arguments
        yield from _type_faults(key, column.key_type, f"{path}.key")
        yield from _field_faults(item, column.value_field, f"{path}.value")
    elif value.kind in COLLECTIONS and isinstance(column, ListType):
        yield from _field_faults(value.arguments[0], column.element_field, f"{path}.element")
    elif _scalar(value) != column:
        yield f"{path}: the column is {column}; expected {_shown(value)}"


def _scalar(value: ValueType) -> IcebergType | None:
    if value.kind is Kind.DECIMAL:
        return DecimalType(value.precision, value.scale)
    return _SCALARS.get(value.scalar_kind)


def _shown(value: ValueType) -> str:
    if value.kind in (Kind.RECORD, Kind.TUPLE):
        return "struct"
    if value.kind is Kind.DICT:
        return "map"
    return "list" if value.kind in COLLECTIONS else str(_scalar(value))
