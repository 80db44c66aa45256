"""Moves many rows into PostgreSQL at once, by COPY."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID, uuid4

import sqlalchemy as sa

__all__ = ["BulkTable", "copy_rows", "may_copy"]

# Any in this module: the driver's connection has no type for SQLAlchemy, and cells are of every type.

_ROWS_AT_ONCE: Final = 10_000  # that are one text on their way

_RIGHTS: Final = """
SELECT relkind IN ('r', 'p') AND NOT relhasrules AND NOT relrowsecurity,
       has_database_privilege(current_database(), 'TEMP')
FROM pg_class WHERE oid = CAST(:name AS regclass)
"""


def may_copy(connection: sa.Connection, table: sa.Table) -> tuple[bool, bool]:
    """Whether COPY may write a table itself, and whether it may write temporary ones.

    COPY passes over rules, and is refused for rows with a policy and for views.
    """
    name = connection.dialect.identifier_preparer.format_table(table)
    row = connection.execute(sa.text(_RIGHTS), {"name": name}).one_or_none()
    return (False, False) if row is None else (bool(row[0]), bool(row[1]))


def copy_rows(connection: sa.Connection, table: sa.Table, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Writes rows into columns of a table, in the transaction of the connection."""
    quoted = connection.dialect.identifier_preparer
    columns = ", ".join([quoted.quote(name) for name in names])
    statement = f"COPY {quoted.format_table(table)} ({columns}) FROM STDIN"
    # Any: the connection of psycopg.
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for text in _texts(rows):
            copy.write(text)


class BulkTable:
    """A temporary table with some columns of another one, for the rows of one transaction."""

    def __init__(self, table: sa.Table, names: Sequence[str]) -> None:
        self._names = tuple(names)
        columns = [sa.Column(name, table.c[name].type) for name in names]
        # A name that no table has: those of a session hide others.
        self.table = sa.Table(f"windrow_{uuid4().hex}", sa.MetaData(), *columns, schema="pg_temp")
        self._source = table

    def fill(self, connection: sa.Connection, rows: Sequence[Sequence[Any]]) -> None:
        """Makes the table, and writes rows into it; it is gone with the transaction."""
        quoted = connection.dialect.identifier_preparer
        columns = ", ".join([quoted.quote(name) for name in self._names])
        connection.execute(
            sa.text(
                f"CREATE TEMPORARY TABLE {quoted.quote(self.table.name)} ON COMMIT DROP AS "
                f"SELECT {columns} FROM {quoted.format_table(self._source)} WITH NO DATA".replace(":", r"\:")
            )
        )
        copy_rows(connection, self.table, self._names, rows)


def _texts(rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Rows in the text format of COPY, some thousands at a time."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[start : start + _ROWS_AT_ONCE]
        columns = [_column(cells) for cells in zip(*part, strict=True)]
        yield "\n".join(map("\t".join, zip(*columns, strict=True))) + "\n"


def _column(cells: Sequence[Any]) -> list[str]:
    kinds = set(map(type, cells))
    if len(kinds) == 1:
        (kind,) = kinds
        if kind is str:
            return _escaped(cells)
        return list(map(_FORMS.get(kind, _cell), cells))
    return [_NULL if cell is None else _cell(cell) for cell in cells]


_NULL: Final = r"\N"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def _escaped(texts: Sequence[str]) -> list[str]:
    """Texts as they stand in a column; PostgreSQL itself refuses a text with a NUL."""
    whole = "".join(texts)
    if not any(mark in whole for mark in "\\\t\n\r"):
        return list(texts)
    return [text.translate(_ESCAPES) for text in texts]


def _cell(cell: Any) -> str:
    form = _FORMS.get(type(cell))
    if form is not None:
        return form(cell)
    for kind, of_kind in _FORMS.items():
        if isinstance(cell, kind):
            return of_kind(cell)
    raise TypeError(f"a {type(cell).__name__} has no form in a column")


def _interval(span: timedelta) -> str:
    # In ISO 8601 each part has its sign, whatever the style of the session.
    return f"P{span.days}DT{span.seconds}.{span.microseconds:06}S"


_FORMS: Final[dict[type, Callable[[Any], str]]] = {
    bool: lambda cell: "t" if cell else "f",
    int: int.__repr__,
    float: float.__repr__,
    str: lambda cell: str.translate(cell, _ESCAPES),
    bytes: lambda cell: rf"\\x{cell.hex()}",
    Decimal: str,
    UUID: str,
    datetime: datetime.isoformat,
    date: date.isoformat,
    timedelta: _interval,
}
