"""Sends the rows of a batch to PostgreSQL by COPY, which writes dozens of times as many rows a second as INSERT.

Rows that replace none are copied into the sink's table. Others are copied into a temporary table, and one statement
moves them into the sink's table. So are rows for a table with rules or row policies, which COPY would ignore, and rows
that COPY has refused: the error of INSERT says why, without the values of rows. The temporary table has the types
that a table created by the sink would have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa

from windrow_sql.database.tables import name_of

Row = tuple[object, ...]

_ROWS_AT_ONCE: Final = 10_000  # that are one text on their way

_OPTIONS: Final = r"""FORMAT csv, NULL 'null', QUOTE '"', ESCAPE E'\\', ENCODING 'UTF8'"""

_MAY_STAGE: Final = sa.text("SELECT has_database_privilege(current_database(), 'TEMPORARY')")
# COPY does not write to views, ignores rules, and refuses tables with policies that hold for the user.
_TAKES_COPY: Final = sa.text(
    "SELECT relkind IN ('r', 'p') AND NOT relhasrules AND NOT row_security_active(oid)"
    " FROM pg_class WHERE oid = CAST(:name AS regclass)"
)


def may_stage(connection: sa.Connection) -> bool:
    """Returns whether the user may create temporary tables, which is allowed by default."""
    return bool(connection.execute(_MAY_STAGE).scalar())


def takes_copy(connection: sa.Connection, table: sa.Table) -> bool:
    """Returns whether COPY into a table does what INSERT would do."""
    return bool(connection.execute(_TAKES_COPY, {"name": name_of(connection, table)}).scalar())


def copy_rows(connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Append rows to a table by COPY; the errors are the driver's own."""
    copy_texts(connection, table, columns, row_texts(rows))


def copy_texts(connection: sa.Connection, table: sa.Table, columns: Sequence[str], texts: Iterable[bytes]) -> None:
    """Append rows that :func:`row_texts` has encoded to a table by COPY."""
    quoted = ", ".join([connection.dialect.identifier_preparer.quote(column) for column in columns])
    # The driver takes a statement without parameters as it is.
    quoted = quoted.replace("%%", "%")
    statement = f"COPY {name_of(connection, table)} ({quoted}) FROM STDIN WITH ({_OPTIONS})"
    # Any: SQLAlchemy knows neither the driver's connection nor COPY.
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for text in texts:
            copy.write(text)


class StagedRows:
    """A temporary table that is filled with rows of some columns of the sink's table.

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
        """Create the temporary table, which ends with the transaction, and copy rows into it."""
        connection.execute(sa.schema.CreateTable(self.table))
        copy_rows(connection, self.table, self.columns, rows)

    def select(self) -> sa.Select[Any]:  # Any: rows of the sink's columns
        """Returns the query for all rows of the temporary table."""
        return sa.select(*[self.table.c[name] for name in self.columns])


def row_texts(rows: Sequence[Row]) -> Iterator[bytes]:
    """Encodes rows, some thousands at a time, as CSV with the quotes and escapes of JSON."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        portion = rows[start : start + _ROWS_AT_ONCE]
        yield _as_json(portion) or _cell_by_cell(portion)


def _as_json(rows: Sequence[Row]) -> bytes | None:
    """Encodes rows by msgspec, several times as fast; None if it is not installed or their JSON is no valid CSV."""
    try:
        from msgspec.json import Encoder
    except ImportError:
        return None
    if not _WRITTEN_AS_JSON.issuperset(set(map(type, chain.from_iterable(rows)))):
        return None
    lines = Encoder().encode_lines(rows)
    escapes = lines.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in lines else b""
    # JSON escapes control characters in its own syntax, and has null instead of NaN and infinity.
    if b"\\" in escapes or (b"null" in lines and not all(map(_is_finite, chain.from_iterable(rows)))):
        return None
    return lines[1:-2].replace(b"]\n[", b"\n") + b"\n"


_WRITTEN_AS_JSON: Final = frozenset({bool, int, float, str, Decimal, UUID, datetime, date, type(None)})


def _is_finite(cell: object) -> bool:
    return type(cell) is not float or math.isfinite(cell)


def _cell_by_cell(rows: Sequence[Row]) -> bytes:
    return "".join([",".join(map(_cell, row)) + "\n" for row in rows]).encode()


def _cell(cell: Any) -> str:
    if cell is None:
        return "null"
    form = _FORMS.get(type(cell))
    if form is not None:
        return form(cell)
    for class_, of_kind in _FORMS.items():
        if isinstance(cell, class_):
            return of_kind(cell)
    raise TypeError(f"a {type(cell).__name__} has no form in a column")


_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\""})


def _interval(span: timedelta) -> str:
    # PostgreSQL reads signed parts of ISO 8601 alike, whatever interval style the session has.
    return f"P{span.days}DT{span.seconds}.{span.microseconds:06}S"


_FORMS: Final[dict[type, Callable[[Any], str]]] = {
    bool: lambda cell: "true" if cell else "false",
    int: int.__repr__,
    float: float.__repr__,
    str: lambda cell: f'"{str.translate(cell, _ESCAPES)}"',
    bytes: lambda cell: rf"\x{cell.hex()}",
    Decimal: str,
    UUID: str,
    datetime: datetime.isoformat,
    date: date.isoformat,
    timedelta: _interval,
}
