"""Large batches reach PostgreSQL by COPY as small ones do by INSERT, and a lost connection is tried again."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

import pytest
import sqlalchemy as sa

from tests.outputs.outputs import database_output
from tests.outputs.postgres import PASSWORD
from windrow.errors import InvalidArgumentError, SinkError
from windrow.panes import ChangeKind
from windrow.sinks import DatabaseSink
from windrow_runtime.operators.changes import Changed
from windrow_sql.database.output import DatabaseLimits, DatabaseOutput

# Any in this module: rows as the driver gives them.

_SCHEMAS = itertools.count()


class Server(NamedTuple):
    url: str
    schema: str

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        engine = sa.create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.pool.NullPool)
        with engine.begin() as connection:
            connection.execute(sa.text(f"SET search_path TO {self.schema}"))
            done = connection.execute(sa.text(statement))
            return [tuple(row) for row in done] if done.returns_rows else []

    def output(self, kind: type[Any], table: str, *key: str, copied: int = 1) -> DatabaseOutput:
        """An output that copies batches from a number of rows on, and tries again at once."""
        sink = DatabaseSink[Any](self.url, table, key=key, schema=self.schema)
        return database_output(kind, sink, DatabaseLimits(fewest_copied_rows=copied, first_pause_seconds=0.0))


@pytest.fixture
def server(postgres: Path) -> Server:
    url = f"postgresql://windrow:{quote(PASSWORD, safe='')}@/postgres?host={postgres}"
    server = Server(url, f"bulk{next(_SCHEMAS)}")
    Server(url, "public").run(f"CREATE SCHEMA {server.schema}")
    return server


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


def everything(number: int, text: str, share: float, span: timedelta, maybe: str | None) -> Everything:
    return Everything(
        number,
        text,
        number % 2 == 0,
        share,
        text.encode() + b"\0\\\t\n",
        Decimal("1.50") * number,
        UUID(int=number % 2**64),
        datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=number % 7, microseconds=1),
        date(9999, 12, 31) - timedelta(days=number % 7),
        span,
        Color.RED,
        [text, "\\N"],
        {text: 1},
        maybe,
        None if maybe is None else number,
    )


TEXTS = ["", "\\N", "\\.", "tab\tline\nreturn\r", "back\\slash\\", "ÄŁ𝄞", "'\";--", "\x01\x7f", " blank ", "%s:x"]
SPANS = [timedelta(0), timedelta(days=-1, microseconds=1), timedelta(days=999_999), timedelta(seconds=-1.5)]
FLOATS = [0.0, -0.0, 1.5e300, 5e-324, float("inf"), float("-inf"), float("nan"), 0.1]
RECORDS = [
    everything(number, TEXTS[place % 10], FLOATS[place % 8], SPANS[place % 4], None if place % 3 else TEXTS[place % 10])
    for place, number in enumerate([*range(20), 2**63 - 1, -(2**63)])
]


@pytest.mark.parametrize("key", [(), ("number",), ("text", "at", "number")])
def test_copy_writes_what_insert_writes(server: Server, key: tuple[str, ...]) -> None:
    for table, copied in (("inserted", 10**9), ("copied", 1)):
        server.output(Everything, table, *key, copied=copied).write(1, RECORDS)
    rows = [list(map(repr, server.run(f"SELECT * FROM {table} ORDER BY number"))) for table in ("inserted", "copied")]
    assert len(rows[0]) == len(RECORDS)
    assert rows[0] == rows[1]


class Count(NamedTuple):
    """The column's name has to be quoted."""

    key: str
    n: int


def test_the_last_of_a_key_stays_and_what_is_withdrawn_goes(server: Server) -> None:
    output = server.output(Count, "order", "key")
    output.write(1, [Count("a", 1), Count("b", 1), Count("a", 2), Count("c:d", 3)])
    output.write(1, [Count("a", 99)])
    gone = [Changed(ChangeKind.DELETE, Count(key, 1)) for key in ("b", "absent", "d")]
    output.write(2, [Count("d", 4), *gone, Count("a", 5)])
    output.write(3, [Changed(ChangeKind.DELETE, Count("c:d", 3)), Count("c:d", 6)])
    assert server.run('SELECT key, n FROM "order" ORDER BY key') == [("a", 5), ("c:d", 6)]


def test_a_batch_that_is_refused_leaves_nothing(server: Server) -> None:
    output = server.output(Count, "counts", "key")
    server.run("ALTER TABLE counts ADD CONSTRAINT small CHECK (n < 100 OR n > 9000)")
    with pytest.raises(SinkError, match="small"):
        output.write(1, [Count("fine", 1), Count("b", 200)])
    with pytest.raises(InvalidArgumentError, match="NUL"):
        output.write(1, [Count("fine", 1), Count("a\0b", 2)])
    with pytest.raises(InvalidArgumentError, match="does not fit 64 bits"):
        output.write(1, [Count("fine", 1), Count("b", 2**63)])
    assert server.run("SELECT * FROM counts") == []
    output.write(1, [Count("fine", 1)])
    assert server.run("SELECT * FROM counts") == [("fine", 1)]


TABLES = [
    "CREATE TABLE rows (key text, n bigint); ALTER TABLE rows ENABLE ROW LEVEL SECURITY",
    "CREATE TABLE rows (key text, n bigint); CREATE RULE twice AS ON INSERT TO rows DO ALSO NOTHING",
    "CREATE TABLE held (key text, n bigint); CREATE VIEW rows AS SELECT * FROM held",
]


@pytest.mark.parametrize("statements", TABLES, ids=["policies", "rules", "view"])
def test_tables_that_copy_would_not_write_get_an_insert(server: Server, statements: str) -> None:
    for statement in statements.split("; "):
        server.run(statement)
    output = server.output(Count, "rows")
    output.write(1, [Count("a", 1), Count("b", 2)])
    assert server.run("SELECT * FROM rows ORDER BY key") == [("a", 1), ("b", 2)]


def lost(output: DatabaseOutput, server: Server, times: int, *, after: bool) -> Callable[..., None]:
    """Writes a batch, and ends the connection before or after the transaction is committed, some times."""
    write_once = DatabaseOutput._write_rows
    left = [times]

    def write(batch: int, rows: Any, deleted: Any) -> None:
        if left[0] and after:
            write_once(output, batch, rows, deleted)
        if not left[0]:
            write_once(output, batch, rows, deleted)
            return
        left[0] -= 1
        with output._engine.begin() as connection:
            connection.execute(output._claim, {"this": batch})
            pid = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar()
            server.run(f"SELECT pg_terminate_backend({pid})")
            connection.execute(sa.text("SELECT 1"))

    return write


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "behind the commit"])
def test_a_lost_connection_is_tried_again_and_the_batch_is_written_once(
    server: Server, after: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    output = server.output(Count, "counts")
    monkeypatch.setattr(output, "_write_rows", lost(output, server, 2, after=after))
    with caplog.at_level(logging.WARNING, logger="windrow"):
        output.write(1, [Count("a", 1)])
    assert server.run("SELECT * FROM counts") == [("a", 1)]
    assert caplog.text.count("batch 1 of database postgresql://windrow:*****@") == 2
    assert PASSWORD not in caplog.text


def test_it_is_tried_a_bounded_number_of_times(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    output = server.output(Count, "counts")
    monkeypatch.setattr(output, "_write_rows", lost(output, server, 9, after=False))
    with pytest.raises(SinkError, match=r"the database refused a batch.*terminat"):
        output.write(1, [Count("a", 1)])
    monkeypatch.undo()
    output.write(1, [Count("a", 1)])
    assert server.run("SELECT * FROM counts") == [("a", 1)]
