"""Finds the columns of a table that would change a value without an error, or take two keys for one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from windrow_runtime.codecs.record_type import Field, Kind, ValueType
from windrow_runtime.outputs.cells import NESTED

_INT_DIGITS: Final = 19  # of the largest int of 64 bits


@dataclass(frozen=True, slots=True)
class ExactColumns:
    """The findings of the checks of a table.

    Attributes:
        faults: What is wrong with a column, by its name, for those that are not exact.
        lengths: How many characters a column of texts holds at most, by its name, where it has a limit. PostgreSQL
            refuses a longer text, but for one whose rest is blanks, which it cuts off.
    """

    faults: Mapping[str, str]
    lengths: Mapping[str, int]


def exact_columns(
    connection: sa.Connection, table: sa.Table, fields: Collection[Field], key: Collection[str]
) -> ExactColumns:
    """Check the columns of a table that exists.

    A column is exact if every value of its field that the database accepts comes back as it was, and, where it is part
    of the key, if two values are equal for the database only where they are equal for Python.

    Args:
        connection: To the database.
        table: The table as windrow would make it.
        fields: The fields of the records; those without a column are passed over.
        key: The names of the columns of the key.
    """
    if connection.dialect.name == "sqlite":
        return _exact_in_sqlite(connection, table, fields, key)
    return _exact_in_postgresql(connection, table, fields, key)


def _stored(value: ValueType) -> Kind:
    return value.arguments[0].kind if value.kind is Kind.ENUM else value.kind


# PostgreSQL

# The name, the type with its modifiers and behind all domains, and whether equal texts are identical ones.
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
    # A numeric takes 15 digits of a float.
    Kind.FLOAT: frozenset(["double precision"]),
    # A character(n) is filled up with blanks; a name is cut off.
    Kind.STR: frozenset(["text", "character varying", "citext"]),
    Kind.BYTES: frozenset(["bytea"]),
    # One with a scale is rounded.
    Kind.DECIMAL: frozenset(["numeric"]),
    Kind.UUID: frozenset(["uuid"]),
    Kind.DATETIME: frozenset(["timestamp with time zone", "timestamp(6) with time zone"]),
    Kind.DATE: frozenset(["date"]),
    Kind.TIMEDELTA: frozenset(["interval", "interval(6)"]),
}
_NUMERIC: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")
_VARYING: Final = re.compile(r"character varying\((\d+)\)")


def _exact_in_postgresql(
    connection: sa.Connection, table: sa.Table, fields: Collection[Field], key: Collection[str]
) -> ExactColumns:
    name = connection.dialect.identifier_preparer.format_table(table)
    types: dict[str, tuple[str, bool]] = {
        column: (text.rpartition(".")[2], exact)
        for column, text, exact in connection.execute(sa.text(_COLUMNS), {"name": name})
    }
    faults: dict[str, str] = {}
    lengths: dict[str, int] = {}
    for field in fields:
        if field.column not in types:
            continue
        text, is_deterministic = types[field.column]
        varying = _VARYING.fullmatch(text)
        if varying is not None:
            lengths[field.column] = int(varying[1])
        if not _keeps_in_postgresql(text, _stored(field.type)):
            faults[field.column] = f"the column is {text}, which does not keep every {field.type} as it is"
        elif field.column in key and (text == "citext" or not is_deterministic):
            faults[field.column] = "the column takes different texts for equal, and is part of the key"
    return ExactColumns(faults, lengths)


def _keeps_in_postgresql(text: str, kind: Kind) -> bool:
    if kind is Kind.NONE:
        return True
    if kind in NESTED:
        return text in {"json", "jsonb"}
    numeric = _NUMERIC.fullmatch(text)
    if kind is Kind.INT and numeric is not None:
        precision, scale = int(numeric[1]), int(numeric[2])
        return scale >= 0 and precision - scale >= _INT_DIGITS
    if kind is Kind.STR and _VARYING.fullmatch(text) is not None:
        return True
    return text in _EXACT_TYPES[kind]


# SQLite

# How a column converts what it is given; see "Determination Of Column Affinity" in SQLite's documentation.
_INTEGER, _TEXT, _BLOB, _REAL, _NUMERIC_AFFINITY = "INTEGER", "TEXT", "BLOB", "REAL", "NUMERIC"
_AFFINITIES: Final = (
    ("INT", _INTEGER),
    ("CHAR", _TEXT),
    ("CLOB", _TEXT),
    ("TEXT", _TEXT),
    ("BLOB", _BLOB),
    ("REAL", _REAL),
    ("FLOA", _REAL),
    ("DOUB", _REAL),
)
_ALL: Final = frozenset([_INTEGER, _TEXT, _BLOB, _REAL, _NUMERIC_AFFINITY])
_OF_INTS: Final = frozenset([_INTEGER, _NUMERIC_AFFINITY, _BLOB])
_OF_TEXTS: Final = frozenset([_TEXT, _BLOB])
# A text that is no number, and bytes, are stored as they are by every column.
_EXACT_AFFINITIES: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.NONE: _ALL,
    Kind.BOOL: _OF_INTS,
    Kind.INT: _OF_INTS,
    Kind.TIMEDELTA: _OF_INTS,
    Kind.FLOAT: frozenset([_REAL, _BLOB]),
    Kind.STR: _OF_TEXTS,
    Kind.DECIMAL: _OF_TEXTS,
    Kind.BYTES: _ALL,
    Kind.UUID: _ALL,
    Kind.DATETIME: _ALL,
    Kind.DATE: _ALL,
}


def _exact_in_sqlite(
    connection: sa.Connection, table: sa.Table, fields: Collection[Field], key: Collection[str]
) -> ExactColumns:
    found = connection.execute(sa.text("SELECT name, type FROM pragma_table_xinfo(:name, :schema)"), _place(table))
    types: dict[str, str] = {row.name: row.type for row in found}
    strict = connection.execute(
        sa.text("SELECT max(strict) FROM pragma_table_list(:name) WHERE schema = :schema"), _place(table)
    ).scalar()
    collations = _key_collations(connection, table, key)
    faults: dict[str, str] = {}
    for field in fields:
        if field.column not in types:
            continue
        text, kind = types[field.column], _stored(field.type)
        if _affinity(text, strict=bool(strict)) not in (_ALL if kind in NESTED else _EXACT_AFFINITIES[kind]):
            shown = text or "without a type"
            faults[field.column] = f"the column is {shown}, which does not keep every {field.type} as it is"
        elif not collations.get(field.column, set()) <= {"BINARY"}:
            shown = ", ".join(sorted(collations[field.column]))
            faults[field.column] = f"the key is compared by {shown}, which takes different texts for equal"
    return ExactColumns(faults, {})


def _place(table: sa.Table) -> dict[str, str]:
    return {"name": table.name, "schema": table.schema or "main"}


def _affinity(declared: str, *, strict: bool) -> str:
    if strict and declared.upper() == "ANY":
        return _BLOB
    if not declared:
        return _BLOB
    upper = declared.upper()
    return next((affinity for part, affinity in _AFFINITIES if part in upper), _NUMERIC_AFFINITY)


def _key_collations(connection: sa.Connection, table: sa.Table, key: Collection[str]) -> dict[str, set[str]]:
    """The collations by which the unique indexes of exactly the key compare its columns."""
    collations: dict[str, set[str]] = {}
    indexes = connection.execute(
        sa.text('SELECT name FROM pragma_index_list(:name, :schema) WHERE "unique"'), _place(table)
    )
    for (index,) in list(indexes):
        columns = connection.execute(
            sa.text("SELECT name, coll FROM pragma_index_xinfo(:name, :schema) WHERE key"),
            {"name": index, "schema": table.schema or "main"},
        )
        compared = {row.name: row.coll for row in columns}
        if key and set(compared) == set(key):
            for name, collation in compared.items():
                collations.setdefault(name, set()).add(collation)
    return collations
