"""Batches as transactions of a PostgreSQL or SQLite database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from windrow.errors import SinkError, WindrowError
from windrow.plan import Step
from windrow.sinks import DatabaseSink
from windrow_runtime.operators.errors import with_field
from windrow_runtime.outputs.cells import RowEncoder
from windrow_runtime.outputs.output import Identity, TableOutput
from windrow_runtime.outputs.tables import batches_table, check_key, create_statement, faults_of, table_for

_ROWS_AT_ONCE = 5_000  # what is sent in one go; the transaction is that of the whole batch
_LOCK_SECONDS = 30.0  # how long SQLite waits for another writer; its own default of 5 is short beside a batch


class DatabaseOutput(TableOutput):
    """Writes the batches of one sink.

    The transaction of a batch begins with its number: one row for each sink holds the number of the last batch, and
    is only ever raised. The row stays locked to the end of the transaction, so that of two processes with one
    checkpoint the second finds the batch written.
    """

    hint = "check the address, the user and what the user may do there"

    # Any: elements of every type.
    def __init__(self, step: Step, sink: DatabaseSink[Any], identity: Identity) -> None:
        super().__init__(step, sink)
        kind = self._kind
        key = self.fields_named(sink.key, "the key of the table")
        check_key(key, kind, step.where)
        self._sink = sink
        self._identity = identity
        self._encoder = RowEncoder(kind, sink.url.backend, {})
        self._names = [field.column for field in kind.columns]
        self._key_places = [self._names.index(field.column) for field in key]
        self._table = table_for(sink.table, sink.schema, kind, key, sink.url.backend)
        self._batches = batches_table(sink.schema)
        with self.failures("the database cannot be used"):
            self._engine = _engine(sink)
        self._claim = self._claim_statement()
        self._upsert = self._upsert_statement()

    def clean(self, text: str) -> str:
        return self._sink.url.scrub(text)

    def open(self) -> None:
        """Make the tables, or check them."""
        with self.failures("the database cannot be made ready"):
            with self._engine.connect() as connection:
                found = sa.inspect(connection)
                tables = (self._table, self._batches)
                missing = [table for table in tables if not found.has_table(table.name, schema=table.schema)]
                if self._table not in missing:
                    self._check_table(connection)
            if missing and not self._sink.create:
                raise SinkError(
                    f"there is no table {' and no table '.join(table.name for table in missing)}",
                    given=self._shown,
                    expected="; ".join(create_statement(table, self._engine) for table in missing),
                    where=self._where,
                    hint="make it, or let the sink make it: create=True",
                )
            with self._engine.begin() as connection:
                for table in missing:
                    connection.execute(sa.schema.CreateTable(table, if_not_exists=True))

    def _check_table(self, connection: sa.Connection) -> None:
        """Refuses a table that would not give back every record as it was."""
        faults, lengths = faults_of(connection, self._table, self._kind)
        expected = create_statement(self._table, self._engine)
        hint = "alter the table or the record type, or write to a new table"
        self.refuse("the table", faults, hint=hint, expected=expected)
        self._encoder = RowEncoder(self._kind, self._sink.url.backend, lengths)

    def write(self, batch: int, values: Sequence[object]) -> None:
        """Write a batch in one transaction, unless it was written before."""
        try:
            rows = self._encoder.encode(values)
        except WindrowError as error:
            raise with_field(self._where, error) from error.__cause__
        if self._key_places:
            # PostgreSQL touches a row once in a statement: the last row of each key.
            rows = list({tuple(row[place] for place in self._key_places): row for row in rows}.values())
        with self.failures("the database refused a batch", batch, len(values)), self._engine.begin() as connection:
            # SQLAlchemy keeps the count of an INSERT only where it is asked to.
            counting = {"preserve_rowcount": True}
            claimed = connection.execute(self._claim, {"this": batch}, execution_options=counting)
            if claimed.rowcount == 0:
                return
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                part = rows[start : start + _ROWS_AT_ONCE]
                connection.execute(self._upsert, [dict(zip(self._names, row, strict=True)) for row in part])

    def _claim_statement(self) -> sa.Executable:
        batches = self._batches
        this = sa.bindparam("this", type_=sa.BigInteger)
        now = sa.func.current_timestamp()
        insert = self._insert(batches).values(
            query_id=self._identity.query, sink=self._identity.sink, batch=this, written_at=now
        )
        return insert.on_conflict_do_update(
            index_elements=["query_id", "sink"],
            set_={"batch": insert.excluded.batch, "written_at": now},
            where=batches.c.batch < insert.excluded.batch,
        )

    def _upsert_statement(self) -> sa.Executable:
        insert = self._insert(self._table)
        key = [self._names[place] for place in self._key_places]
        if not key:
            return insert
        others = {name: insert.excluded[name] for name in self._names if name not in key}
        if not others:
            return insert.on_conflict_do_nothing(index_elements=key)
        return insert.on_conflict_do_update(index_elements=key, set_=others)

    def _insert(self, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
        return postgresql.insert(table) if self._sink.url.backend == "postgresql" else sqlite.insert(table)


# Any: elements of every type.
def _engine(sink: DatabaseSink[Any]) -> sa.Engine:
    url = sa.make_url(sink.url.text)
    url = url.set(drivername="postgresql+psycopg" if sink.url.backend == "postgresql" else "sqlite+pysqlite")
    arguments: dict[str, object] = {}
    if sink.url.backend == "sqlite" and "timeout" not in url.query:
        arguments["timeout"] = _LOCK_SECONDS
    return sa.create_engine(
        url,
        # A connection for each batch: none to keep alive between batches, or to close at the end.
        poolclass=sa.pool.NullPool,
        connect_args=arguments,
        # Values of rows stay out of errors.
        hide_parameters=True,
        # The encoder makes the texts.
        json_serializer=str,
    )
