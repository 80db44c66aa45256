"""Writes batches to a PostgreSQL or SQLite database, a transaction each, with elements as rows."""

from __future__ import annotations

import gc
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from operator import itemgetter
from typing import Any, Final, SupportsFloat
from uuid import UUID

import sqlalchemy as sa
from psycopg import DataError, IntegrityError, OperationalError
from sqlalchemy.dialects import postgresql, sqlite

from windrow.errors import SinkError
from windrow.plan import Step
from windrow.sinks import DatabaseSink
from windrow_runtime.codecs.json.any_json import dump_of
from windrow_runtime.codecs.json.encoder import Writer, checked_writer, json_writer
from windrow_runtime.codecs.malformed import UnfitError, misfit, short_repr, shorten
from windrow_runtime.codecs.records import record_columns
from windrow_runtime.codecs.value_type import INT_MAX, INT_MIN, JSON_CELLS, Kind, RecordType, ValueType
from windrow_runtime.operators.changes import Changed, kind_of, value_of
from windrow_runtime.operators.errors import field_errors
from windrow_runtime.outputs.output import Identity, TableOutput, check_key, check_newest
from windrow_sql.database.postgres_copy import Row, StagedRows, copy_rows, may_stage, takes_copy
from windrow_sql.database.postgres_texts import check_digits, postgres_json, postgres_text
from windrow_sql.database.tables import batches_table, create_statement, faults_of, table_for

_MICROSECOND = timedelta(microseconds=1)


class RowEncoder:
    """Encodes elements as rows; ``lengths`` has the most characters of text columns that are limited, by name."""

    def __init__(self, record_type: RecordType, backend: str, lengths: Mapping[str, int]) -> None:
        self._record_type = record_type
        self._writers: list[Writer] = []
        self._are_plain: list[Callable[[Sequence[Any]], bool]] = []
        for field in record_type.columns:
            path = record_type.name if record_type.single else f"{record_type.name}.{field.name}"
            write = _cell_writer(field.column_type, path, backend)
            limit = lengths.get(field.column)
            self._writers.append(write if limit is None else _limited(write, path, limit))
            is_plain = _PLAIN.get(field.type.kind) if backend == "postgresql" and limit is None else None
            self._are_plain.append(_never if is_plain is None else is_plain)

    def encode(self, values: Sequence[object]) -> list[Row]:
        """Encodes elements; raises an ``InvalidArgumentError`` for an element with a value that does not fit."""
        try:
            return self._rows(values)
        except UnfitError:
            for value in values:
                try:
                    self._rows([value])
                except UnfitError as error:
                    raise misfit(value, error, self._record_type.name) from error
            raise

    def _rows(self, values: Sequence[object]) -> list[Row]:
        """Encodes elements column by column; raises an ``UnfitError`` if a value does not fit."""
        columns = zip(self._writers, self._are_plain, self._columns(values), strict=True)
        written = [column if is_plain(column) else map(write, column) for write, is_plain, column in columns]
        return list(zip(*written, strict=True))

    def _columns(self, values: Sequence[object]) -> Sequence[Sequence[object]]:
        root, name = self._record_type.root, self._record_type.name
        if self._record_type.single:
            return (values,)
        for value in values if set(map(type, values)) != {root.python_type} else ():
            if type(value) is not root.python_type and not root.admits(type(value)):
                raise UnfitError(name, f"{short_repr(value)} is a {type(value).__name__}", str(root))
        if root.kind is Kind.RECORD:
            return record_columns(values, root, name)
        tuples = [value for value in values if isinstance(value, tuple) and len(value) == len(root.arguments)]
        if len(tuples) != len(values):
            raise UnfitError(name, f"{short_repr(values[0])} is no tuple of {len(root.arguments)}", str(root))
        return list(zip(*tuples, strict=True))


def _cell_writer(value: ValueType, path: str, backend: str) -> Writer:
    if value.kind in JSON_CELLS:
        write_json, dump = json_writer(value, path), dump_of(value)

        def write_text(cell: object) -> str | None:
            return None if (written := write_json(cell)) is None else dump(written)

        is_raw = value.contains(Kind.RAW_JSON)
        return postgres_json(write_text, path, is_raw=is_raw) if backend == "postgresql" else write_text
    own = _OWN.get((value.kind, backend))
    if own is None:
        write = json_writer(value, path)
        return postgres_text(write, path) if backend == "postgresql" and value.scalar_kind is Kind.STR else write

    def fitting(cell: object) -> object:
        try:
            return own(cell)
        except (ValueError, OverflowError) as error:
            raise UnfitError(path, f"{short_repr(cell)}: {error}", str(value)) from None

    return checked_writer(value, path, fitting)


def _limited(write: Writer, path: str, limit: int) -> Writer:
    """Makes a writer refuse texts that are too long: a database may silently cut off blanks at their end."""

    def short(cell: object) -> object:
        text = write(cell)
        if isinstance(text, str) and len(text) > limit:
            raise UnfitError(path, f"{short_repr(text)} has {len(text)} characters", f"at most {limit} characters")
        return text

    return short


# Each of these functions gets values of its type only; the tests of classes are for the type checker.


def _float(value: object) -> float:
    # The check of a protocol takes microseconds, so the class is compared first.
    return value if type(value) is float else float(value) if isinstance(value, SupportsFloat) else math.nan


def _number(value: object) -> float:
    number = _float(value)
    if math.isnan(number):
        # The database would store the value as NULL.
        raise ValueError("SQLite has no NaN; map it to None before the sink")
    return number


def _decimal(value: object) -> object:
    assert isinstance(value, Decimal), "the class was checked"
    if not value.is_finite():
        raise ValueError("not a finite number")
    check_digits(value)
    return value


def _moment(value: object) -> datetime:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ValueError("the datetime has no time zone, so it names no moment")
    return value.astimezone(UTC)


def _moment_text(value: object) -> str:
    # All texts have one length, so that they sort as the moments do.
    return _moment(value).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _microseconds(value: object) -> object:
    assert isinstance(value, timedelta), "the class was checked"
    micros = value // _MICROSECOND
    if not INT_MIN <= micros <= INT_MAX:
        raise OverflowError("SQLite has no number of so many microseconds")
    return micros


def _as_is(value: object) -> object:
    return value


def _never(cells: Sequence[Any]) -> bool:
    return False


def _all_of(class_: type) -> Callable[[Sequence[Any]], bool]:
    """Returns a function that says whether all cells of a column are of a class, and none is None."""
    return lambda cells: set(map(type, cells)) == {class_}


def _all_ints(cells: Sequence[Any]) -> bool:
    return set(map(type, cells)) == {int} and INT_MIN <= min(cells) <= max(cells) <= INT_MAX


def _all_texts(cells: Sequence[Any]) -> bool:
    if set(map(type, cells)) != {str}:
        return False
    texts = "".join(cells)
    return texts.isascii() and "\0" not in texts


def _all_in_utc(cells: Sequence[Any]) -> bool:
    return set(map(type, cells)) == {datetime} and {cell.tzinfo for cell in cells} == {UTC}


_PLAIN: Final[Mapping[Kind, Callable[[Sequence[Any]], bool]]] = {
    Kind.BOOL: _all_of(bool),
    Kind.BYTES: _all_of(bytes),
    Kind.DATE: _all_of(date),
    Kind.DATETIME: _all_in_utc,
    Kind.FLOAT: _all_of(float),
    Kind.INT: _all_ints,
    Kind.STR: _all_texts,
    Kind.TIMEDELTA: _all_of(timedelta),
    Kind.UUID: _all_of(UUID),
}
"""Functions that say whether PostgreSQL takes the Python values of a column unchanged, by the column's type."""

# The writers of types that are not written as in JSON.
_OWN: dict[tuple[Kind, str], Callable[[object], object]] = {
    (Kind.FLOAT, "postgresql"): _float,
    (Kind.FLOAT, "sqlite"): _number,
    (Kind.BYTES, "postgresql"): _as_is,
    (Kind.BYTES, "sqlite"): _as_is,
    (Kind.DECIMAL, "postgresql"): _decimal,
    (Kind.UUID, "postgresql"): _as_is,
    (Kind.DATETIME, "postgresql"): _moment,
    (Kind.DATETIME, "sqlite"): _moment_text,
    (Kind.DATE, "postgresql"): _as_is,
    (Kind.TIMEDELTA, "postgresql"): _as_is,
    (Kind.TIMEDELTA, "sqlite"): _microseconds,
}


_LOG: Final = logging.getLogger("windrow")
_ATTEMPTS: Final = 5
_MOST_BATCHES_WITHOUT_COPY: Final = 64
_LOCK_SECONDS = 30.0  # how long SQLite waits for another writer; the 5 of its default are short compared to a batch


@dataclass(frozen=True, slots=True)
class DatabaseLimits:
    """The sizes and pauses by which an output writes its batches, which tests make small."""

    rows_at_once: int = 5_000  # sent in one go; the transaction is that of the whole batch
    # Fewer rows take milliseconds by INSERT, which leaves no traces in PostgreSQL's catalogue as COPY does.
    fewest_copied_rows: int = 200
    first_pause_seconds: float = 0.5  # before the second attempt; each pause is twice the one before


class DatabaseOutput(TableOutput):
    """Writes the batches of a database sink, each in a transaction.

    The transaction first raises the number of the last batch, which a table holds for each sink. That row stays locked
    to the end of the transaction, so that of two processes with one checkpoint the second finds the batch written.
    A number is never lowered: a batch below the last one is refused.
    """

    hint = "check the address, the user and what the user may do there"

    # Any: elements of every type.
    def __init__(
        self, step: Step, sink: DatabaseSink[Any], identity: Identity, limits: DatabaseLimits = DatabaseLimits()
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
        self._refused_copies = 0  # consecutive batches that COPY has refused
        self._batches_without_copy = 0  # batches to write without COPY before the next try
        key_names = [self._names[index] for index in self._key_places]
        self._staged_rows = StagedRows("windrow_staged_rows", self._table, self._names)
        self._staged_keys = StagedRows("windrow_staged_keys", self._table, key_names)

    def clean(self, text: str) -> str:
        return self._sink.url.scrub(text)

    def open(self) -> None:
        """Create the tables, or check those that exist."""
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
                    connection.execute(sa.schema.CreateTable(table, if_not_exists=True))
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
        with field_errors(self._where), _without_gc():
            rows = self._encoder.encode(list(map(value_of, values)))
            if self._key_places:
                rows, deleted = self._last_of_each_key(rows, values)
        with self.failures("the database refused a batch", batch, len(values)):
            for attempt in count(1):
                try:
                    self._write_rows(batch, rows, deleted)
                    return
                except Exception as error:  # of SQLAlchemy, or of the driver
                    if attempt == _ATTEMPTS or not _is_lost(error):
                        raise
                    text = " ".join(self.clean(str(getattr(error, "orig", None) or error)).split())
                    _LOG.warning("batch %d of %s is tried again: %s", batch, self._shown, shorten(text))
                # Whether the last attempt was committed is not known; the number of the batch tells the next one.
                time.sleep(self._limits.first_pause_seconds * 2 ** (attempt - 1))

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
            # SQLAlchemy keeps the row count of an INSERT only if it is asked to.
            counting = {"preserve_rowcount": True}
            claimed = connection.execute(self._claim, {"this": batch}, execution_options=counting)
            if claimed.rowcount == 0:
                self._check_newest(connection, batch, again=True)
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
            if len(rows) >= fewest and self._copy_new_rows(connection, rows):
                return
            if self._may_stage and len(rows) >= fewest:
                self._staged_rows.fill(connection, rows)
                connection.execute(self._upsert_statement(self._staged_rows))
            else:
                self._execute_many(connection, self._upsert, self._names, rows)

    def _copy_new_rows(self, connection: sa.Connection, rows: Sequence[Row]) -> bool:
        """Append the rows by COPY, unless the table has the key of one already; returns whether they were written.

        COPY writes several times as many rows a second, as it does not look for conflicts. An existing key violates
        the unique index, and COPY fails; it is then left out for twice as many batches as after the last failure.
        """
        if not self._takes_copy:
            return False
        if self._batches_without_copy:
            self._batches_without_copy -= 1
            return False
        try:
            with connection.begin_nested():
                copy_rows(connection, self._table, self._names, rows)
        except (DataError, IntegrityError):
            self._batches_without_copy = min(2**self._refused_copies, _MOST_BATCHES_WITHOUT_COPY)
            self._refused_copies += 1
            return False
        self._refused_copies = 0
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

    def _upsert_statement(self, staged: StagedRows | None = None) -> sa.Executable:
        """Returns the statement that inserts or replaces rows, which are parameters or come from a temporary table."""
        insert = self._insert(self._table)
        if staged is not None:
            insert = insert.from_select(self._names, staged.select())
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


# The SQLSTATE codes of PostgreSQL after which a batch may be tried again: class 08 for lost connections, a server that
# goes down or is not up yet, a serialization failure and a deadlock.
_LOST_STATES: Final = ("08", "57P01", "57P02", "57P03", "40001", "40P01")


def _is_lost(error: Exception) -> bool:
    """Returns whether a second attempt may succeed: the connection was lost, or another transaction interfered."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    if not isinstance(cause, OperationalError):
        return False
    # The error has no code if the server could not send one any more.
    return cause.sqlstate is None or cause.sqlstate.startswith(_LOST_STATES)


# Any: elements of every type.
def _engine(sink: DatabaseSink[Any]) -> sa.Engine:
    url = sa.make_url(sink.url.text)
    url = url.set(drivername="postgresql+psycopg" if sink.url.backend == "postgresql" else "sqlite+pysqlite")
    waits = sink.url.backend == "sqlite" and "timeout" not in url.query
    return sa.create_engine(
        url,
        # Each batch opens its own connection: none has to be kept alive between batches, or closed at the end.
        poolclass=sa.pool.NullPool,
        connect_args={"timeout": _LOCK_SECONDS} if waits else {},
        # Errors do not show the values of rows.
        hide_parameters=True,
        # The encoder has made JSON texts already.
        json_serializer=str,
    )
