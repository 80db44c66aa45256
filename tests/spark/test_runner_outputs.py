"""Databases and Delta tables on Spark: several sinks in one plan, failures between them, and batches run again."""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg
import pytest
from deltalake import DeltaTable

from tests.outputs.postgres import PASSWORD
from tests.spark.comparison import Event
from tests.support.files import forget_batch
from windrow import Pipeline, from_source
from windrow.errors import InvalidArgumentError, SinkError, UserFunctionError
from windrow.sinks import DatabaseSink, DeltaSink, FunctionSink, ParquetFileSink
from windrow.sources import CollectionSource, ParquetFileSource
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).name
EVENTS = [Event("abc"[number % 3], number * 10, number) for number in range(12)]
ROWS = [(event.key, event.at, event.value) for event in EVENTS]


class Outputs:
    """A folder with the outputs of one pipeline: files, two tables of a database, a Delta table."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.database = folder / "test.db"
        self.delta = folder / "delta"

    def pipeline(self) -> Pipeline:
        events = from_source(CollectionSource(EVENTS, Event, batch_size=4))
        url = f"sqlite:///{self.database}"
        return Pipeline(
            "outputs",
            events.sink_to(ParquetFileSink(self.files)),
            events.sink_to(DatabaseSink(url, "every")),
            events.sink_to(DatabaseSink(url, "latest", key="key")),
            events.sink_to(DeltaSink(self.delta)),
        )

    # Any: rows as SQLite gives them.
    def run(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as connection, connection:
            return sorted(connection.execute(statement).fetchall())

    def found(self) -> dict[str, list[tuple[str, int, int]]]:
        files = from_source(ParquetFileSource(self.files / "*.parquet", Event))
        copy = self.database.with_name("copy.db")
        copy.unlink(missing_ok=True)
        LocalRunner().run(Pipeline("copy", files.sink_to(DatabaseSink(f"sqlite:///{copy}", "files"))))
        with closing(sqlite3.connect(copy)) as connection:
            in_files = sorted(connection.execute("SELECT * FROM files").fetchall())
        delta = DeltaTable(self.delta).to_pyarrow_table().to_pydict()
        return {
            "files": in_files,
            "every": self.run("SELECT * FROM every"),
            "latest": self.run("SELECT * FROM latest"),
            "delta": sorted(zip(*delta.values(), strict=True)),
        }


def expected(count: int) -> list[tuple[str, int, int]]:
    return sorted(ROWS[:count])


#  batch        0      1: the second table of the database refuses it      1, by another run      2      2 again
def test_a_failure_between_the_sinks_doubles_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    outputs.run("CREATE TABLE latest (key TEXT PRIMARY KEY, at BIGINT, value BIGINT)")
    outputs.run(
        "CREATE TRIGGER refuse BEFORE INSERT ON latest WHEN NEW.value = 6 "
        "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    )
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(SinkError, match="the database refused a batch: the disk is full") as caught:
        SparkRunner(spark, checkpoint=checkpoint).run(outputs.pipeline(), drain=False)
    assert str(caught.value.given).startswith("batch 1 of 4 elements for database sqlite:///")
    assert f"{HERE}:" in str(caught.value.where)
    # The first table has the batch, the second one has not.
    assert outputs.run("SELECT * FROM every") == expected(8)
    assert outputs.run("SELECT * FROM latest") == expected(4)[1:]

    outputs.run("DROP TRIGGER refuse")
    SparkRunner(spark, checkpoint=checkpoint).run(outputs.pipeline(), drain=False)
    everything = {
        "files": expected(12), "every": expected(12), "latest": sorted(ROWS[-3:]), "delta": expected(12),
    }  # fmt: skip
    assert outputs.found() == everything

    forget_batch(checkpoint, 2)
    version = DeltaTable(outputs.delta).version()
    SparkRunner(spark, checkpoint=checkpoint).run(outputs.pipeline(), drain=False)
    assert outputs.found() == everything
    assert DeltaTable(outputs.delta).version() == version
    assert len(outputs.run("SELECT DISTINCT query_id FROM windrow_batches")) == 1


def test_postgresql_takes_a_batch_that_is_run_again_once(spark: SparkSession, postgres: Path, tmp_path: Path) -> None:
    url = f"postgresql://windrow:{quote(PASSWORD, safe='')}@/postgres?host={postgres}"
    events = from_source(CollectionSource(EVENTS, Event, batch_size=6))
    pipeline = Pipeline(
        "postgresql",
        events.sink_to(DatabaseSink(url, "runner_every")),
        events.sink_to(DatabaseSink(url, "runner_latest", key="key")),
    )
    runner = SparkRunner(spark, checkpoint=tmp_path)
    runner.run(pipeline, drain=False)
    forget_batch(tmp_path, 1)
    runner.run(pipeline, drain=False)
    with psycopg.connect(url) as connection:
        every = connection.execute("SELECT key, at, value FROM runner_every").fetchall()
        latest = connection.execute("SELECT key, at, value FROM runner_latest").fetchall()
        # Other tests write to the same server.
        newest = "SELECT query_id FROM windrow_batches ORDER BY written_at DESC LIMIT 1"
        noted = connection.execute(f"SELECT batch FROM windrow_batches WHERE query_id = ({newest})").fetchall()
    assert sorted(every) == expected(12)
    assert sorted(latest) == sorted(ROWS[-3:])
    assert noted == [(1,), (1,)]


def test_what_a_sink_raises_shows_no_secret_of_another(spark: SparkSession, tmp_path: Path) -> None:
    def refuse(batch: int, events: Sequence[Event]) -> None:
        raise ValueError("no login with swordfish")

    events = from_source(CollectionSource(EVENTS, Event))
    delta = DeltaSink[Event](tmp_path / "delta", storage_options={"token": "swordfish"})
    pipeline = Pipeline("secret", events.sink_to(delta), events.sink_to(FunctionSink(refuse)))
    with pytest.raises(UserFunctionError, match=r"ValueError: no login with \*{5}") as caught:
        SparkRunner(spark).run(pipeline)
    assert f"{HERE}:" in str(caught.value.where)
    text = "".join(traceback.format_exception(caught.value))
    # The line of the function is the user's to show.
    assert "swordfish" not in text.replace('raise ValueError("no login with swordfish")', "")
    assert "ValueError: no login with *****" in text


def test_a_sink_that_does_not_fit_is_refused_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    events = from_source(CollectionSource(EVENTS, Event))
    sink = DatabaseSink[Event](f"sqlite:///{tmp_path}/test.db", "events", key="kay")
    with pytest.raises(InvalidArgumentError, match="the key of the table names a field"):
        SparkRunner(spark).run(Pipeline("refused", events.sink_to(sink)))
    assert not (tmp_path / "test.db").exists()
