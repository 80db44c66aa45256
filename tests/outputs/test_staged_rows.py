"""Rows of PostgreSQL that tasks stage: each once in the table, whatever failed, ran twice or was left behind."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from tests.outputs.outputs import output_of
from tests.outputs.postgres import PASSWORD
from tests.outputs.test_database import KEY, REPORTS, Database, Total, postgresql
from tests.outputs.test_postgres_copy import RECORDS, TABLES, Everything, totals
from windrow import Pipeline, from_source
from windrow.errors import InvalidArgumentError, SinkError
from windrow.panes import ChangeKind
from windrow.sinks import DatabaseSink
from windrow.sources import CollectionSource
from windrow_runtime.operators.changes import Changed
from windrow_runtime.outputs.output import Identity
from windrow_spark.shipping import sink_alone
from windrow_spark.sinks.spark_writer import WrittenBy, spark_writer_of
from windrow_spark.sinks.worker_sink import WorkerTask
from windrow_sql.database import spark_writer
from windrow_sql.database.output import DatabaseLimits
from windrow_sql.database.spark_writer import DatabaseWorkerSink

__all__ = ["postgresql"]  # a fixture

# Any in this module: elements of every type, and rows as the driver gives them.

STAGING = DatabaseLimits(first_pause_seconds=0.0, sent_elements=0, part_bytes=1)
"""Limits by which tasks stage all elements, each portion in a transaction."""
SOME_SENT = replace(STAGING, sent_elements=2)


def worker_sink(
    kind: type[Any], sink: DatabaseSink[Any], query: str = "query", limits: DatabaseLimits = STAGING
) -> DatabaseWorkerSink:
    """The sink as an engine has it, ready for a batch."""
    pipeline = Pipeline("staged", from_source(CollectionSource([], kind)).sink_to(sink))
    step = sink_alone(pipeline.step_of(pipeline.sinks[0].node))
    made = DatabaseWorkerSink(step, sink, Identity(query, sink.qualified_table), limits)
    made.check(0, "", again=True)
    return made


def run_task(sink: DatabaseWorkerSink, *portions: Sequence[Any], batch: int = 0, number: int = 0) -> list[bytes]:
    """Runs a task that succeeds; returns what the driver gets. The portions have numbers in their order."""
    task = sink.task(batch)
    names = written(task, *portions, number=number)
    task.finish()
    task.close()
    return names


def written(task: WorkerTask, *portions: Sequence[Any], number: int = 0) -> list[bytes]:
    """What a task that goes on writes."""
    names: list[bytes] = []
    for place, portion in enumerate(portions):
        task.number = number + place
        task.write(portion)
        names += task.take_names()
    return names


def staged_tables(database: Database) -> list[str]:
    """The tables of batches that are there."""
    found = database.run(
        "SELECT relname FROM pg_class WHERE relname LIKE 'windrow\\_staged\\_%' AND relkind = 'r'"
        f" AND relnamespace = '{database.schema}'::regnamespace"
    )
    return sorted(name for (name,) in found)


def test_rows_of_all_tasks_are_in_the_table_once(postgresql: Database) -> None:
    sink = worker_sink(Total, postgresql.sink("totals"))
    names = run_task(sink, [Total("a", 1)], [Total("b", 2), Total("b", 2)]) + run_task(sink, [Total("c", 3)])
    assert len(staged_tables(postgresql)) == 1
    assert postgresql.run("SELECT * FROM totals") == []
    sink.publish(0, names)
    assert sorted(postgresql.run("SELECT * FROM totals")) == [("a", 1), ("b", 2), ("b", 2), ("c", 3)]
    assert staged_tables(postgresql) == []
    # A batch that runs again stages its rows again, which go.
    for again in (sink, worker_sink(Total, postgresql.sink("totals"))):
        again.publish(0, run_task(again, [Total("a", 10)]))
        assert staged_tables(postgresql) == []
    sink.publish(1, run_task(sink, [], batch=1))  # nothing to write
    assert len(postgresql.run("SELECT * FROM totals")) == 4
    with pytest.raises(SinkError, match=r"batch 0 for .*, which has batch 0\n(.|\n)*older copy"):
        sink.check(0, "", again=False)
    # The interpreter, and the driver, go on in the same table.
    output_of(Total, postgresql.sink("totals")).write(1, [Total("d", 4)])
    with pytest.raises(SinkError, match="older than what a sink of its query has written"):
        sink.publish(0, run_task(sink, [Total("e", 5)]))
    assert len(postgresql.run("SELECT * FROM totals")) == 5


def test_a_small_batch_needs_no_table_and_no_connection_of_tasks(
    postgresql: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = worker_sink(Total, postgresql.sink("totals", "key"), limits=replace(STAGING, sent_elements=3))
    monkeypatch.setattr("windrow_sql.database.staged_output.StagedOutput.parts", None)
    second = run_task(sink, [Total("a", 3)], number=5)
    sink.publish(0, second + run_task(sink, [Total("a", 1)], [Total("b", 1), Total("a", 2)]))
    assert totals(postgresql) == {"a": 3, "b": 1}


def test_large_elements_are_staged_however_few_they_are(postgresql: Database) -> None:
    sink = worker_sink(Total, postgresql.sink("totals"), limits=DatabaseLimits())
    names = run_task(sink, [Total("a" * 1000, 1)], [Total("b" * 2_000_000, 2)])
    assert sum(map(len, names)) < 3_000
    sink.publish(0, names)
    assert sorted(postgresql.run("SELECT length(key), value FROM totals")) == [(1000, 1), (2_000_000, 2)]


#  task    number   elements              sent or staged
#  first   7        a=1 b=1  (2 sent)     sent
#          8        a=2                   staged
#  second  1        a=9 b=9 -c            sent
#          2        c=5 d=5               staged
#          3        -d                    staged
def test_of_the_elements_of_a_key_the_last_one_counts_whoever_has_it(postgresql: Database) -> None:
    sink = worker_sink(Total, postgresql.sink("totals", "key"), limits=SOME_SENT)
    output_of(Total, postgresql.sink("totals", "key"), query="other").write(0, [Total("c", 1), Total("d", 1)])
    first = run_task(sink, [Total("a", 1), Total("b", 1)], [Total("a", 2)], number=7)
    gone = [Changed(ChangeKind.DELETE, Total(key, 1)) for key in "cd"]
    portions = [Total("a", 9), Total("b", 9), gone[0]], [Total("c", 5), Total("d", 5)], [gone[1]]
    sink.publish(0, first + run_task(sink, *portions, number=1))
    assert totals(postgresql) == {"a": 2, "b": 1, "c": 5}
    # Within a portion, and in the deleted key that follows a new one.
    back = [Changed(ChangeKind.UPDATE_BEFORE, Total("c", 5)), Changed(ChangeKind.UPDATE_AFTER, Total("c", 6))]
    sink.publish(1, run_task(sink, [*back, Total("e", 1), Changed(ChangeKind.DELETE, Total("e", 1))], batch=1))
    assert totals(postgresql) == {"a": 2, "b": 1, "c": 6}


@pytest.mark.parametrize(
    ("records", "key"),
    [(RECORDS, ()), (RECORDS, ("text", "at", "number")), ([*REPORTS], KEY)],
    ids=["no key", "text, at, number", "reports"],
)
def test_staged_rows_are_what_the_driver_writes(postgresql: Database, records: list[Any], key: tuple[str, ...]) -> None:
    kind = type(records[0])
    output_of(kind, postgresql.sink("inserted", *key)).write(0, records)
    sink = worker_sink(kind, postgresql.sink("staged", *key), limits=SOME_SENT)
    halves = records[: len(records) // 2], records[len(records) // 2 :]
    sink.publish(0, run_task(sink, *halves) + run_task(sink, [], number=9))
    inserted, staged = (sorted(map(repr, postgresql.run(f"TABLE {name}"))) for name in ("inserted", "staged"))
    assert inserted == staged
    assert len(staged) == len(records)


class Odd(msgspec.Struct, frozen=True, rename={"first": "c1", "second": "a 'b' %(c)s :d"}):
    part: str
    number: int
    place: str | None
    gone: bool
    first: int
    second: str


@pytest.mark.parametrize("key", [("part",), ("number", "second"), ()])
def test_names_that_have_to_be_quoted(postgresql: Database, key: tuple[str, ...]) -> None:
    schema = f'{postgresql.schema} "X" %s'
    postgresql.run(f'CREATE SCHEMA "{schema.replace(chr(34), 2 * chr(34))}"'.replace("%", "%%").replace("%%", "%"))
    elsewhere = DatabaseSink[Odd](postgresql.url, 'My "Table" %s :a', key=key, schema=schema)
    sink = worker_sink(Odd, elsewhere)
    odd = [Odd("a", 1, None, True, 5, "x"), Odd("b", 2, "p", False, 6, "y"), Odd("a", 1, "q", False, 7, "x")]
    sink.publish(0, run_task(sink, odd))
    quoted = f'"{schema.replace(chr(34), 2 * chr(34))}"."My ""Table"" %s :a"'
    rows = postgresql.run(f"SELECT part, number, place, gone, c1 FROM {quoted} ORDER BY c1".replace(":a", "\\:a"))
    expected = [tuple(msgspec.structs.astuple(each)[:5]) for each in odd]
    assert rows == (expected if not key else expected[1:])
    # Tables that earlier runs have left are found there, too.
    run_task(sink, odd, batch=1)
    again = worker_sink(Odd, elsewhere)
    left = "SELECT relname FROM pg_class WHERE relname LIKE 'windrow\\_staged%' AND relnamespace = "
    namespace = f"(SELECT oid FROM pg_namespace WHERE nspname = '{schema}')"
    assert postgresql.run(left + namespace) == []
    again.publish(1, run_task(again, odd[1:2], batch=1))


#  attempt   portion 1   portion 2   end
#  first     staged      staged      killed
#  second    staged      staged      fails in finish
#  third     staged      staged      succeeds, twice: of two that run at a time Spark takes one
def test_rows_of_tasks_that_failed_or_ran_twice_are_not_taken(postgresql: Database) -> None:
    sink = worker_sink(Total, postgresql.sink("totals"))
    portions = [Total("a", 1)], [Total("b", 2)]
    killed = sink.task(0)
    written(killed, *portions)
    failed = sink.task(0)
    written(failed, *portions)
    failed.close()
    attempts = [run_task(sink, *portions) for _ in range(2)]
    late = sink.task(0)
    written(late, portions[0])
    sink.publish(0, attempts[1])
    assert sorted(postgresql.run("SELECT * FROM totals")) == [("a", 1), ("b", 2)]
    # The table of the batch is gone: a task that goes on fails, and one that begins leaves a table, to be dropped.
    with pytest.raises(SinkError, match="rows cannot be staged"):
        written(late, portions[1])
    killed.close()
    run_task(sink, *portions)
    assert len(staged_tables(postgresql)) == 1
    worker_sink(Total, postgresql.sink("totals"))
    assert staged_tables(postgresql) == []


def test_tables_of_other_runs_are_dropped_when_they_are_old(postgresql: Database) -> None:
    totals_sink = postgresql.sink("totals")
    for query in ("old", "new"):
        run_task(worker_sink(Total, totals_sink, query), [Total("a", 1)])
    old, new = staged_tables(postgresql)
    if old != _table_of("old", postgresql):
        old, new = new, old
    postgresql.run(f"COMMENT ON TABLE {old} IS '2020-01-01T00\\:00\\:00+00\\:00'")
    worker_sink(Total, totals_sink, "third")
    assert staged_tables(postgresql) == [new]


def _table_of(query: str, database: Database) -> str:
    output = worker_sink(Total, database.sink("totals"), "unused")._made()
    staging = type(output._staging)(output._table, output._names, (), Identity(query, database.totals))
    return staging.table(0).name


def test_rows_that_a_server_has_lost_are_missed(postgresql: Database) -> None:
    for statement in ("TRUNCATE", "DROP TABLE"):
        sink = worker_sink(Total, postgresql.sink("totals"), statement)
        names = run_task(sink, [Total("a", 1)], [Total("b", 2)])
        (table,) = staged_tables(postgresql)
        postgresql.run(f"{statement} {table}")
        with pytest.raises(SinkError, match="the rows that workers staged are not those") as caught:
            sink.publish(0, names)
        assert str(caught.value.given).startswith("0 rows of batch 0 for database ")
        assert postgresql.run("SELECT * FROM totals") == postgresql.run("SELECT * FROM windrow_batches") == []
        worker_sink(Total, postgresql.sink("totals"), statement)
    # One part of two, and then the batch again.
    sink = worker_sink(Total, postgresql.sink("totals"))
    names = run_task(sink, [Total("a", 1)], [Total("b", 2)])
    (table,) = staged_tables(postgresql)
    postgresql.run(f"DELETE FROM {table} WHERE c0 = 'a'")
    with pytest.raises(SinkError, match="the rows that workers staged are not those"):
        sink.publish(0, names)
    # Of a stage that Spark has computed anew, a note of the lost attempt and one of the other.
    again = worker_sink(Total, postgresql.sink("totals"), "again", replace(STAGING, part_bytes=1_000_000))
    lost, anew = (run_task(again, [Total("a", 1)], [Total("b", 2)]) for _ in range(2))
    with pytest.raises(SinkError, match="the rows that workers staged are not those"):
        again.publish(0, [lost[0], anew[1]])
    again.publish(0, anew)
    assert sorted(postgresql.run("SELECT * FROM totals")) == [("a", 1), ("b", 2)]


def kill_connections(database: Database) -> None:
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'windrow'"
    )


def test_a_connection_that_is_lost_is_tried_again(postgresql: Database, caplog: pytest.LogCaptureFixture) -> None:
    sink = worker_sink(Total, postgresql.sink("totals"))
    task = sink.task(0)
    names = written(task, [Total("a", 1)])
    kill_connections(postgresql)
    names += written(task, [Total("b", 2)], [Total("c", 3)])
    task.finish()
    task.close()
    assert "batch 0 of database postgresql://windrow:*****@" in caplog.text
    sink.publish(0, names)
    assert sorted(postgresql.run("SELECT key FROM totals")) == [("a",), ("b",), ("c",)]


def test_a_part_that_was_committed_before_its_connection_was_lost_is_there_once(
    postgresql: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = worker_sink(Total, postgresql.sink("totals"))
    task = sink.task(0)
    names = written(task, [Total("a", 1)])
    parts: Any = task._parts  # type: ignore[attr-defined]  # what loses its connection
    copy, left = parts._copy, [1]

    def copy_and_lose() -> None:
        copy()
        if left[0]:
            left[0] -= 1
            kill_connections(postgresql)
            copy()

    monkeypatch.setattr(parts, "_copy", copy_and_lose)
    names += written(task, [Total("b", 2)])
    sink.publish(0, names)
    assert sorted(postgresql.run("SELECT key FROM totals")) == [("a",), ("b",)]


def test_a_batch_is_moved_once_where_the_connection_is_lost_behind_the_commit(
    postgresql: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = worker_sink(Total, postgresql.sink("totals"), limits=SOME_SENT)
    output: Any = sink._opened_output()
    move, left = output._move, [2]

    def move_and_lose(*arguments: Any, **options: Any) -> None:
        move(*arguments, **options)
        if left[0]:
            left[0] -= 1
            with output._engine.connect() as connection:
                kill_connections(postgresql)
                connection.exec_driver_sql("SELECT 1")

    monkeypatch.setattr(output, "_move", move_and_lose)
    sink.publish(0, run_task(sink, [Total("a", 1)], [Total("b", 2), Total("c", 3)]))
    assert caplog.text.count("is tried again") == 2
    assert sorted(postgresql.run("SELECT key FROM totals")) == [("a",), ("b",), ("c",)]


def test_of_two_drivers_with_one_checkpoint_one_moves_the_batch(postgresql: Database) -> None:
    sinks = [worker_sink(Total, postgresql.sink("totals")) for _ in range(3)]
    names = [run_task(sink, [Total(f"of {place}", 1), Total("b", 2)]) for place, sink in enumerate(sinks)]
    threads = [
        threading.Thread(target=sink.publish, args=(0, staged)) for sink, staged in zip(sinks, names, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(postgresql.run("SELECT * FROM totals")) == 2
    assert staged_tables(postgresql) == []


def test_two_queries_stage_rows_of_one_table_apart(postgresql: Database) -> None:
    sinks = [worker_sink(Total, postgresql.sink("totals", "key"), query) for query in ("one", "two")]
    names = [run_task(sink, [Total(f"{place}", place)]) for place, sink in enumerate(sinks)]
    assert len(staged_tables(postgresql)) == 2
    for sink, staged in zip(sinks, names, strict=True):
        sink.publish(0, staged)
    assert totals(postgresql) == {"0": 0, "1": 1}


def test_a_task_that_nobody_waits_for_does_not_hold_up_the_batch(
    postgresql: Database, caplog: pytest.LogCaptureFixture
) -> None:
    sink = worker_sink(Total, postgresql.sink("totals"))
    names = run_task(sink, [Total("a", 1)])
    (table,) = staged_tables(postgresql)
    with sink._opened_output()._engine.begin() as zombie:
        zombie.exec_driver_sql(f"INSERT INTO {postgresql.schema}.{table} VALUES (1, 'z', 1)")
        sink.publish(0, names)
    assert postgresql.run("SELECT * FROM totals") == [("a", 1)]
    assert f"{table} could not be dropped: canceling statement due to lock timeout" in caplog.text
    worker_sink(Total, postgresql.sink("totals"))
    assert staged_tables(postgresql) == []


@pytest.mark.parametrize("case", [*TABLES, "partitions", "trigger", "identity", "domain", "other order"])
def test_kinds_of_tables(postgresql: Database, case: str) -> None:
    made = {
        **TABLES,
        "partitions": [
            "CREATE TABLE rows (key text, value bigint) PARTITION BY LIST (key)",
            "CREATE TABLE rows_a PARTITION OF rows FOR VALUES IN ('a')",
            "CREATE TABLE rows_b PARTITION OF rows DEFAULT",
        ],
        "trigger": [
            "CREATE TABLE rows (key text, value bigint)",
            "CREATE FUNCTION twice() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN IF new.key = 'gone' THEN RETURN NULL; END IF; RETURN new; END $$",
            "CREATE TRIGGER twice BEFORE INSERT ON rows FOR EACH ROW EXECUTE FUNCTION twice()",
        ],
        "identity": [
            "CREATE TABLE rows (id bigint GENERATED ALWAYS AS IDENTITY, key text,"
            " twice text GENERATED ALWAYS AS (key || key) STORED, value bigint)"
        ],
        "domain": ["CREATE DOMAIN short AS varchar(4)", "CREATE TABLE rows (key short, value smallint)"],
        "other order": ["CREATE TABLE rows (value numeric, gone int, key text)", "ALTER TABLE rows DROP COLUMN gone"],
    }
    for statement in made[case]:
        postgresql.run(statement)
    sink = worker_sink(Total, postgresql.sink("rows"))
    sink.publish(0, run_task(sink, [Total("a", 1), Total("gone", 3)], [Total("b", 2)]))
    expected = [("a", 1), ("b", 2)] + [("gone", 3)] * (case != "trigger")
    assert postgresql.run("SELECT key, value FROM rows ORDER BY key") == expected


def test_a_batch_that_the_table_refuses_leaves_nothing(postgresql: Database) -> None:
    check = "CONSTRAINT small CHECK (value < 100)"
    postgresql.run(f"CREATE TABLE totals (key VARCHAR(5) PRIMARY KEY, value INTEGER {check})")
    sink = worker_sink(Total, postgresql.sink("totals", "key"))
    for wrong in (Total("b", 200), Total("large", 2**40)):
        with pytest.raises(SinkError, match="the database refused a batch"):
            sink.publish(0, run_task(sink, [Total("fine", 1)], [wrong]))
        assert totals(postgresql) == {}
    for wrong, message in (
        (Total("a\0b", 2), "has NUL"),
        (Total("b", 2**63), "64 bits"),
        (Total("é     ", 2), "has 6 characters"),
    ):
        task = sink.task(0)
        with pytest.raises(InvalidArgumentError, match=message) as caught:
            written(task, [Total("fine", 1)], [wrong])
        assert "Total." in str(caught.value.where)
        task.close()
    sink.publish(0, run_task(sink, [Total("fine", 1)]))
    assert totals(postgresql) == {"fine": 1}


def role(database: Database, postgres: Path, *statements: str) -> Database:
    """The database as a user sees it who may use the tables that are there."""
    name = f"role_{database.schema}"
    for statement in (
        f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'",
        f"GRANT USAGE ON SCHEMA {database.schema} TO {name}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {database.schema} TO {name}",
        *(statement.format(name) for statement in statements),
    ):
        database.run(statement)
    return replace(database, url=f"postgresql://{name}:{quote(PASSWORD, safe='')}@/postgres?host={postgres}")


@pytest.mark.parametrize("limit", [False, True], ids=["no right to create", "no connection"])
def test_rows_that_cannot_be_staged_go_through_the_driver(
    postgresql: Database,
    postgres: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    *,
    limit: bool,
) -> None:
    monkeypatch.setattr(spark_writer, "_refusals", {})
    worker_sink(Total, postgresql.sink("totals", "key"))
    user = role(postgresql, postgres, *[f"GRANT CREATE ON SCHEMA {postgresql.schema} TO {{}}"] * limit)
    sink = worker_sink(Total, user.sink("totals", "key"))
    postgresql.run(f"ALTER ROLE role_{postgresql.schema} CONNECTION LIMIT {-1 + limit}")
    names = run_task(sink, [Total("a", 1)], [Total("b", 1)]) + run_task(sink, [Total("a", 2)], number=5)
    postgresql.run(f"ALTER ROLE role_{postgresql.schema} CONNECTION LIMIT -1")
    for batch in range(2):
        sink.publish(batch, names)
    assert totals(postgresql) == {"a": 2, "b": 1}
    assert caplog.text.count("go through the driver, since a worker: ") == 1
    assert ("too many connections" if limit else "permission denied for schema") in caplog.text
    assert PASSWORD not in caplog.text
    # A worker does not ask the server again for a while.
    monkeypatch.setattr("windrow_sql.database.staged_output.StagedOutput.parts", None)
    sink.publish(2, run_task(sink, [Total("c", 1)], batch=2))
    assert totals(postgresql)["c"] == 1


def test_a_table_that_the_search_path_names(postgresql: Database, postgres: Path) -> None:
    postgresql.run("CREATE TABLE totals (key text PRIMARY KEY, value bigint)")
    own = f"own_{postgresql.schema}"
    postgresql.run(f"CREATE SCHEMA {own}")
    user = role(
        postgresql,
        postgres,
        f"GRANT ALL ON SCHEMA {own} TO {{}}",
        f"ALTER ROLE {{}} SET search_path TO {own}, {postgresql.schema}",
    )
    sink = worker_sink(Total, DatabaseSink(user.url, "totals", key="key"))
    names = run_task(sink, [Total("a", 1)])
    assert staged_tables(replace(postgresql, schema=own)) != []
    sink.publish(0, names)
    assert totals(postgresql) == {"a": 1}
    run_task(sink, [Total("a", 1)], batch=1)
    worker_sink(Total, DatabaseSink(user.url, "totals", key="key"))
    assert staged_tables(replace(postgresql, schema=own)) == []


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_transactions_of_other_levels(postgresql: Database, isolation: str) -> None:
    url = f"{postgresql.url}&options=-cdefault_transaction_isolation={isolation.replace(' ', quote(chr(92) + ' '))}"
    sink = worker_sink(Total, replace(postgresql, url=url).sink("totals", "key"))
    for batch in range(2):
        sink.publish(batch, run_task(sink, [Total("a", batch)], [Total("b", 1)], batch=batch))
    assert totals(postgresql) == {"a": 1, "b": 1}


def test_the_sink_is_sent_without_its_connection(postgresql: Database) -> None:
    sink = worker_sink(Total, postgresql.sink("totals"))
    constructor, arguments = sink.__reduce__()
    copy = constructor(*arguments)
    copy.publish(0, run_task(copy, [Total("a", 1)]))
    assert totals(postgresql) == {"a": 1}


def test_the_driver_writes_what_workers_do_not(postgresql: Database, tmp_path: Path) -> None:
    for sink, by in (
        (postgresql.sink("totals"), WrittenBy.WORKERS),
        (postgresql.sink("totals", create=False), WrittenBy.OUTPUT),
        (DatabaseSink[Any](f"sqlite:///{tmp_path}/test.db", "totals"), WrittenBy.OUTPUT),
    ):
        pipeline = Pipeline("staged", from_source(CollectionSource([], Total)).sink_to(sink))
        assert spark_writer_of(pipeline.step_of(pipeline.sinks[0].node)).written_by is by


def test_what_the_driver_gets_of_a_part_is_small(postgresql: Database) -> None:
    sink = worker_sink(Everything, postgresql.sink("rows"))
    (name,) = run_task(sink, RECORDS * 10)
    assert len(name) < 200
    assert pickle.loads(name).rows == len(RECORDS) * 10
