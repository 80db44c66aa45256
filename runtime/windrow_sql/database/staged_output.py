"""Writes batches to PostgreSQL whose rows workers have staged, a transaction each."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from windrow.errors import SinkError
from windrow.plan import Step
from windrow.sinks import DatabaseSink
from windrow_runtime.codecs.malformed import shorten
from windrow_runtime.operators.changes import Changed, kind_of
from windrow_runtime.outputs.output import Identity
from windrow_sql.database.output import LIMITS, DatabaseLimits, DatabaseOutput
from windrow_sql.database.row_encoder import RowEncoder
from windrow_sql.database.staging import Staging, new_part
from windrow_sql.database.tables import text_lengths

# Any in this module: elements of every type.

_LOG: Final = logging.getLogger("windrow")


class StagedOutput(DatabaseOutput):
    """Writes batches whose elements the tasks have sent, or staged as rows."""

    def __init__(
        self, step: Step, sink: DatabaseSink[Any], identity: Identity, limits: DatabaseLimits = LIMITS
    ) -> None:
        super().__init__(step, sink, identity, limits)
        key = {self._names[place] for place in self._key_places}
        self._staging = Staging(self._table, self._names, key, identity)
        self.limits = limits

    # On the driver

    def drop_left(self) -> None:
        """Drops the tables of batches that earlier runs have left; called before tasks of this run begin."""
        with self.failures("the database cannot be read"), self._engine.connect() as connection:
            tables = self._staging.left(connection)
        self._drop(tables)

    def write_staged(
        self, batch: int, sent: Sequence[tuple[int, Sequence[object]]], parts: Mapping[int, int], *, deletes: bool
    ) -> None:
        """Write a batch in one transaction, unless it was written before.

        Args:
            batch: The number of the batch.
            sent: Elements that tasks have sent, with the numbers that order them.
            parts: How many rows each part has that tasks have staged.
            deletes: Whether rows of the parts may be deleted ones.
        """
        if not parts:
            elements = [value for _, values in sorted(sent, key=lambda each: each[0]) for value in values]
            if elements:
                self.write(batch, elements)
            return
        own = new_part()
        texts = [text for number, values in sent for text in self.texts(own, number, values)]
        deletes = deletes or any(Changed in set(map(type, values)) for _, values in sent)
        count = sum(parts.values()) + sum(len(values) for _, values in sent)
        with self.failures("the database refused a batch", batch, count):
            self.retried(batch, partial(self._move, batch, own, texts, parts, deletes=deletes))
        self._drop([self._staging.table(batch)])

    def _move(self, batch: int, own: int, texts: Sequence[bytes], parts: Mapping[int, int], *, deletes: bool) -> None:
        with self._engine.begin() as connection:
            if not self._claimed(connection, batch):
                return
            staged = self._staging.counts(connection, batch, parts)
            if staged != parts:
                raise SinkError(
                    "the rows that workers staged are not those that tasks told of",
                    given=f"{sum(staged.values())} rows of batch {batch} for {self._shown}",
                    expected=f"{sum(parts.values())}, in {self._staging.table(batch)}",
                    where=self._where,
                    hint="a server that crashes empties this table, and Spark computes again what a lost machine had; "
                    "nothing was written, run again from the checkpoint to write the batch",
                )
            if texts:
                self._staging.copy(connection, batch, texts)
            numbers = [own, *parts]
            if deletes:
                connection.execute(self._staging.deletion(batch, numbers))
            rows = self._staging.rows(batch, numbers)
            append = partial(connection.execute, self._insert(self._table).from_select(self._names, rows))
            if not self._key_places or not self._append(connection, append):
                connection.execute(self._upsert_statement(rows))

    def _drop(self, tables: Sequence[sa.Table]) -> None:
        for table in tables:
            try:
                with self._engine.begin() as connection:
                    self._staging.drop(connection, table)
            except sa.exc.DBAPIError as error:
                # The batch is written. The next start of the query drops the table.
                _LOG.warning("the table %s could not be dropped: %s", table, shorten(self._text_of(error)))

    # In workers

    def texts(self, part: int, number: int, values: Sequence[object]) -> list[bytes]:
        """Encodes elements as rows of a part."""
        rows = self._encoded(values)
        return self._staging.texts(part, number, rows, [kind_of(value).is_withdrawal for value in values])

    def parts(self, batch: int) -> Parts | str:
        """Creates the table of a batch if it is not there; returns what fills parts of it, or why nothing does.

        The user may not create tables, for example, or has too many connections.
        """
        try:
            connection = self._engine.connect()
            try:
                with connection.begin():
                    self._encoder = RowEncoder(self._record_type, "postgresql", text_lengths(connection, self._table))
                    self._staging.create(connection, batch)
            except BaseException:
                connection.close()
                raise
        except sa.exc.DBAPIError as error:
            return shorten(self._text_of(error))
        return Parts(self, self._staging, connection, batch, self.limits.part_bytes)


class Parts:
    """Stages the rows of one task, some MiB in a transaction."""

    def __init__(
        self, output: StagedOutput, staging: Staging, connection: sa.Connection, batch: int, most_bytes: int
    ) -> None:
        self._output, self._staging, self._batch, self._most_bytes = output, staging, batch, most_bytes
        self._connection: sa.Connection | None = connection
        self._engine = connection.engine
        self._number = new_part()
        self._texts: list[bytes] = []
        self._bytes = 0
        self._count = 0

    def add(self, number: int, values: Sequence[object]) -> tuple[int, int]:
        """Adds elements, which ``number`` orders among others; returns the number of their part, and their bytes."""
        part = self._number
        texts = self._output.texts(part, number, values)
        size = sum(map(len, texts))
        self._texts += texts
        self._bytes += size
        self._count += len(values)
        if self._bytes >= self._most_bytes:
            self.flush()
        return part, size

    def flush(self) -> None:
        """Commits the part, and begins the next one."""
        if not self._texts:
            return
        with self._output.failures("rows cannot be staged", self._batch, self._count):
            self._output.retried(self._batch, self._copy)
        self._number = new_part()
        self._texts, self._bytes, self._count = [], 0, 0

    def _copy(self) -> None:
        is_again = self._connection is None
        connection = self._connection = self._connection or self._engine.connect()
        try:
            with connection.begin():
                if is_again:
                    self._staging.forget(connection, self._batch, self._number)
                self._staging.copy(connection, self._batch, self._texts)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection; a part that was not committed is taken back."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()
