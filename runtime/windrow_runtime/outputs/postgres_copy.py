"""Sends the rows of a batch to PostgreSQL by COPY, which takes dozens of times as many a second as INSERT.

COPY fills a temporary table, and one statement moves its rows into the sink's table. So rows get there by INSERT, with
all that a table may have: keys, rules, triggers, policies for rows. The temporary table has the types that a table of
the sink's own making would have; where the sink's table has others, PostgreSQL converts what it takes and refuses the
rest, as with INSERT.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

Row = tuple[object, ...]

FEWEST_ROWS: Final = 200
"""From how many rows on COPY is used: below that INSERT takes milliseconds, and leaves no traces in the catalogue."""

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
            for row in rows:
                copy.write_row(row)

    def select(self) -> sa.Select[Any]:  # Any: rows of the sink's columns
        """The query of all rows."""
        return sa.select(*[self.table.c[column] for column in self.columns])
