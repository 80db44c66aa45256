"""Defines database tables for record types, and checks whether existing tables fit them.

A column of an existing table is exact if each value of its field that the database accepts is read back unchanged, and,
for a column of the key, if the database compares values as Python does.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import DDLCompiler
from sqlalchemy.types import TypeEngine

from windrow_runtime.codecs.value_type import ANY_JSON, JSON_CELLS, Kind, RecordField, RecordType, ValueType

# Any in this module: the Python side of a column's type, which nothing here looks at.

_INT_DIGITS: Final = 19  # of the largest int of 64 bits
# Column types that keep and compare values exactly.
_POSTGRESQL: Final[Mapping[Kind, TypeEngine[Any]]] = {
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
# Half of each page stays free, so that PostgreSQL updates rows within their page, without changing indexes.
_FILL_FACTOR: Final = 50
_FILLED: Final = "fillfactor"
# SQLite has integers, floats, texts and bytes. Other values become texts, which sort like the values if possible; those
# of decimals have all digits.
_SQLITE: Final[Mapping[Kind, TypeEngine[Any]]] = {
    **_POSTGRESQL,
    **dict.fromkeys([Kind.DECIMAL, Kind.UUID, Kind.DATETIME, Kind.DATE], sa.Text()),
    Kind.TIMEDELTA: sa.BigInteger(),
}


def table_for(
    name: str, schema: str | None, record_type: RecordType, key: Sequence[RecordField], backend: str
) -> sa.Table:
    """Defines the table of a record type."""
    columns = [
        # Integer keys come from the records, not from a sequence of the database.
        sa.Column(field.column, _type(field.type, backend), nullable=field.column_type.nullable, autoincrement=False)
        for field in record_type.columns
    ]
    primary = [sa.PrimaryKeyConstraint(*(field.column for field in key))] if key else []
    info = {_FILLED: _FILL_FACTOR} if key else {}
    return sa.Table(name, sa.MetaData(), *columns, *primary, schema=schema, info=info)


class CreateTable(sa.schema.CreateTable):
    """Creates a table, in PostgreSQL with its fill factor: SQLAlchemy 2.0 takes no storage parameters of tables."""


@compiles(CreateTable, "postgresql")
def _with_room(create: CreateTable, compiler: DDLCompiler, **options: Any) -> str:
    statement: str = compiler.visit_create_table(create, **options)  # type: ignore[no-untyped-call]  # of SQLAlchemy
    factor = create.element.info.get(_FILLED)
    return statement if factor is None else f"{statement.rstrip()} WITH (fillfactor = {factor})"


def _type(value: ValueType, backend: str) -> TypeEngine[Any]:
    kind = value.scalar_kind
    if kind in JSON_CELLS:
        return postgresql.JSONB(none_as_null=True) if backend == "postgresql" else sa.Text()
    return (_POSTGRESQL if backend == "postgresql" else _SQLITE)[kind]


def batches_table(schema: str | None) -> sa.Table:
    """Defines the table with the number of the last batch that each sink of each query has written."""
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


def name_of(connection: sa.Connection, table: sa.Table) -> str:
    """Returns the quoted name of a table, as a value; SQLAlchemy doubles the percent signs of names in statements."""
    return connection.dialect.identifier_preparer.format_table(table).replace("%%", "%")


def create_statement(table: sa.Table, engine: sa.Engine) -> str:
    """Returns the SQL text of the statement that creates the table."""
    return " ".join(str(CreateTable(table).compile(engine)).split())


def faults_of(
    connection: sa.Connection, table: sa.Table, record_type: RecordType
) -> tuple[list[str], Mapping[str, int]]:
    """Finds why a table could not store each record unchanged, a line for each fault.

    Also returns the most characters of text columns that are limited, by the column's name.
    """
    inspector = sa.inspect(connection)
    name, schema = table.name, table.schema
    key = {column.name for column in table.primary_key}
    in_sqlite = connection.dialect.name == "sqlite"
    lengths: dict[str, int] = {}
    if in_sqlite:
        inexact = _inexact_in_sqlite(connection, table, record_type.columns, key)
    else:
        inexact, lengths = _inexact_in_postgresql(connection, table, record_type.columns, key)
    existing = {column["name"]: column for column in inspector.get_columns(name, schema)}
    faults: list[str] = []
    for field in record_type.columns:
        column = existing.pop(field.column, None)
        wanted = table.c[field.column].type
        if column is None:
            faults.append(f"{field.column}: no such column; expected {wanted}")
        elif field.column in inexact:
            faults.append(f"{field.column}: {inexact[field.column]}; expected {wanted.compile(connection.dialect)}")
        elif field.column_type.nullable and not column["nullable"]:
            faults.append(f"{field.column}: the column is NOT NULL, and the field may be None")
    faults += [
        f"{column['name']}: the column is NOT NULL without a default, and {record_type.name} has no such field"
        for column in existing.values()
        if not _fills_itself(column)
    ]
    if key and key not in _unique_columns(inspector, name, schema):
        faults.append(f"the table has no primary key or unique index of exactly: {', '.join(sorted(key))}")
    return faults, lengths


def _fills_itself(column: ReflectedColumn) -> bool:
    return bool(
        column["nullable"]
        or column.get("default") is not None
        or column.get("autoincrement") is True
        or column.get("computed")
        or column.get("identity")
    )


def _unique_columns(inspector: sa.Inspector, name: str, schema: str | None) -> list[set[str | None]]:
    """Returns the sets of columns whose combinations of values are unique in the table."""
    sets: list[set[str | None]] = [set(inspector.get_pk_constraint(name, schema)["constrained_columns"])]
    sets += [set(constraint["column_names"]) for constraint in inspector.get_unique_constraints(name, schema)]
    # In SQLite each constraint has an index, and SQLAlchemy finds some constraints only by these.
    options = {"include_auto_indexes": True} if inspector.dialect.name == "sqlite" else {}
    for index in inspector.get_indexes(name, schema, **options):
        partial = any(option.endswith("_where") for option in index.get("dialect_options", {}))
        if index["unique"] and not partial:
            sets.append(set(index["column_names"]))
    return sets


# PostgreSQL

# Selects each column's name, its type with modifiers and without domains, and whether only identical texts are equal.
_COLUMNS: Final = """
WITH RECURSIVE resolved AS (
    SELECT a.attname, t.oid, t.typtype, t.typbasetype, a.atttypmod AS modifier, t.typtypmod, a.attcollation
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = CAST(:name AS regclass) AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT r.attname, t.oid, t.typtype, t.typbasetype, r.typtypmod, t.typtypmod, r.attcollation
    FROM resolved r JOIN pg_type t ON t.oid = r.typbasetype WHERE r.typtype = 'd'
)
SELECT r.attname, format_type(r.oid, r.modifier), COALESCE(c.collisdeterministic, true)
FROM resolved r LEFT JOIN pg_collation c ON c.oid = r.attcollation WHERE r.typtype <> 'd'
"""
_EXACT_TYPES: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.BOOL: frozenset(["boolean"]),
    Kind.INT: frozenset(["bigint", "integer", "smallint", "numeric"]),
    # A numeric keeps only 15 digits of a float.
    Kind.FLOAT: frozenset(["double precision"]),
    # A character(n) is padded with blanks; a name is cut off.
    Kind.STR: frozenset(["text", "character varying", "citext"]),
    Kind.BYTES: frozenset(["bytea"]),
    # Exact only without a scale: a numeric with one is rounded.
    Kind.DECIMAL: frozenset(["numeric"]),
    Kind.UUID: frozenset(["uuid"]),
    # Without a zone the moment would depend on the settings of the connection.
    Kind.DATETIME: frozenset(["timestamp with time zone", "timestamp(6) with time zone"]),
    Kind.DATE: frozenset(["date"]),
    Kind.TIMEDELTA: frozenset(["interval", "interval(6)"]),
}
_NUMERIC: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")
_VARYING: Final = re.compile(r"character varying\((\d+)\)")


def _inexact_in_postgresql(
    connection: sa.Connection, table: sa.Table, fields: Collection[RecordField], key: Collection[str]
) -> tuple[dict[str, str], dict[str, int]]:
    """Finds faults of columns that are not exact, and the length limits of text columns, both by column name."""
    types = _types_in_postgresql(connection, table)
    faults: dict[str, str] = {}
    for field in fields:
        if field.column not in types:
            continue
        text, is_deterministic = types[field.column]
        if not _keeps_in_postgresql(text, field.type.scalar_kind):
            faults[field.column] = f"the column is {text}, which does not keep every {field.type} as it is"
        elif field.column in key and (text == "citext" or not is_deterministic):
            faults[field.column] = "the column takes different texts for equal, and is part of the key"
    return faults, _lengths_of(types)


def text_lengths(connection: sa.Connection, table: sa.Table) -> Mapping[str, int]:
    """Returns the most characters of text columns of PostgreSQL that are limited, by the column's name."""
    return _lengths_of(_types_in_postgresql(connection, table))


def _types_in_postgresql(connection: sa.Connection, table: sa.Table) -> dict[str, tuple[str, bool]]:
    """Returns the type of each column, and whether only identical texts are equal, by the column's name."""
    name = name_of(connection, table)
    columns = connection.execute(sa.text(_COLUMNS), {"name": name})
    return {column: (text.rpartition(".")[2], exact) for column, text, exact in columns}


def _lengths_of(types: Mapping[str, tuple[str, bool]]) -> dict[str, int]:
    varying = {column: _VARYING.fullmatch(text) for column, (text, _) in types.items()}
    return {column: int(limit[1]) for column, limit in varying.items() if limit is not None}


def _keeps_in_postgresql(text: str, kind: Kind) -> bool:
    if kind is Kind.NONE:
        return True
    if kind in JSON_CELLS:
        return text in {"json", "jsonb"}
    numeric = _NUMERIC.fullmatch(text)
    if kind is Kind.INT and numeric is not None:
        precision, scale = int(numeric[1]), int(numeric[2])
        return scale >= 0 and precision - scale >= _INT_DIGITS
    return text in _EXACT_TYPES[kind] or (kind is Kind.STR and _VARYING.fullmatch(text) is not None)


# SQLite

# How columns convert values, by parts of the type's name: "Determination Of Column Affinity" of SQLite's documentation.
_AFFINITIES: Final[Mapping[str, Collection[str]]] = {
    "INTEGER": ["INT"],
    "TEXT": ["CHAR", "CLOB", "TEXT"],
    "BLOB": ["BLOB"],
    "REAL": ["REAL", "FLOA", "DOUB"],
}
# The affinities that store values exactly. Other types become bytes or texts of no number, which every column stores.
_EXACT_AFFINITIES: Final[Mapping[Kind, Collection[str]]] = {
    **dict.fromkeys([Kind.BOOL, Kind.INT, Kind.TIMEDELTA], ("INTEGER", "NUMERIC", "BLOB")),
    Kind.FLOAT: ("REAL", "BLOB"),
    **dict.fromkeys([Kind.STR, Kind.DECIMAL, *ANY_JSON], ("TEXT", "BLOB")),
}
_KEY_COLLATIONS: Final = """
SELECT i.name, x.name, x.coll
FROM pragma_index_list(:name, :schema) AS i, pragma_index_xinfo(i.name, :schema) AS x WHERE i."unique" AND x.key
"""


def _inexact_in_sqlite(
    connection: sa.Connection, table: sa.Table, fields: Collection[RecordField], key: Collection[str]
) -> dict[str, str]:
    """Finds faults of columns that are not exact, by column name."""
    parameters = {"name": table.name, "schema": table.schema or "main"}
    rows = connection.execute(sa.text("SELECT name, type FROM pragma_table_xinfo(:name, :schema)"), parameters)
    types: dict[str, str] = {row.name: row.type for row in rows}
    is_strict = connection.execute(
        sa.text("SELECT max(strict) FROM pragma_table_list(:name) WHERE schema = :schema"), parameters
    ).scalar()
    # The key is compared by the unique indexes that have exactly its columns.
    indexes: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for index, column, collation in connection.execute(sa.text(_KEY_COLLATIONS), parameters):
        indexes[index][column] = collation
    compared = [columns for columns in indexes.values() if set(columns) == key]
    faults: dict[str, str] = {}
    for field in fields:
        text = types.get(field.column)
        if text is None:
            continue
        exact = _EXACT_AFFINITIES.get(field.type.scalar_kind)
        collations = {columns[field.column] for columns in compared if field.column in columns}
        if exact is not None and _affinity(text, is_strict=bool(is_strict)) not in exact:
            shown = text or "without a type"
            faults[field.column] = f"the column is {shown}, which does not keep every {field.type} as it is"
        elif not collations <= {"BINARY"}:
            shown = ", ".join(sorted(collations))
            faults[field.column] = f"the key is compared by {shown}, which takes different texts for equal"
    return faults


def _affinity(declared: str, *, is_strict: bool) -> str:
    upper = declared.upper()
    if not declared or (is_strict and upper == "ANY"):
        return "BLOB"
    return next((name for name, parts in _AFFINITIES.items() if any(part in upper for part in parts)), "NUMERIC")
