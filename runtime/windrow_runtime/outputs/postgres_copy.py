"""Sends the rows of a batch to PostgreSQL by COPY, which takes dozens of times as many a second as INSERT.

COPY fills a temporary table, and one statement moves its rows into the sink's table. So rows get there by INSERT, with
all that a table may have: keys, rules, triggers, policies for rows. The temporary table has the types that a table of
the sink's own making would have; where the sink's table has others, PostgreSQL converts what it takes and refuses the
rest, as with INSERT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa

Row = tuple[object, ...]

FEWEST_ROWS: Final = 200
"""From how many rows on COPY is used: below that INSERT takes milliseconds, and leaves no traces in the catalogue."""

_ROWS_AT_ONCE: Final = 10_000  # that are one text on their way

_MAY_COPY: Final = sa.text("SELECT has_database_privilege(current_database(), 'TEMPORARY')")


def may_copy(connection: sa.Connection) -> bool:
    """Returns whether the user may make temporary tables, which everybody may unless it was taken from them."""
    return bool(connection.execute(_MAY_COPY).scalar())


class StagedRows:
    """Rows of some columns of a table, on their way there by a temporary table.

    Args:
        name: The name of the temporary table.
        table: The sink's table.
        columns: The columns of the rows, in order.
    """

    def __init__(self, name: str, table: sa.Table, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.table = sa.Table(
            name,
            sa.MetaData(),
            *[sa.Column(column, table.c[column].type) for column in columns],
            prefixes=["TEMPORARY"],
            postgresql_on_commit="DROP",
        )

    def fill(self, connection: sa.Connection, rows: Sequence[Row]) -> None:
        """Make the temporary table, which is gone with the transaction, and send it the rows."""
        connection.execute(sa.schema.CreateTable(self.table))
        prepare = connection.dialect.identifier_preparer
        quoted = ", ".join([prepare.quote(column) for column in self.columns])
        statement = f"COPY {prepare.format_table(self.table)} ({quoted}) FROM STDIN"
        # Any: SQLAlchemy knows neither the driver's connection nor COPY.
        driver: Any = connection.connection.driver_connection
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for text in _texts(rows):
                copy.write(text)

    def select(self, key: Sequence[str]) -> sa.Select[Any]:  # Any: rows of the sink's columns
        """The query of all rows, in the order of a key: so PostgreSQL finds the places of its index side by side."""
        columns = self.table.c
        return sa.select(*[columns[name] for name in self.columns]).order_by(*[columns[name] for name in key])


# Column by column: the driver's own way takes each cell by itself, which takes several times as long.


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
        if kind in (int, float):
            return _number_texts(cells, _FORMS[kind])
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


def _number_texts(cells: Sequence[Any], form: Callable[[Any], str]) -> list[str]:
    """Numbers as they stand in a column; msgspec, where it is installed, makes several times as many a second."""
    try:
        from msgspec.json import encode
    except ImportError:
        return list(map(form, cells))
    texts = encode(cells).decode()
    # JSON has no text for NaN and infinity.
    return list(map(form, cells)) if "null" in texts else texts[1:-1].split(",")


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
