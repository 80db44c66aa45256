"""Tables of a database for record types: how they are made, and whether one that exists fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.types import TypeEngine

from windrow.errors import InvalidArgumentError, SinkError
from windrow_runtime.codecs.record_type import Field, Kind, RecordType, ValueType
from windrow_runtime.outputs.cells import NESTED
from windrow_runtime.outputs.exact_columns import exact_columns

# Any in this module: the Python side of a column's type, which nothing here looks at.

# What is compared exactly, by Python within a batch and by the database.
_KEY_KINDS = frozenset(
    [Kind.BOOL, Kind.INT, Kind.STR, Kind.BYTES, Kind.UUID, Kind.ENUM, Kind.DATETIME, Kind.DATE, Kind.TIMEDELTA]
)


def check_key(key: Sequence[Field], kind: RecordType, where: str) -> None:
    """Refuse a key that does not distinguish rows.

    Raises:
        InvalidArgumentError: If a field is Optional, has parts, or is not compared exactly.
    """
    for field in key:
        if field.column_type.nullable or field.type.kind not in _KEY_KINDS:
            raise InvalidArgumentError(
                "a field of this type cannot be a key of a table",
                given=f"{field.name}: {field.column_type}",
                expected="bool, int, str, bytes, UUID, Enum, datetime, date or timedelta, not Optional",
                where=f"{where}, {kind.name}.{field.name}",
            )


def table_for(name: str, schema: str | None, kind: RecordType, key: Sequence[Field], backend: str) -> sa.Table:
    """The table of a record type."""
    columns = [
        sa.Column(
            field.column,
            _type(field.type, backend),
            nullable=field.column_type.nullable,
            # Numbers come from the records, not from a sequence of the database.
            autoincrement=False,
        )
        for field in kind.columns
    ]
    primary = [sa.PrimaryKeyConstraint(*(field.column for field in key))] if key else []
    return sa.Table(name, sa.MetaData(), *columns, *primary, schema=schema)


def batches_table(schema: str | None) -> sa.Table:
    """The table with the last batch that each sink of each query has written."""
    return sa.Table(
        "windrow_batches",
        sa.MetaData(),
        sa.Column("query_id", sa.Text),
        sa.Column("sink", sa.Text),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("query_id", "sink"),
        schema=schema,
    )


def create_statement(table: sa.Table, engine: sa.Engine) -> str:
    """The statement that makes the table, as text."""
    return " ".join(str(sa.schema.CreateTable(table).compile(engine)).split())


def check_table(
    connection: sa.Connection, table: sa.Table, kind: RecordType, where: str, shown: str
) -> Mapping[str, int]:
    """Refuse a table that would not give back every record as it was.

    Returns:
        How many characters a column of texts holds at most, by its name, where it has a limit.

    Raises:
        SinkError: With all that is wrong.
    """
    inspector = sa.inspect(connection)
    name, schema = table.name, table.schema
    key = {column.name for column in table.primary_key}
    exact = exact_columns(connection, table, kind.columns, key)
    present = {column["name"]: column for column in inspector.get_columns(name, schema)}
    faults: list[str] = []
    for field in kind.columns:
        column = present.pop(field.column, None)
        if column is None:
            faults.append(f"{field.column}: no such column; expected {table.c[field.column].type}")
        elif not _takes(column, field.type, inspector.dialect.name):
            faults.append(f"{field.column}: the column is {column['type']}; expected {table.c[field.column].type}")
        elif field.column in exact.faults:
            expected = table.c[field.column].type.compile(connection.dialect)
            faults.append(f"{field.column}: {exact.faults[field.column]}; expected {expected}")
        elif field.column_type.nullable and not column["nullable"]:
            faults.append(f"{field.column}: the column is NOT NULL, and the field may be None")
    faults += [
        f"{column['name']}: the column is NOT NULL without a default, and {kind.name} has no such field"
        for column in present.values()
        if not _fills_itself(column)
    ]
    if key and key not in _unique_columns(inspector, name, schema):
        faults.append(f"the table has no primary key or unique index of exactly: {', '.join(sorted(key))}")
    if faults:
        raise SinkError(
            f"the table does not fit {kind.name}\n" + "\n".join(f"  - {fault}" for fault in faults),
            given=shown,
            expected=create_statement(table, inspector.engine),
            where=where,
            hint="alter the table or the record type, or write to a new table",
        )
    return exact.lengths


def _type(value: ValueType, backend: str) -> TypeEngine[Any]:
    kind = value.kind
    if kind is Kind.ENUM:
        kind = value.arguments[0].kind
    if kind in NESTED:
        return postgresql.JSONB(none_as_null=True) if backend == "postgresql" else sa.Text()
    return (_POSTGRESQL if backend == "postgresql" else _SQLITE)[kind]


_POSTGRESQL: dict[Kind, TypeEngine[Any]] = {
    Kind.NONE: sa.Text(),
    Kind.BOOL: sa.Boolean(),
    Kind.INT: sa.BigInteger(),
    Kind.FLOAT: sa.Double(),
    Kind.STR: sa.Text(),
    Kind.BYTES: sa.LargeBinary(),
    Kind.DECIMAL: sa.Numeric(),
    Kind.UUID: sa.Uuid(),
    Kind.DATETIME: sa.DateTime(timezone=True),
    Kind.DATE: sa.Date(),
    Kind.TIMEDELTA: postgresql.INTERVAL(),
}
# SQLite has integers, floats, texts and bytes. Whatever else becomes a text that sorts and compares like the value
# where there is one; a decimal keeps all of its digits.
_SQLITE: dict[Kind, TypeEngine[Any]] = {
    Kind.NONE: sa.Text(),
    Kind.BOOL: sa.Boolean(),
    Kind.INT: sa.BigInteger(),
    Kind.FLOAT: sa.Double(),
    Kind.STR: sa.Text(),
    Kind.BYTES: sa.LargeBinary(),
    Kind.DECIMAL: sa.Text(),
    Kind.UUID: sa.Text(),
    Kind.DATETIME: sa.Text(),
    Kind.DATE: sa.Text(),
    Kind.TIMEDELTA: sa.BigInteger(),
}
_FAMILIES: dict[Kind, tuple[type[TypeEngine[Any]], ...]] = {
    Kind.BOOL: (sa.Boolean,),
    Kind.INT: (sa.Integer, sa.Numeric, sa.Float),
    Kind.FLOAT: (sa.Float, sa.Numeric),
    Kind.STR: (sa.String,),
    Kind.BYTES: (sa.LargeBinary,),
    Kind.DECIMAL: (sa.Numeric,),
    Kind.UUID: (sa.Uuid,),
    Kind.DATETIME: (sa.DateTime,),
    Kind.DATE: (sa.Date,),
    Kind.TIMEDELTA: (sa.Interval, postgresql.INTERVAL),
}


def _takes(column: ReflectedColumn, value: ValueType, dialect: str) -> bool:
    """Returns whether a column may take values of a type; ``exact_columns`` checks that it keeps them as they are."""
    given = column["type"]
    if dialect == "sqlite" or isinstance(given, sa.types.NullType):
        return True
    kind = value.arguments[0].kind if value.kind is Kind.ENUM else value.kind
    if kind in NESTED:
        return isinstance(given, sa.JSON)
    if kind is Kind.NONE:
        return True
    # An enumerated type of the database takes no texts.
    if isinstance(given, sa.Enum) or not isinstance(given, _FAMILIES[kind]):
        return False
    # Without a zone the moment would depend on the settings of the connection.
    return kind is not Kind.DATETIME or bool(getattr(given, "timezone", False))


def _fills_itself(column: ReflectedColumn) -> bool:
    return bool(
        column["nullable"]
        or column.get("default") is not None
        or column.get("autoincrement") is True
        or column.get("computed")
        or column.get("identity")
    )


def _unique_columns(inspector: sa.Inspector, name: str, schema: str | None) -> list[set[str | None]]:
    """The sets of columns whose combinations of values are unique in the table."""
    sets: list[set[str | None]] = [set(inspector.get_pk_constraint(name, schema)["constrained_columns"])]
    sets += [set(found["column_names"]) for found in inspector.get_unique_constraints(name, schema)]
    # SQLite has an index behind each constraint, and SQLAlchemy does not find all constraints without them.
    options = {"include_auto_indexes": True} if inspector.dialect.name == "sqlite" else {}
    for index in inspector.get_indexes(name, schema, **options):
        partial = any(option.endswith("_where") for option in index.get("dialect_options", {}))
        if index["unique"] and not partial:
            sets.append(set(index["column_names"]))
    return sets
