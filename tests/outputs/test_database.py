"""Batches in tables of SQLite and PostgreSQL: once each, whole or not at all, with every kind of value."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired
from urllib.parse import quote
from uuid import UUID

import msgspec
import pytest
import sqlalchemy as sa
from typing_extensions import TypedDict

from tests.outputs.outputs import database_output, output_of, outputs_of
from tests.outputs.postgres import PASSWORD
from windrow import Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.distribution import install_hint
from windrow.errors import InvalidArgumentError, PlanError, SinkError, UnsupportedOperationError
from windrow.panes import ChangeKind
from windrow.sinks import DatabaseSink
from windrow.sources import CollectionSource
from windrow.triggers import after_count, after_watermark
from windrow.windows import EventTimeSessionWindows, TimeWindow
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.changes import Changed
from windrow_runtime.spark import SparkRunner
from windrow_sql.database.output import DatabaseLimits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).name
_SCHEMAS = itertools.count()

# Any in this module: rows as the driver gives them.


@dataclass(frozen=True)
class Database:
    """A database of one test."""

    url: str
    schema: str | None

    @property
    def totals(self) -> str:
        """The name of a table ``totals`` in errors and notes."""
        return "totals" if self.schema is None else f"{self.schema}.totals"

    def sink(self, table: str, *key: str, create: bool = True) -> DatabaseSink[Any]:
        return DatabaseSink(self.url, table, key=key, schema=self.schema, create=create)

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        engine = sa.create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.pool.NullPool)
        with engine.begin() as connection:
            if self.schema is not None:
                connection.execute(sa.text(f"SET search_path TO {self.schema}"))
            done = connection.execute(sa.text(statement))
            return [tuple(row) for row in done] if done.returns_rows else []


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path}/test.db", None)


@pytest.fixture
def postgresql(postgres: Path) -> Database:
    database = Database(
        f"postgresql://windrow:{quote(PASSWORD, safe='')}@/postgres?host={postgres}", f"test{next(_SCHEMAS)}"
    )
    Database(database.url, None).run(f"CREATE SCHEMA {database.schema}")
    return database


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Database:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Database)
    return found


class Total(NamedTuple):
    key: str
    value: int


#  batch        0              1              1 again, with other elements    2
#  written      a=1 b=2 a=3    a=4 c=5        nothing                         b=6
def test_the_last_value_of_each_key_stays_and_a_batch_is_written_once(database: Database) -> None:
    output = output_of(Total, database.sink("totals", "key"))
    output.write(0, [Total("a", 1), Total("b", 2), Total("a", 3)])
    assert database.run("SELECT * FROM totals ORDER BY key") == [("a", 3), ("b", 2)]
    output.write(1, [Total("a", 4), Total("c", 5)])
    output.write(1, [Total("a", 40), Total("d", 50)])
    # As in a process that starts again.
    again = output_of(Total, database.sink("totals", "key"))
    again.write(1, [Total("a", 400)])
    again.write(2, [Total("b", 6)])
    assert database.run("SELECT * FROM totals ORDER BY key") == [("a", 4), ("b", 6), ("c", 5)]
    # A run with another checkpoint has batches of its own.
    output_of(Total, database.sink("totals", "key"), query="other").write(0, [Total("a", 7)])
    assert database.run("SELECT value FROM totals WHERE key = 'a'") == [(7,)]
    batches = database.run("SELECT query_id, sink, batch FROM windrow_batches ORDER BY query_id")
    assert batches == [("other", database.totals, 0), ("query", database.totals, 2)]


def test_pages_of_tables_with_a_key_have_room_for_updates(postgresql: Database) -> None:
    output_of(Total, postgresql.sink("keyed", "key")).write(0, [Total("a", 1)])
    output_of(Total, postgresql.sink("bare")).write(0, [Total("a", 1)])
    tables = "SELECT relname, reloptions FROM pg_class WHERE relname IN ('keyed', 'bare') ORDER BY relname"
    assert postgresql.run(tables) == [("bare", None), ("keyed", ["fillfactor=50"])]


def test_a_number_below_the_newest_one_is_refused(database: Database) -> None:
    output = output_of(Total, database.sink("totals"))
    output.check(0, again=False)
    output.write(0, [Total("a", 1)])
    output.write(5, [Total("b", 2)])
    for batch, again in ((5, True), (6, False), (7, False)):
        output.check(batch, again=again)
    message = "older than what a sink of its query has written"
    for batch, again in ((5, False), (4, True), (4, False)):
        with pytest.raises(SinkError, match=message) as caught:
            output.check(batch, again=again)
        assert f"batch {batch} for database " in str(caught.value.given)
        assert str(caught.value.given).endswith(f", table {database.totals}, which has batch 5")
        assert PASSWORD not in str(caught.value)
        assert "older copy" in str(caught.value.hint)
    with pytest.raises(SinkError, match=message):
        output.write(4, [Total("c", 3)])
    output_of(Total, database.sink("totals"), query="other").check(0, again=False)
    assert sorted(database.run("SELECT * FROM totals")) == [("a", 1), ("b", 2)]
    assert database.run("SELECT batch FROM windrow_batches") == [(5,)]


def test_without_a_key_every_row_of_a_batch_is_added_once(database: Database) -> None:
    first, second = outputs_of(Total, database.sink("totals"), database.sink("totals"))
    batch = [Total("a", 1), Total("a", 1), Total("b", 2), Total("a", 3), Total("b", 4)]
    for output in (first, second, first, second):
        output.write(3, batch)
    assert sorted(database.run("SELECT * FROM totals")) == sorted(2 * batch)


#  batch      0        1                        2
#  changes   +I a=1   -U a=1  +U a=4  +I b=2   -D b=2   -D a=4  +I a=5
#  table      a=1      a=4 b=2                  a=5
def test_what_is_withdrawn_is_deleted_unless_another_result_follows(database: Database) -> None:
    output = output_of(Total, database.sink("totals", "key"))
    replaced = [Changed(ChangeKind.UPDATE_BEFORE, Total("a", 1)), Changed(ChangeKind.UPDATE_AFTER, Total("a", 4))]
    output.write(0, [Total("a", 1)])
    output.write(1, [*replaced, Total("b", 2)])
    assert database.run("SELECT * FROM totals ORDER BY key") == [("a", 4), ("b", 2)]
    gone = [Changed(ChangeKind.DELETE, Total("b", 2)), Changed(ChangeKind.DELETE, Total("a", 4))]
    output.write(2, [*gone, Total("a", 5)])
    assert database.run("SELECT * FROM totals ORDER BY key") == [("a", 5)]


SESSIONS = "SELECT key, start, value FROM sessions ORDER BY key, start"


class SessionTotal(NamedTuple):
    key: str
    start: int
    value: int


def of_session(key: str, window: TimeWindow, elements: Sequence[Total]) -> list[SessionTotal]:
    return [SessionTotal(key, window.start, sum(element.value for element in elements))]


def retracting_sessions(source: CollectionSource[Total], sink: DatabaseSink[SessionTotal]) -> Pipeline:
    """Sessions refined at each element; each has its value as its timestamp."""
    stamped = from_source(source).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda total: total.value
    )
    sessions = stamped.key_by(lambda total: total.key).window(
        EventTimeSessionWindows.with_gap(timedelta(milliseconds=5))
    )
    refined = sessions.trigger(after_watermark(early=after_count(1))).retracting().apply(of_session)
    return Pipeline("sessions", refined.sink_to(sink))


#  elements   1   8    12     of a:  [1, 6) [8, 13) become no session of both; 5 makes [1, 13), 12 [1, 17)
def test_a_table_holds_the_sessions_that_are_left(sqlite: Database) -> None:
    elements = [Total("a", 1), Total("b", 2), Total("a", 5), Total("b", 30)]
    source = CollectionSource(elements, Total, batch_size=1)
    LocalRunner().run(retracting_sessions(source, sqlite.sink("sessions", "key", "start")))
    assert sqlite.run(SESSIONS) == [("a", 1, 6), ("b", 2, 2), ("b", 30, 30)]


def test_the_same_on_spark(sqlite: Database, spark: SparkSession) -> None:
    elements = [Total("a", 3), Total("b", 4), Total("a", 1), Total("a", 9), Total("b", 30)]
    source = CollectionSource(elements, Total, batch_size=2)
    expected = Database(f"{sqlite.url}.local", None)
    LocalRunner().run(retracting_sessions(source, expected.sink("sessions", "key", "start")))
    SparkRunner(spark).run(retracting_sessions(source, sqlite.sink("sessions", "key", "start")))
    assert sqlite.run(SESSIONS) == expected.run(SESSIONS) != []


def test_without_a_key_nothing_can_be_withdrawn(sqlite: Database) -> None:
    with pytest.raises(PlanError, match="a DatabaseSink with a key deletes what is withdrawn"):
        retracting_sessions(CollectionSource([Total("a", 1)], Total), sqlite.sink("sessions"))


def test_a_table_of_keys_alone(database: Database) -> None:
    output = output_of(int, database.sink("seen", "value"))
    output.write(0, [1, 2, 1])
    output.write(1, [2, 3])
    assert database.run("SELECT value FROM seen ORDER BY value") == [(1,), (2,), (3,)]


def test_a_batch_that_fails_leaves_nothing_and_is_written_later(database: Database) -> None:
    database.run("CREATE TABLE totals (key TEXT PRIMARY KEY, value BIGINT CHECK (value < 10))")
    output = database_output(Total, database.sink("totals", "key"), DatabaseLimits(rows_at_once=2))
    with pytest.raises(SinkError, match="the database refused a batch") as caught:
        output.write(0, [Total("a", 1), Total("b", 2), Total("c", 1234567)])
    assert str(caught.value.given).startswith("batch 0 of 3 elements for database ")
    assert "outputs.2.sink, " in str(caught.value.where)
    assert "1234567" not in str(caught.value).partition("DETAIL")[0]
    assert database.run("SELECT * FROM totals") == database.run("SELECT * FROM windrow_batches") == []
    output.write(0, [Total("a", 1), Total("b", 2), Total("c", 9)])
    assert database.run("SELECT * FROM totals ORDER BY key") == [("a", 1), ("b", 2), ("c", 9)]


def test_of_two_processes_with_one_checkpoint_one_writes_the_batch(database: Database) -> None:
    outputs = [output_of(Total, database.sink("totals")) for _ in range(4)]
    together = threading.Barrier(len(outputs))

    def write(place: int) -> None:
        for batch in range(3):
            together.wait()
            outputs[place].write(batch, [Total("a", batch), Total("b", place)])

    with ThreadPoolExecutor(len(outputs)) as threads:
        list(threads.map(write, range(len(outputs))))
    assert sorted(database.run("SELECT value FROM totals WHERE key = 'a'")) == [(0,), (1,), (2,)]
    assert len(database.run("SELECT value FROM totals")) == 6


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Position(NamedTuple):
    x: float
    y: float | None


class Report(msgspec.Struct, frozen=True, rename={"at": "When At"}):
    at: datetime
    ident: UUID
    level: Level
    raw: bytes
    day: date
    on: bool
    length: timedelta
    price: Decimal
    mean: float
    position: Position
    tags: list[str]
    weights: dict[str, int] | None
    maybe: int | None


REPORTS = [
    Report(
        datetime(1969, 12, 31, 23, 59, 59, 900_000, tzinfo=timezone(timedelta(hours=1))), UUID(int=7), Level.HIGH,
        b"\x00\xff", date(2024, 2, 29), True, timedelta(days=-1, microseconds=1),
        Decimal("12345678901234567890.123456789012345678"), float("-inf"), Position(0.1, None), ["é", 'q"'],
        {"w": 2**53 + 1}, -(2**63),
    ),
    Report(
        datetime(2024, 1, 1, tzinfo=UTC), UUID(int=8), Level.LOW, b"", date(1, 1, 1), False, timedelta(0), Decimal(0),
        0.1, Position(1.0, 2.0), [], None, None,
    ),
]  # fmt: skip
KEY = ("at", "ident", "level", "raw", "day", "on", "length")


def test_every_kind_of_value_in_sqlite(sqlite: Database) -> None:
    output = output_of(Report, sqlite.sink("reports", *KEY))
    output.write(0, REPORTS)
    output.write(1, REPORTS[:1])
    assert sqlite.run('SELECT * FROM reports ORDER BY "When At"') == [
        (
            "1969-12-31T22:59:59.900000Z", "00000000-0000-0000-0000-000000000007", "high", b"\x00\xff", "2024-02-29",
            1, -86_399_999_999, "12345678901234567890.123456789012345678", float("-inf"), '{"x":0.1,"y":null}',
            '["é","q\\""]', '{"w":9007199254740993}', -(2**63),
        ),
        (
            "2024-01-01T00:00:00.000000Z", "00000000-0000-0000-0000-000000000008", "low", b"", "0001-01-01", 0, 0,
            "0", 0.1, '{"x":1.0,"y":2.0}', "[]", None, None,
        ),
    ]  # fmt: skip
    (moment,) = sqlite.run("SELECT julianday(\"When At\") - julianday(day) FROM reports WHERE level = 'low'")
    assert moment == ((date(2024, 1, 1) - date(1, 1, 1)).days,)


def test_every_kind_of_value_in_postgresql(postgresql: Database) -> None:
    output = output_of(Report, postgresql.sink("reports", *KEY))
    output.write(0, REPORTS)
    output.write(1, REPORTS[:1])
    expected = [
        msgspec.structs.asdict(each) | {"level": each.level.value, "position": each.position._asdict()}
        for each in REPORTS
    ]
    found = postgresql.run('SELECT * FROM reports ORDER BY "When At"')
    assert found == [tuple(each.values()) for each in expected]
    types = postgresql.run("SELECT pg_typeof(weights)::text, pg_typeof(price)::text FROM reports LIMIT 1")
    assert types == [("jsonb", "numeric")]


class Sparse(TypedDict):
    key: str
    note: NotRequired[str]


@pytest.mark.parametrize(
    ("kind", "values", "rows"),
    [
        (Sparse, [{"key": "a"}, {"key": "b", "note": "n"}], [("a", None), ("b", "n")]),
        (tuple[int, str], [(1, "a")], [(1, "a")]),
        (str, ["a"], [("a",)]),
        (Position | None, [None, Position(1.0, None)], [(None,), ('{"x":1.0,"y":null}',)]),
    ],
    ids=["TypedDict", "tuple", "str", "Optional"],
)
def test_what_is_no_plain_record(
    sqlite: Database, kind: type[Any], values: Sequence[Any], rows: list[tuple[Any, ...]]
) -> None:
    output_of(kind, sqlite.sink("things")).write(0, values)
    assert sqlite.run("SELECT * FROM things") == rows


class Measure(NamedTuple):
    key: str
    mean: float | None
    tags: list[str]
    at: datetime


NOW = datetime(2024, 1, 1, tzinfo=UTC)
VALUE: Any = 1


@pytest.mark.parametrize(
    ("value", "reason", "field"),
    [
        (Measure("a", float("nan"), [], NOW), "SQLite has no NaN", "Measure.mean"),
        (Measure(VALUE, None, [], NOW), "1 is a int", "Measure.key"),
        (Measure("a", None, [VALUE], NOW), "1 is a int", "Measure.tags[]"),
        (Measure("a", None, [], NOW.replace(tzinfo=None)), "has no time zone", "Measure.at"),
        (Total("a", 1), "is a Total", "Measure"),
    ],
)
def test_a_value_that_does_not_fit_is_named(sqlite: Database, value: Any, reason: str, field: str) -> None:
    output = output_of(Measure, sqlite.sink("measures"))
    with pytest.raises(InvalidArgumentError, match=reason) as caught:
        output.write(0, [Measure("a", None, [], NOW), value])
    assert str(caught.value.where).startswith("outputs.2.sink, ")
    assert str(caught.value.where).endswith(f", {field}")
    assert sqlite.run("SELECT * FROM measures") == []


@pytest.mark.parametrize(
    ("key", "message", "given"),
    [
        ("mean", "cannot be a key", "mean: float | None"),
        ("tags", "cannot be a key", "tags: list[str]"),
        ("kay", "names a field that Measure does not have", "kay"),
    ],
)
def test_what_cannot_be_a_key(sqlite: Database, key: str, message: str, given: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        output_of(Measure, sqlite.sink("measures", key))
    assert caught.value.given == given
    assert "outputs.2.sink, " in str(caught.value.where)


def test_a_table_that_fits_is_taken_as_it_is(database: Database) -> None:
    database.run("CREATE TABLE totals (id INTEGER DEFAULT 7, value INTEGER, key VARCHAR(9) NOT NULL UNIQUE)")
    output_of(Total, database.sink("totals", "key")).write(0, [Total("a", 1), Total("a", 2)])
    assert database.run("SELECT * FROM totals") == [(7, 2, "a")]


def test_a_table_that_does_not_fit_is_refused_with_all_that_is_wrong(database: Database) -> None:
    database.run("CREATE TABLE measures (key TEXT, mean FLOAT NOT NULL, at TIMESTAMP, id INTEGER NOT NULL)")
    with pytest.raises(SinkError, match="the table does not fit Measure") as caught:
        output_of(Measure, database.sink("measures", "key"))
    faults = caught.value.message.splitlines()[1:]
    expected = [
        "  - mean: the column is NOT NULL, and the field may be None",
        f"  - tags: no such column; expected {'TEXT' if database.schema is None else 'JSONB'}",
        "  - id: the column is NOT NULL without a default, and Measure has no such field",
        "  - the table has no primary key or unique index of exactly: key",
    ]
    if database.schema is not None:
        fault = "the column is timestamp without time zone, which does not keep every datetime as it is"
        expected.insert(2, f"  - at: {fault}; expected TIMESTAMP WITH TIME ZONE")
    assert faults == expected
    assert "CREATE TABLE" in str(caught.value.expected)
    assert "outputs.2.sink, " in str(caught.value.where)


class Row(NamedTuple):
    key: str
    number: int
    mean: float
    price: Decimal
    at: datetime
    length: timedelta


EXACT = {
    "sqlite": ("TEXT", "BIGINT", "DOUBLE", "VARCHAR(3)", "DATETIME", "INTEGER"),
    "postgresql": ("TEXT", "NUMERIC(20,1)", "FLOAT8", "NUMERIC", "TIMESTAMPTZ", "INTERVAL"),
}
COLUMNS = Row._fields


CHANGING = {
    "postgresql": {
        "key": ["CHAR(9)", "NAME"],
        "number": ["NUMERIC(5,2)", "DOUBLE PRECISION", "REAL"],
        "mean": ["REAL", "NUMERIC"],
        "price": ["NUMERIC(5,2)", "two_digits"],
        "at": ["TIMESTAMPTZ(0)"],
        "length": ["INTERVAL(0)", "INTERVAL HOUR"],
    },
    "sqlite": {
        "key": ["NUMERIC", "STRING", "INTEGER"],  # SQLite does not know the name STRING, and makes numbers of texts
        "number": ["DOUBLE", "TEXT"],
        "mean": ["INTEGER"],
        "price": ["DECIMAL(5,2)", "REAL"],
        "length": ["REAL"],
    },
}


@pytest.mark.parametrize(
    ("backend", "column", "kind"),
    [(backend, name, kind) for backend in CHANGING for name, kinds in CHANGING[backend].items() for kind in kinds],
)
def test_a_column_that_would_change_a_value_is_refused(
    request: pytest.FixtureRequest, backend: str, column: str, kind: str
) -> None:
    database: Database = request.getfixturevalue(backend)
    if backend == "postgresql":
        database.run("CREATE DOMAIN two_digits AS NUMERIC(5,2)")
    types = dict(zip(COLUMNS, EXACT[backend], strict=True)) | {column: kind}
    database.run(f"CREATE TABLE things ({', '.join(f'{name} {text}' for name, text in types.items())})")
    with pytest.raises(SinkError, match="the table does not fit Row") as caught:
        output_of(Row, database.sink("things"))
    (fault,) = caught.value.message.splitlines()[1:]
    assert fault.startswith(f"  - {column}: the column is ")


def test_columns_that_keep_every_value_are_taken(database: Database) -> None:
    backend = "sqlite" if database.schema is None else "postgresql"
    types = ", ".join(f"{name} {text}" for name, text in zip(COLUMNS, EXACT[backend], strict=True))
    database.run(f"CREATE TABLE things ({types})")
    at = datetime(2024, 1, 1, microsecond=1, tzinfo=UTC)
    row = Row("007", 2**63 - 1, 0.1 + 0.2, Decimal("1.000000000000000000000000001"), at, timedelta(microseconds=1))
    output_of(Row, database.sink("things")).write(0, [row])
    (found,) = database.run("SELECT * FROM things")
    in_sqlite = ("007", 2**63 - 1, 0.1 + 0.2, str(row.price), "2024-01-01T00:00:00.000001Z", 1)
    assert found == (row if backend == "postgresql" else in_sqlite)


@pytest.mark.parametrize(
    ("backend", "table"),
    [
        ("sqlite", "key TEXT COLLATE NOCASE PRIMARY KEY, value INTEGER"),
        ("sqlite", "key TEXT COLLATE RTRIM, value INTEGER, UNIQUE (key)"),
        ("postgresql", "key TEXT COLLATE caseless PRIMARY KEY, value BIGINT"),
    ],
)
def test_a_key_that_takes_different_texts_for_equal_is_refused(
    request: pytest.FixtureRequest, backend: str, table: str
) -> None:
    database: Database = request.getfixturevalue(backend)
    if backend == "postgresql":
        database.run(f'CREATE COLLATION {database.schema}.caseless FROM "C"')
    database.run(f"CREATE TABLE totals ({table})")
    if backend == "postgresql":
        # What a collation of ICU says of itself, which not every build of PostgreSQL has.
        namespace = f"(SELECT oid FROM pg_namespace WHERE nspname = '{database.schema}')"
        database.run(f"UPDATE pg_collation SET collisdeterministic = false WHERE collnamespace = {namespace}")
    with pytest.raises(SinkError, match="takes different texts for equal"):
        output_of(Total, database.sink("totals", "key"))
    if backend == "postgresql":
        database.run("DROP TABLE totals")
        database.run("CREATE TABLE totals (key TEXT COLLATE caseless, value BIGINT)")
    # Where it is no key, it only says how texts are sorted.
    output_of(Total, database.sink("totals")).write(0, [Total("a", 1), Total("B", 1)])
    assert sorted(database.run("SELECT key FROM totals")) == [("B",), ("a",)]


def test_a_text_is_refused_that_a_column_would_cut_off(postgresql: Database) -> None:
    postgresql.run("CREATE TABLE totals (key VARCHAR(3) PRIMARY KEY, value BIGINT)")
    output = output_of(Total, postgresql.sink("totals", "key"))
    output.write(0, [Total("é  ", 1)])
    with pytest.raises(InvalidArgumentError, match="has 4 characters") as caught:
        output.write(1, [Total("é   ", 2)])
    assert str(caught.value.where).endswith(", Total.key")
    assert postgresql.run("SELECT * FROM totals") == [("é  ", 1)]


def test_a_sink_that_makes_no_tables_says_what_is_missing(database: Database) -> None:
    with pytest.raises(SinkError, match="there is no table totals and no table windrow_batches") as caught:
        output_of(Total, database.sink("totals", "key", create=False))
    for statement in str(caught.value.expected).split("; "):
        database.run(statement)
    output_of(Total, database.sink("totals", "key", create=False)).write(0, [Total("a", 1)])
    assert database.run("SELECT * FROM totals") == [("a", 1)]


def test_no_error_and_no_log_shows_a_password(postgresql: Database, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("", "sqlalchemy", "psycopg"):
        caplog.set_level(logging.DEBUG, name)
    output_of(Total, postgresql.sink("totals")).write(0, [Total("zebra", 1)])
    wrong = postgresql.url.replace("windrow:", "windrow:no") + "&sslpassword=s3cret"
    pipeline = Pipeline("secret", from_collection([Total("a", 1)]).sink_to(DatabaseSink(wrong, "totals")))
    with pytest.raises(SinkError, match="password authentication failed") as caught:
        LocalRunner().run(pipeline)
    text = "".join(traceback.format_exception(caught.value)) + caplog.text
    secrets = [PASSWORD, quote(PASSWORD, safe=""), "s3cret", "zebra"]
    assert not [secret for secret in secrets if secret in text]
    assert "INSERT INTO" in caplog.text
    assert "windrow:*****@/postgres?host=" in str(caught.value.given)
    assert f"{HERE}:" in str(caught.value.where)


def test_an_error_of_the_driver_that_shows_a_secret_is_not_the_cause(postgres: Path) -> None:
    # The driver repeats a parameter that it does not understand.
    url = f"postgresql://windrow@/postgres?host={postgres}&channel_binding=s3cret"
    with pytest.raises(SinkError, match=r"channel_binding.*\*{5}") as caught:
        output_of(Total, DatabaseSink[Total](url, "totals"))
    assert caught.value.__cause__ is None
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_library_that_is_missing_is_named(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "windrow_sql.database.output")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(UnsupportedOperationError, match="a library is missing") as caught:
        output_of(Total, sqlite.sink("totals"))
    assert caught.value.hint == install_hint("database")


def test_the_interpreter_writes_batch_by_batch(sqlite: Database) -> None:
    stream = from_source(CollectionSource([Total("a", 1), Total("a", 2), Total("b", 3)], batch_size=2))
    pipeline = Pipeline("both", stream.sink_to(sqlite.sink("latest", "key")), stream.sink_to(sqlite.sink("every")))
    LocalRunner().run(pipeline)
    LocalRunner().run(pipeline)
    assert sqlite.run("SELECT * FROM latest ORDER BY key") == [("a", 2), ("b", 3)]
    # Each run is a query of its own.
    assert sqlite.run("SELECT * FROM every") == 2 * [("a", 1), ("a", 2), ("b", 3)]
    batches = sqlite.run("SELECT sink, batch FROM windrow_batches ORDER BY sink")
    assert batches == 2 * [("every", 1)] + 2 * [("latest", 1)]
