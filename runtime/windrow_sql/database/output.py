"""Writes batches to a PostgreSQL or SQLite database, a transaction each, with elements as rows."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Final

import sqlalchemy as sa
from psycopg import DataError, IntegrityError
from sqlalchemy.dialects import postgresql, sqlite

from windrow.errors import SinkError
from windrow.plan import Step
from windrow.sinks import DatabaseSink
from windrow_runtime.codecs.malformed import shorten
from windrow_runtime.operators.changes import Changed, kind_of, value_of
from windrow_runtime.operators.errors import field_errors
from windrow_runtime.outputs.output import Identity, TableOutput, check_key, check_newest
from windrow_sql.database.postgres_copy import Row, StagedRows, copy_rows, may_stage, takes_copy
from windrow_sql.database.retries import retried
from windrow_sql.database.row_encoder import RowEncoder
from windrow_sql.database.tables import CreateTable, batches_table, create_statement, faults_of, table_for

_LOG: Final = logging.getLogger("windrow")
_MOST_BATCHES_WITHOUT_TRIAL: Final = 64
_CONNECT_SECONDS = 10
_LOCK_SECONDS = 30.0  # how long SQLite waits for another writer; the 5 of its default are short compared to a batch


@dataclass(frozen=True, slots=True)
class DatabaseLimits:
    """The sizes and pauses by which an output writes its batches, which tests make small."""

    rows_at_once: int = 5_000  # sent in one go; the transaction is that of the whole batch
    # Fewer rows take milliseconds by INSERT, which leaves no traces in PostgreSQL's catalogue as COPY does.
    fewest_copied_rows: int = 200
    first_pause_seconds: float = 0.5  # before the second attempt; each pause is twice the one before
    # A task on Spark sends so many elements at most to the driver, and so many bytes, before it stages others.
    sent_elements: int = 2_000
    sent_bytes: int = 1 << 20
    part_bytes: int = 4 << 20  # of a transaction that stages rows


LIMITS: Final = DatabaseLimits()


class DatabaseOutput(TableOutput):
    """Writes the batches of a database sink, each in a transaction.

    The transaction first raises the number of the last batch, which a table holds for each sink. That row stays locked
    to the end of the transaction, so that of two processes with one checkpoint the second finds the batch written.
    A number is never lowered: a batch below the last one is refused.
    """

    hint = "check the address, the user and what the user may do there"

    # Any: elements of every type.
    def __init__(
        self, step: Step, sink: DatabaseSink[Any], identity: Identity, limits: DatabaseLimits = LIMITS
    ) -> None:
        super().__init__(step, sink)
        record_type = self._record_type
        key = self.fields_named(sink.key, "the key of the table")
        check_key(key, record_type, step.where)
        self._sink = sink
        self._limits = limits
        self._identity = identity
        self._encoder = RowEncoder(record_type, sink.url.backend, {})
        self._names = [field.column for field in record_type.columns]
        self._key_places = [self._names.index(field.column) for field in key]
        first, *others = self._key_places or [0]
        one = itemgetter(slice(first, first + 1))  # gives a tuple, as itemgetter does for several indices
        self._key_of: Callable[[Row], Row] = itemgetter(first, *others) if others else one
        self._table = table_for(sink.table, sink.schema, record_type, key, sink.url.backend)
        self._batches = batches_table(sink.schema)
        with self.failures("the database cannot be used"):
            self._engine = _engine(sink)
        self._claim = self._claim_statement()
        noted = self._batches.c
        self._newest = sa.select(noted.batch).where(noted.query_id == identity.query, noted.sink == identity.sink)
        self._upsert = self._upsert_statement()
        self._delete = sa.delete(self._table).where(
            *[self._table.c[self._names[index]] == sa.bindparam(f"key{index}") for index in self._key_places]
        )
        # These are set when the table is ready.
        self._may_stage = False
        self._takes_copy = False
        self._refused_trials = 0  # consecutive batches of which the table had a key
        self._batches_without_trial = 0  # batches to write before rows are appended again
        key_names = [self._names[index] for index in self._key_places]
        self._staged_rows = StagedRows("windrow_staged_rows", self._table, self._names)
        self._staged_keys = StagedRows("windrow_staged_keys", self._table, key_names)

    def clean(self, text: str) -> str:
        return self._sink.url.scrub(text)

    def open(self) -> None:
        with self.failures("the database cannot be made ready"):
            with self._engine.connect() as connection:
                inspector = sa.inspect(connection)
                tables = (self._table, self._batches)
                missing = [table for table in tables if not inspector.has_table(table.name, schema=table.schema)]
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
                    connection.execute(CreateTable(table, if_not_exists=True))
                if self._sink.url.backend == "postgresql":
                    self._may_stage = may_stage(connection)
                    self._takes_copy = takes_copy(connection, self._table)

    def _check_table(self, connection: sa.Connection) -> None:
        """Refuses a table that would change some values of the record type."""
        faults, lengths = faults_of(connection, self._table, self._record_type)
        expected = create_statement(self._table, self._engine)
        hint = "alter the table or the record type, or write to a new table"
        self.refuse("the table", faults, hint=hint, expected=expected)
        self._encoder = RowEncoder(self._record_type, self._sink.url.backend, lengths)

    def check(self, batch: int, *, again: bool) -> None:
        with self.failures("the database cannot be read"), self._engine.connect() as connection:
            self._check_newest(connection, batch, again=again)

    def _check_newest(self, connection: sa.Connection, batch: int, *, again: bool) -> None:
        newest = connection.scalar(self._newest)
        check_newest(newest, batch, again=again, target=self._shown, where=self._where)

    def write(self, batch: int, values: Sequence[object]) -> None:
        """Write a batch in one transaction, unless it was written before."""
        deleted: list[Row] = []
        with _without_gc():
            rows = self._encoded(values)
            if self._key_places:
                rows, deleted = self._last_of_each_key(rows, values)
        with self.failures("the database refused a batch", batch, len(values)):
            self.retried(batch, partial(self._write_rows, batch, rows, deleted))

    def _encoded(self, values: Sequence[object]) -> list[Row]:
        with field_errors(self._where):
            return self._encoder.encode(list(map(value_of, values)))

    def retried(self, batch: int, action: Callable[[], None]) -> None:
        """Calls ``action``, a transaction of a batch, again where the connection was lost; see :func:`retried`."""

        def tell(error: Exception) -> None:
            _LOG.warning("batch %d of %s is tried again: %s", batch, self._shown, shorten(self._text_of(error)))

        retried(action, self._limits.first_pause_seconds, tell)

    def _text_of(self, error: Exception) -> str:
        return " ".join(self.clean(str(getattr(error, "orig", None) or error)).split())

    def _last_of_each_key(self, rows: list[Row], values: Sequence[object]) -> tuple[list[Row], list[Row]]:
        """Returns the last row of each key to write, and the keys to delete.

        PostgreSQL refuses to change a row twice in one statement. Both results are sorted by key, so that adjacent
        entries of the index are changed one after the other.
        """
        keys = list(map(self._key_of, rows))
        last = dict(zip(keys, rows, strict=True))
        ordered = sorted(last)
        if Changed not in set(map(type, values)):
            return [last[key] for key in ordered], []
        withdrawn = dict(zip(keys, [kind_of(value).is_withdrawal for value in values], strict=True))
        return [last[key] for key in ordered if not withdrawn[key]], [key for key in ordered if withdrawn[key]]

    def _write_rows(self, batch: int, rows: Sequence[Row], deleted: Sequence[Row]) -> None:
        """Write a batch, and delete the rows of some keys, in one transaction, unless it was written before."""
        with self._engine.begin() as connection:
            if not self._claimed(connection, batch):
                return
            fewest = self._limits.fewest_copied_rows
            if self._may_stage and len(deleted) >= fewest:
                self._staged_keys.fill(connection, deleted)
                staged = self._staged_keys
                same_key = [self._table.c[name] == staged.table.c[name] for name in staged.columns]
                connection.execute(sa.delete(self._table).where(*same_key))
            else:
                names = [f"key{index}" for index in self._key_places]
                self._execute_many(connection, self._delete, names, deleted)
            append = partial(copy_rows, connection, self._table, self._names, rows)
            if len(rows) >= fewest and self._takes_copy and self._append(connection, append):
                return
            if self._may_stage and len(rows) >= fewest:
                self._staged_rows.fill(connection, rows)
                connection.execute(self._upsert_statement(self._staged_rows.select()))
            else:
                self._execute_many(connection, self._upsert, self._names, rows)

    def _claimed(self, connection: sa.Connection, batch: int) -> bool:
        """Notes a batch as written in a transaction; returns False if it was written before."""
        # SQLAlchemy keeps the row count of an INSERT only if it is asked to.
        counting = {"preserve_rowcount": True}
        if connection.execute(self._claim, {"this": batch}, execution_options=counting).rowcount:
            return True
        self._check_newest(connection, batch, again=True)
        return False

    def _append(self, connection: sa.Connection, append: Callable[[], object]) -> bool:
        """Append rows, by COPY or from another table, unless the table has the key of one; returns whether it had none.

        That writes up to several times as many rows a second, as nothing looks for conflicts. An existing key violates
        the unique index; then it is left out for twice as many batches as after the last failure.
        """
        if self._batches_without_trial:
            self._batches_without_trial -= 1
            return False
        try:
            with connection.begin_nested():
                append()
        except (DataError, IntegrityError, sa.exc.DataError, sa.exc.IntegrityError):
            self._batches_without_trial = min(2**self._refused_trials, _MOST_BATCHES_WITHOUT_TRIAL)
            self._refused_trials += 1
            return False
        self._refused_trials = 0
        return True

    def _execute_many(
        self, connection: sa.Connection, statement: sa.Executable, names: Sequence[str], rows: Sequence[Row]
    ) -> None:
        at_once = self._limits.rows_at_once
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            connection.execute(statement, [dict(zip(names, row, strict=True)) for row in part])

    def _claim_statement(self) -> sa.Executable:
        batches = self._batches
        this = sa.bindparam("this", type_=sa.BigInteger)
        now = sa.func.current_timestamp()
        query, sink = self._identity
        insert = self._insert(batches).values(query_id=query, sink=sink, batch=this, written_at=now)
        return insert.on_conflict_do_update(
            index_elements=["query_id", "sink"],
            set_={"batch": insert.excluded.batch, "written_at": now},
            where=batches.c.batch < insert.excluded.batch,
        )

    # Any: rows of the table's columns.
    def _upsert_statement(self, rows: sa.Select[Any] | None = None) -> sa.Executable:
        """Returns the statement that inserts or replaces rows, which are parameters or those of a query."""
        insert = self._insert(self._table)
        if rows is not None:
            insert = insert.from_select(self._names, rows)
        key = [self._names[index] for index in self._key_places]
        if not key:
            return insert
        others = {name: insert.excluded[name] for name in self._names if name not in key}
        if not others:
            return insert.on_conflict_do_nothing(index_elements=key)
        return insert.on_conflict_do_update(index_elements=key, set_=others)

    def _insert(self, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
        return postgresql.insert(table) if self._sink.url.backend == "postgresql" else sqlite.insert(table)


@contextmanager
def _without_gc() -> Iterator[None]:
    """Pauses the cyclic garbage collector, which would look at all rows again and again and find no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# Any: elements of every type.
def _engine(sink: DatabaseSink[Any]) -> sa.Engine:
    url = sa.make_url(sink.url.text)
    url = url.set(drivername="postgresql+psycopg" if sink.url.backend == "postgresql" else "sqlite+pysqlite")
    # Without it, a machine that does not answer is waited for for minutes.
    name, seconds = (
        ("timeout", _LOCK_SECONDS) if sink.url.backend == "sqlite" else ("connect_timeout", _CONNECT_SECONDS)
    )
    return sa.create_engine(
        url,
        # Each batch opens its own connection: none has to be kept alive between batches, or closed at the end.
        poolclass=sa.pool.NullPool,
        connect_args={} if name in url.query else {name: seconds},
        # Errors do not show the values of rows.
        hide_parameters=True,
        # The encoder has made JSON texts already.
        json_serializer=str,
    )
