"""Keeps the rows of a batch in a table of PostgreSQL beside the sink's until the batch is complete.

Tasks of a batch copy rows there in *parts*: transactions, each of which gives its rows a random number. The driver
gets the numbers of the tasks that succeeded, and one statement moves the rows of these parts. All others, such as
those of tasks that failed or were run twice, go with the table.

The table is UNLOGGED: its rows are in no log that is flushed or sent to replicas. A server that crashes empties it, so
the rows of each part are counted before they are moved.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from windrow_runtime.outputs.output import Identity
from windrow_sql.database.postgres_copy import Row, copy_texts, row_texts

# Any in this module: the Python side of columns.

_PREFIX: Final = "windrow_staged_"
_KEPT: Final = timedelta(days=1)
"""How old a table is that a run has left which does not start again; a batch that takes longer would be tried again."""

_TABLES: Final = sa.text(
    "SELECT c.relname, obj_description(c.oid, 'pg_class') FROM pg_class c WHERE c.relname LIKE 'windrow\\_staged\\_%'"
    " AND c.relkind = 'r' AND pg_has_role(c.relowner, 'USAGE')"
    " AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = coalesce(:schema, current_schema()))"
)
_MOST_SECONDS_TO_DROP: Final = sa.text("SET LOCAL lock_timeout = '2s'")


def new_part() -> int:
    """Returns the number of a part that no other one has."""
    return secrets.randbits(63)


class Staging:
    """The tables in which a sink stages the rows of its batches, one for each batch.

    Args:
        target: The table of the sink.
        columns: Its columns that the rows have, in order.
        key: Those of them that tell rows apart.
        identity: The query and the sink.
    """

    def __init__(self, target: sa.Table, columns: Sequence[str], key: Collection[str], identity: Identity) -> None:
        self._target = target
        self._columns = columns
        # The names of the user's columns may be those of windrow's.
        self._names = {name: f"c{place}" for place, name in enumerate(columns)}
        self._key = [self._names[name] for name in columns if name in key]
        kinds = [repr(target.c[name].type) for name in columns]
        own = repr((*identity, target.name, list(columns), kinds)).encode()
        self._prefix = f"{_PREFIX}{blake2b(own, digest_size=8).hexdigest()}_"

    def table(self, batch: int) -> sa.Table:
        """Returns the table of a batch."""
        kinds = [(self._names[name], self._target.c[name].type) for name in self._columns]
        # Texts of the key are sorted by their bytes, which is fast.
        sorted_by_bytes = sa.Text(collation="C")
        cells = [
            sa.Column(name, sorted_by_bytes if name in self._key and isinstance(kind, sa.Text) else kind)
            for name, kind in kinds
        ]
        own = [sa.Column("part", sa.BigInteger)]
        if self._key:
            own += [sa.Column("number", sa.BigInteger), sa.Column("place", sa.Integer), sa.Column("gone", sa.Boolean)]
        name = f"{self._prefix}{batch}"
        return sa.Table(name, sa.MetaData(), *own, *cells, schema=self._target.schema, prefixes=["UNLOGGED"])

    def texts(self, part: int, number: int, rows: Sequence[Row], gone: Sequence[bool]) -> list[bytes]:
        """Encodes rows of a part for :meth:`copy`.

        Args:
            part: The number of the part.
            number: What orders these rows among others; of rows with one key the last one counts.
            rows: The cells of the sink's columns.
            gone: Whether a row is deleted; only a sink with a key deletes some.
        """
        if not self._key:
            return list(row_texts([(part, *row) for row in rows]))
        staged = zip(range(len(rows)), gone, rows, strict=True)
        return list(row_texts([(part, number, place, is_gone, *row) for place, is_gone, row in staged]))

    def create(self, connection: sa.Connection, batch: int) -> None:
        """Creates the table of a batch, unless another task has done so."""
        table = self.table(batch)
        # Without a lock, of two that create a table at a time one fails.
        lock = int.from_bytes(blake2b(table.name.encode(), digest_size=8).digest(), signed=True)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))
        if not self.exists(connection, batch):
            connection.execute(sa.schema.CreateTable(table))
            connection.execute(
                sa.schema.SetTableComment(sa.Table(table.name, sa.MetaData(), schema=table.schema, comment=_now()))
            )

    def exists(self, connection: sa.Connection, batch: int) -> bool:
        """Returns whether the table of a batch exists."""
        table = self.table(batch)
        return sa.inspect(connection).has_table(table.name, schema=table.schema)

    def copy(self, connection: sa.Connection, batch: int, texts: Iterable[bytes]) -> None:
        """Copies rows into the table of a batch, in the transaction of the connection."""
        table = self.table(batch)
        copy_texts(connection, table, [column.name for column in table.columns], texts)

    def forget(self, connection: sa.Connection, batch: int, part: int) -> None:
        """Deletes the rows of a part, of which nobody knows whether they are there."""
        table = self.table(batch)
        connection.execute(sa.delete(table).where(table.c.part == part))

    def counts(self, connection: sa.Connection, batch: int, parts: Collection[int]) -> Mapping[int, int]:
        """Returns how many rows the table of a batch has of each of some parts."""
        if not self.exists(connection, batch):
            return {}
        table = self.table(batch)
        counts = (
            sa.select(table.c.part, sa.func.count().label("rows")).where(_are_of(table, parts)).group_by(table.c.part)
        )
        return {row.part: row.rows for row in connection.execute(counts)}

    def rows(self, batch: int, parts: Collection[int]) -> sa.Select[Any]:
        """Returns the query for the cells of a batch's rows, of rows with one key the last one if it is not deleted."""
        last = self._last(batch, parts)
        rows = sa.select(*[last.c[self._names[name]] for name in self._columns])
        return rows.where(~last.c.gone) if self._key else rows

    def deletion(self, batch: int, parts: Collection[int]) -> sa.Delete:
        """Returns the statement that deletes the rows of the sink's table whose key is last deleted in a batch."""
        last = self._last(batch, parts)
        same = [self._target.c[name] == last.c[staged] for name, staged in self._names.items() if staged in self._key]
        return sa.delete(self._target).where(*same, last.c.gone)

    def _last(self, batch: int, parts: Collection[int]) -> sa.Subquery:
        table = self.table(batch)
        rows = sa.select(table).where(_are_of(table, parts))
        if self._key:
            key = [table.c[name] for name in self._key]
            rows = rows.order_by(*key, table.c.number.desc(), table.c.place.desc())
            rows = rows.prefix_with(f"DISTINCT ON ({', '.join(self._key)})")
        return rows.subquery("staged")

    def left(self, connection: sa.Connection) -> list[sa.Table]:
        """Returns the tables that earlier runs of the query have left, and those of any run that are old."""
        oldest = (datetime.now(UTC) - _KEPT).isoformat()
        tables = connection.execute(_TABLES, {"schema": self._target.schema})
        return [
            sa.Table(name, sa.MetaData(), schema=self._target.schema)
            for name, made in tables
            if name.startswith(self._prefix) or (made or oldest) < oldest
        ]

    def drop(self, connection: sa.Connection, table: sa.Table) -> None:
        """Drops a table, unless a task that nobody waits for writes to it for seconds."""
        connection.execute(_MOST_SECONDS_TO_DROP)
        connection.execute(sa.schema.DropTable(table, if_exists=True))


def _are_of(table: sa.Table, parts: Collection[int]) -> sa.ColumnElement[bool]:
    return table.c.part == sa.any_(sa.literal(list(parts), postgresql.ARRAY(sa.BigInteger)))


def _now() -> str:
    return datetime.now(UTC).isoformat()
