"""Batches of many rows reach PostgreSQL by COPY: what arrives, what users without rights get, lost connections."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from urllib.parse import quote
from uuid import UUID

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tests.outputs.outputs import output_of
from tests.outputs.postgres import PASSWORD
from tests.outputs.test_database import KEY, REPORTS, Database, Report, Total, postgresql
from windrow.errors import InvalidArgumentError, SinkError
from windrow.panes import ChangeKind
from windrow_runtime.operators.changes import Changed
from windrow_sql.database.output import DatabaseLimits
from windrow_sql.database.postgres_copy import Row, StagedRows, _texts

__all__ = ["postgresql"]  # a fixture

MANY = 2 * DatabaseLimits().fewest_copied_rows


def totals(database: Database) -> dict[str, int]:
    return dict(database.run("SELECT key, value FROM totals"))


#  batch      0              1                                            2
#  written    all are 1      the first half is 2, and twice 3             the second half is deleted, the first 4
def test_many_rows_are_inserted_replaced_and_deleted(postgresql: Database) -> None:
    output = output_of(Total, postgresql.sink("totals", "key"))
    keys = [f"key {number}" for number in range(MANY)]
    first, second = keys[: MANY // 2], keys[MANY // 2 :]
    output.write(0, [Total(key, 1) for key in keys])
    output.write(1, [Total(key, value) for value in (2, 3) for key in first])
    output.write(1, [Total(key, 99) for key in keys])  # again, and changes nothing
    assert totals(postgresql) == dict.fromkeys(first, 3) | dict.fromkeys(second, 1)
    withdrawn = [Changed(ChangeKind.DELETE, Total(key, 1)) for key in second]
    output.write(2, [*withdrawn, *[Total(key, 4) for key in first]])
    assert totals(postgresql) == dict.fromkeys(first, 4)


def test_many_rows_without_a_key(postgresql: Database) -> None:
    output = output_of(Total, postgresql.sink("totals"))
    for _ in range(2):
        output.write(0, [Total("a", 1)] * MANY)
    assert postgresql.run("SELECT key, value, count(*) FROM totals GROUP BY key, value") == [("a", 1, MANY)]


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
    expected = {f"key {number}": batch for batch, numbers, _ in BATCHES for number in numbers}
    assert totals(postgresql) == expected


def test_many_rows_of_keys_alone(postgresql: Database) -> None:
    output = output_of(int, postgresql.sink("seen", "value"))
    output.write(0, list(range(MANY)))
    output.write(1, list(range(1, MANY + 1)))
    assert postgresql.run("SELECT count(*), min(value), max(value) FROM seen") == [(MANY + 1, 0, MANY)]


def test_every_kind_of_value_by_copy(postgresql: Database) -> None:
    """The values that a few rows bring by INSERT are those that many bring by COPY."""
    reports = [msgspec.structs.replace(REPORTS[n % 2], ident=UUID(int=n)) for n in range(MANY)]
    output_of(Report, postgresql.sink("copied", *KEY)).write(0, reports)
    inserted = output_of(Report, postgresql.sink("inserted", *KEY))
    for batch, start in enumerate(range(0, MANY, 100)):
        inserted.write(batch, reports[start : start + 100])
    assert postgresql.run("(TABLE copied EXCEPT TABLE inserted) UNION ALL (TABLE inserted EXCEPT TABLE copied)") == []
    assert postgresql.run("SELECT count(*) FROM copied") == [(MANY,)]


class Note(NamedTuple):
    number: int
    text: str | None


TEXTS = [
    "],[", "]\n[", '"],["', "\x01", "\x7f", '\\"', "a,b", "null", "\t", "\n", "\r\n", "\\", "\\N", "\\.", "", "NULL",
    '"', "é\u2028", "a\\tb", None,
]  # fmt: skip


@given(st.lists(st.floats() | st.sampled_from([0.1, -0.0, 1e300, 5e-324]), min_size=1))
def test_numbers_of_a_column_keep_their_values(numbers: list[float]) -> None:
    lines = b"".join(_texts([(number, None) for number in numbers])).splitlines()
    assert [repr(float(line.removesuffix(b",null"))) for line in lines] == list(map(repr, numbers))
    whole = [int(number) % 2**64 - 2**63 for number in numbers if math.isfinite(number)]
    assert list(map(int, b"".join(_texts([(number,) for number in whole])).split())) == whole


def test_texts_that_mean_something_to_copy(postgresql: Database) -> None:
    notes = [Note(number, TEXTS[number % len(TEXTS)]) for number in range(MANY)]
    output_of(Note, postgresql.sink("notes", "number")).write(0, notes)
    assert postgresql.run("SELECT number, text FROM notes ORDER BY number") == notes


def test_a_table_with_other_types_and_what_it_refuses(postgresql: Database) -> None:
    postgresql.run("CREATE TABLE totals (key VARCHAR(9) PRIMARY KEY, value INTEGER)")
    output = output_of(Total, postgresql.sink("totals", "key"))
    rows = [Total(f"k{number}", number) for number in range(MANY)]
    with pytest.raises(SinkError, match="the database refused a batch") as caught:
        output.write(0, [*rows, Total("large", 2**40)])
    assert str(2**40) not in str(caught.value)
    with pytest.raises(InvalidArgumentError, match="has NUL, which no text of PostgreSQL has"):
        output.write(0, [*rows, Total("nul \0", 1)])
    assert totals(postgresql) == {}
    output.write(0, rows)
    assert totals(postgresql) == dict(rows)


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
    assert len(totals(postgresql)) == MANY + 1


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
    assert postgresql.run("SELECT count(*) FROM totals WHERE key = 'a'") == [(count,)]
    assert postgresql.run("SELECT batch FROM windrow_batches") == [(1,)]


def test_a_server_that_stays_away_is_an_error_after_some_attempts(
    postgresql: Database, postgres: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("windrow_sql.database.output.time", SimpleNamespace(sleep=pauses.append))
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
