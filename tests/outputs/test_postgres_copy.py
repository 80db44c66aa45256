"""Batches of many rows reach PostgreSQL by COPY as few do by INSERT, and a lost connection is tried again."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tests.outputs.outputs import database_output, output_of
from tests.outputs.postgres import PASSWORD
from tests.outputs.test_database import KEY, REPORTS, Database, Total, postgresql
from windrow.errors import InvalidArgumentError, SinkError
from windrow.panes import ChangeKind
from windrow_runtime.operators.changes import Changed
from windrow_sql.database.output import DatabaseLimits, DatabaseOutput
from windrow_sql.database.postgres_copy import Row, StagedRows, row_texts

__all__ = ["postgresql"]  # a fixture

# Any in this module: records of several classes.

MANY = 2 * DatabaseLimits().fewest_copied_rows


def copying(database: Database, kind: type[Any], table: str, *key: str, copied: int = 1) -> DatabaseOutput:
    """An output that copies batches from a number of rows on, and tries again at once."""
    limits = DatabaseLimits(fewest_copied_rows=copied, first_pause_seconds=0.0)
    return database_output(kind, database.sink(table, *key), limits)


def totals(database: Database) -> dict[str, int]:
    return dict(database.run("SELECT key, value FROM totals"))


class Color(Enum):
    RED = "r\ted"


@dataclass(frozen=True)
class Everything:
    number: int
    text: str
    is_there: bool
    share: float
    data: bytes
    price: Decimal
    name: UUID
    at: datetime
    day: date
    span: timedelta
    color: Color
    items: list[str]
    tags: dict[str, int]
    maybe: str | None
    maybe_number: int | None


TEXTS = [
    "", "\\N", "\\.", "tab\tline\nreturn\r", "back\\slash\\", "ÄŁ𝄞", "'\";--", "\x01\x7f", " blank ", "%s:x", "],[",
    "]\n[", '"],["', "\x01", "\x7f", '\\"', "a,b", "null", "\t", "\n", "\r\n", "\\", "NULL", '"', "é\u2028", "a\\tb",
]  # fmt: skip
SPANS = [timedelta(0), timedelta(days=-1, microseconds=1), timedelta(days=999_999), timedelta(seconds=-1.5)]
FLOATS = [0.0, -0.0, 1.5e300, 5e-324, float("inf"), float("-inf"), float("nan"), 0.1]


def everything(place: int, number: int) -> Everything:
    text = TEXTS[place % len(TEXTS)]
    maybe = None if place % 3 else text
    name, day, span = UUID(int=number % 2**64), timedelta(days=number % 7), SPANS[place % 4]
    at = datetime(1, 1, 1, tzinfo=UTC) + day + timedelta(microseconds=1)
    return Everything(
        number, text, number % 2 == 0, FLOATS[place % 8], text.encode() + b"\0\\\t\n", Decimal("1.50") * number, name,
        at, date(9999, 12, 31) - day, span, Color.RED, [text, "\\N"], {text: 1}, maybe,
        None if maybe is None else number,
    )  # fmt: skip


RECORDS = [everything(place, number) for place, number in enumerate([*range(26), 2**63 - 1, -(2**63)])]
MANY_REPORTS = [msgspec.structs.replace(REPORTS[n % 2], ident=UUID(int=n)) for n in range(20)]


@pytest.mark.parametrize(
    ("records", "key"),
    [(RECORDS, ()), (RECORDS, ("number",)), (RECORDS, ("text", "at", "number")), (MANY_REPORTS, KEY)],
    ids=["no key", "number", "text, at, number", "reports"],
)
def test_copy_writes_what_insert_writes(postgresql: Database, records: list[Any], key: tuple[str, ...]) -> None:
    for table, copied in (("inserted", 10**9), ("copied", 1)):
        copying(postgresql, type(records[0]), table, *key, copied=copied).write(1, records)
    inserted, copied_rows = (sorted(map(repr, postgresql.run(f"TABLE {name}"))) for name in ("inserted", "copied"))
    assert inserted == copied_rows
    assert len(inserted) == len(records)


class Note(NamedTuple):
    number: int
    text: str | None


def test_texts_that_mean_something_to_copy(postgresql: Database) -> None:
    notes = [Note(number, text) for number, text in enumerate([*TEXTS, None])]
    copying(postgresql, Note, "notes", "number").write(0, notes)
    assert postgresql.run("SELECT number, text FROM notes ORDER BY number") == notes


@given(st.lists(st.floats() | st.sampled_from([0.1, -0.0, 1e300, 5e-324]), min_size=1))
def test_numbers_of_a_column_keep_their_values(numbers: list[float]) -> None:
    lines = b"".join(row_texts([(number, None) for number in numbers])).splitlines()
    assert [repr(float(line.removesuffix(b",null"))) for line in lines] == list(map(repr, numbers))
    whole = [int(number) % 2**64 - 2**63 for number in numbers if math.isfinite(number)]
    assert list(map(int, b"".join(row_texts([(number,) for number in whole])).split())) == whole


def test_the_last_of_a_key_stays_and_what_is_withdrawn_goes(postgresql: Database) -> None:
    output = copying(postgresql, Total, "order", "key")  # a name that has to be quoted
    output.write(1, [Total("a", 1), Total("b", 1), Total("a", 2), Total("c:d", 3)])
    output.write(1, [Total("a", 99)])
    gone = [Changed(ChangeKind.DELETE, Total(key, 1)) for key in ("b", "absent", "d")]
    output.write(2, [Total("d", 4), *gone, Total("a", 5)])
    output.write(3, [Changed(ChangeKind.DELETE, Total("c:d", 3)), Total("c:d", 6)])
    assert postgresql.run('SELECT * FROM "order" ORDER BY key') == [("a", 5), ("c:d", 6)]


#  batch  keys of the rows  staged in a temporary table
BATCHES = [
    (0, range(MANY), False),
    (1, range(1, MANY + 1), True),  # COPY was refused, so the next batch goes without a try, and of those behind it two
    (2, range(MANY + 1, 2 * MANY), True),
    (3, range(2 * MANY, 3 * MANY), False),
    (4, range(3 * MANY), True),
    (5, range(3 * MANY, 4 * MANY), True),
]


def test_rows_of_new_keys_are_copied_into_the_table_itself(
    postgresql: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = output_of(Total, postgresql.sink("totals", "key"))
    staged: list[int] = []
    fill = StagedRows.fill

    def counted_fill(rows: StagedRows, connection: sa.Connection, cells: Sequence[Row]) -> None:
        staged.append(len(cells))
        fill(rows, connection, cells)

    monkeypatch.setattr(StagedRows, "fill", counted_fill)
    for batch, numbers, is_staged in BATCHES:
        staged.clear()
        output.write(batch, [Total(f"key {number}", batch) for number in reversed(numbers)])
        assert staged == [len(numbers)] * is_staged, batch
    assert totals(postgresql) == {f"key {number}": batch for batch, numbers, _ in BATCHES for number in numbers}


def test_many_rows_of_keys_alone(postgresql: Database) -> None:
    output = copying(postgresql, int, "seen", "value")
    output.write(0, list(range(20)))
    output.write(1, list(range(1, 21)))
    assert postgresql.run("SELECT count(*), min(value), max(value) FROM seen") == [(21, 0, 20)]


def test_a_batch_that_is_refused_leaves_nothing(postgresql: Database) -> None:
    check = "CONSTRAINT small CHECK (value < 100)"
    postgresql.run(f"CREATE TABLE totals (key VARCHAR(9) PRIMARY KEY, value INTEGER {check})")
    output = copying(postgresql, Total, "totals", "key")
    for wrong, error, message in (
        (Total("b", 200), SinkError, r"the database refused a batch(.|\n)*small"),
        (Total("large", 2**40), SinkError, "the database refused a batch"),
        (Total("a\0b", 2), InvalidArgumentError, "has NUL, which no text of PostgreSQL has"),
        (Total("b", 2**63), InvalidArgumentError, "does not fit 64 bits"),
    ):
        with pytest.raises(error, match=message) as caught:
            output.write(1, [Total("fine", 1), wrong])
        assert error is InvalidArgumentError or str(2**40) not in str(caught.value)
        assert totals(postgresql) == {}
    output.write(1, [Total("fine", 1)])
    assert totals(postgresql) == {"fine": 1}


TABLES = {
    "policies": ["CREATE TABLE rows (key text, value bigint)", "ALTER TABLE rows ENABLE ROW LEVEL SECURITY"],
    "rules": ["CREATE TABLE rows (key text, value bigint)", "CREATE RULE twice AS ON INSERT TO rows DO ALSO NOTHING"],
    "view": ["CREATE TABLE held (key text, value bigint)", "CREATE VIEW rows AS SELECT * FROM held"],
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_that_copy_would_not_write_get_an_insert(postgresql: Database, case: str) -> None:
    for statement in TABLES[case]:
        postgresql.run(statement)
    copying(postgresql, Total, "rows").write(1, [Total("a", 1), Total("b", 2)])
    assert postgresql.run("SELECT * FROM rows ORDER BY key") == [("a", 1), ("b", 2)]


def test_a_user_who_may_make_no_temporary_table(postgresql: Database, postgres: Path) -> None:
    postgresql.run("CREATE TABLE totals (key TEXT PRIMARY KEY, value BIGINT)")
    output_of(Total, postgresql.sink("totals", "key")).write(0, [Total("a", 1)])  # makes windrow_batches
    role = f"role_{postgresql.schema}"
    for statement in (
        f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'",
        "REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC",
        f"GRANT USAGE ON SCHEMA {postgresql.schema} TO {role}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA {postgresql.schema} TO {role}",
    ):
        postgresql.run(statement)
    url = f"postgresql://{role}:{quote(PASSWORD, safe='')}@/postgres?host={postgres}"
    rows = [Total(f"k{number}", number) for number in range(MANY)]
    output_of(Total, replace(postgresql, url=url).sink("totals", "key")).write(1, rows)
    assert totals(postgresql) == dict([("a", 1), *rows])


def waiting_backends(database: Database) -> list[int]:
    """The connections that wait for a lock: of a sink's transaction that was begun, and cannot go on yet."""
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%windrow_batches%'"
    return [pid for (pid,) in database.run(waiting)]


@pytest.mark.parametrize("count", [1, MANY])
def test_a_batch_is_written_once_where_the_connection_is_lost(postgresql: Database, count: int) -> None:
    output = output_of(Total, postgresql.sink("totals"))
    output.write(0, [Total("first", 0)])
    url = postgresql.url.replace("postgresql:", "postgresql+psycopg:")
    writer = threading.Thread(target=output.write, args=(1, [Total("a", 1)] * count))
    # The row that notes the batch is locked, so that the sink waits in the middle of its transaction.
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as holder:
        holder.execute(sa.text(f"UPDATE {postgresql.schema}.windrow_batches SET written_at = now()"))
        writer.start()
        while not (pids := waiting_backends(postgresql)):
            assert writer.is_alive()
        for pid in pids:
            postgresql.run(f"SELECT pg_terminate_backend({pid})")
    writer.join()
    output.write(1, [Total("a", 1)] * count)  # again, and changes nothing
    assert postgresql.run("SELECT count(*) FROM totals WHERE key = 'a'") == [(count,)]
    assert postgresql.run("SELECT batch FROM windrow_batches") == [(1,)]


def test_a_connection_that_is_lost_behind_the_commit_is_tried_again(
    postgresql: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    output = copying(postgresql, Total, "totals")
    write_once, left = output._write_rows, [2]

    def write_and_lose(*arguments: Any) -> None:
        write_once(*arguments)
        if left[0]:
            left[0] -= 1
            with output._engine.begin() as connection:
                pid = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar()
                postgresql.run(f"SELECT pg_terminate_backend({pid})")
                connection.execute(sa.text("SELECT 1"))

    monkeypatch.setattr(output, "_write_rows", write_and_lose)
    with caplog.at_level(logging.WARNING, logger="windrow"):
        output.write(1, [Total("a", 1)])
    assert postgresql.run("SELECT * FROM totals") == [("a", 1)]
    assert caplog.text.count("batch 1 of database postgresql://windrow:*****@") == 2
    assert PASSWORD not in caplog.text


def test_a_server_that_stays_away_is_an_error_after_some_attempts(
    postgresql: Database, postgres: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("windrow_sql.database.retries.time", SimpleNamespace(sleep=pauses.append))
    output = output_of(Total, postgresql.sink("totals"))
    socket = next(postgres.glob(".s.PGSQL.*[0-9]"))
    aside = socket.rename(socket.with_name("aside"))
    try:
        with pytest.raises(SinkError, match="the database refused a batch"):
            output.write(0, [Total("a", 1)])
    finally:
        aside.rename(socket)
    assert pauses == [0.5, 1, 2, 4]
    output.write(0, [Total("a", 1)])
    assert totals(postgresql) == {"a": 1}
