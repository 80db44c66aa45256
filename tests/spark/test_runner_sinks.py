"""Sinks on Spark: what is written, failures between several sinks, and what is written when a batch is run again."""

from __future__ import annotations

import shutil
import sqlite3
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
import psycopg
import pytest
from deltalake import DeltaTable

from tests.outputs.postgres import PASSWORD
from tests.spark.comparison import Event
from tests.spark.streams import tumbling
from tests.support.files import forget_batch
from tests.support.iceberg import iceberg_sink, table_in
from windrow import DataStream, Pipeline, from_source
from windrow.errors import InvalidArgumentError, SinkError, UserFunctionError
from windrow.sinks import (
    CollectSink,
    ConsoleSink,
    DatabaseSink,
    DeltaSink,
    FunctionSink,
    JsonFileSink,
    ParquetFileSink,
    WriterSink,
)
from windrow.sources import CollectionSource, JsonFileSource, ParquetFileSource
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_spark.faults import RemoteError
from windrow_spark.session import is_connect
from windrow_spark.sinks.batch_writer import BatchWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
HERE = Path(__file__).name


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Position(NamedTuple):
    x: float
    y: float | None


class Tagged(msgspec.Struct, frozen=True):
    tag: str
    weights: dict[str, int]


@dataclass(frozen=True)
class Report:
    """A record with parts of every kind."""

    key: str
    at: datetime
    count: int
    mean: float | None
    position: Position
    tags: list[Tagged]
    raw: bytes
    price: Decimal
    maybe: Position | None = None


@dataclass(frozen=True)
class Route:
    """A record with a tuple, for which JSON as Spark writes it has no form of its own."""

    count: int
    stops: tuple[int, str]


def report(event: Event) -> Report:
    odd = event.value % 2 == 1
    return Report(
        key=event.key,
        at=datetime(1969, 12, 31, 23, 59, 59, 999_000 + event.value, tzinfo=UTC),
        count=event.value,
        mean=event.value / 3 if odd else None,
        position=Position(event.value / 7, None if odd else -1.0),
        tags=[Tagged(f"é {number}", {"w": number}) for number in range(event.value % 3)],
        raw=bytes([event.value, 255]),
        price=Decimal(event.value) / 4,
        maybe=Position(1.0, 2.0) if odd else None,
    )


def events(count: int = 24) -> DataStream[Event]:
    elements = [Event("abc"[number % 3], number * 10, number) for number in range(count)]
    return from_source(CollectionSource(elements, Event, batch_size=8))


def read_back(stream: DataStream[T]) -> list[T]:
    sink = CollectSink[T]()
    return LocalRunner().run(Pipeline("read back", stream.sink_to(sink))).collected(sink)


def read_json(folder: Path) -> list[Report]:
    return read_back(from_source(JsonFileSource(folder / "*.json", Report)))


def read_parquet(folder: Path) -> list[Report]:
    return read_back(from_source(ParquetFileSource(folder / "*.parquet", Report)))


def route(event: Event) -> Route:
    return Route(event.value, (event.value, event.key))


def batches(folder: Path) -> list[str]:
    """The batches that have files, and other names that are not hidden."""
    names = (entry.name for entry in folder.iterdir() if not entry.name.startswith(("_", ".")))
    return sorted({name.partition("-part-")[0] for name in names})


def count_of(record: Report) -> int:
    return record.count


def test_files_hold_what_the_interpreter_writes_and_stay_where_a_batch_is_run_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = events().map(report)
    noted = tmp_path / "noted"

    # A file, because over Spark Connect the function runs in another process.
    def note(batch: int, records: Sequence[Report]) -> None:
        with noted.open("a") as lines:
            lines.write(f"{batch} {[record.count for record in records]}\n")

    collect = CollectSink[Report]()
    pipeline = Pipeline(
        "sinks",
        reports.sink_to(JsonFileSink(tmp_path / "json")),
        reports.sink_to(ParquetFileSink(tmp_path / "parquet")),
        reports.filter(lambda record: record.count < 8).sink_to(ParquetFileSink(tmp_path / "first")),
        reports.sink_to(FunctionSink(note)),
        reports.sink_to(collect),
        events().map(route).sink_to(ParquetFileSink(tmp_path / "routes")),
        events(9).map(lambda event: event.value).sink_to(ConsoleSink("> ")),
    )
    expected = [report(event) for event in read_back(events())]
    checkpoint = tmp_path / "checkpoint"
    result = SparkRunner(spark, checkpoint=checkpoint).run(pipeline, drain=False)
    assert result.collected(collect) == expected
    # Over Spark Connect the server shows the lines.
    assert capsys.readouterr().out == "".join(f"> {number}\n" for number in range(9)) or is_connect(spark)
    taken = [f"{batch} {[*range(8 * batch, 8 * batch + 8)]}" for batch in range(3)]
    assert noted.read_text().splitlines() == taken
    assert sorted(read_json(tmp_path / "json"), key=count_of) == expected
    assert sorted(read_parquet(tmp_path / "parquet"), key=count_of) == expected
    assert sorted(read_parquet(tmp_path / "first"), key=count_of) == expected[:8]
    routes = read_back(from_source(ParquetFileSource(tmp_path / "routes" / "*.parquet", Route)))
    assert {route.count: route.stops for route in routes} == {n: (n, "abc"[n % 3]) for n in range(24)}
    assert batches(tmp_path / "json") == batches(tmp_path / "parquet") == ["batch-0", "batch-1", "batch-2"]
    assert batches(tmp_path / "first") == ["batch-0"]

    forget_batch(checkpoint, 2)
    files = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("batch-*-part-*")}
    again = SparkRunner(spark, checkpoint=checkpoint).run(pipeline, drain=False)
    assert again.collected(collect) == expected[16:]
    assert noted.read_text().splitlines() == [*taken, taken[2]]
    assert sorted(read_json(tmp_path / "json"), key=count_of) == expected
    assert sorted(read_parquet(tmp_path / "parquet"), key=count_of) == expected
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("batch-*-part-*")} == files

    local = Pipeline(
        "local",
        reports.sink_to(JsonFileSink(tmp_path / "local json")),
        reports.sink_to(ParquetFileSink(tmp_path / "local parquet")),
    )
    LocalRunner().run(local)
    assert read_json(tmp_path / "local json") == read_parquet(tmp_path / "local parquet") == expected


def totals(stream: DataStream[Event]) -> DataStream[Event]:
    return tumbling(stream, 60).reduce(total)


def by_time(event: Event) -> tuple[int, str]:
    return event.at, event.key


#  batch      0: 0 ... 70     1: 80 ... 150     2: the end of the stream
#  fire                       0-60              60-120, 120-180
def test_the_last_keyed_step_writes_files_itself(spark: SparkSession, tmp_path: Path) -> None:
    windows = totals(events(16))
    pairs = windows.key_by(lambda event: event.key).count_window(2).reduce(total)
    first = windows.filter(lambda event: event.at < 60)
    collect = CollectSink[Event]()

    def files(name: str) -> list[Event]:
        stream = from_source(ParquetFileSource(tmp_path / name / "*.parquet", Event))
        return sorted(read_back(stream), key=by_time)

    def expected(stream: DataStream[Event]) -> list[Event]:
        return sorted(read_back(stream), key=by_time)

    # Rows of the source and of the first level pass the second one; those of all sinks are written there.
    pipeline = Pipeline(
        "levels",
        windows.sink_to(ParquetFileSink(tmp_path / "windows")),
        first.sink_to(ParquetFileSink(tmp_path / "first")),
        events(16).sink_to(ParquetFileSink(tmp_path / "events")),
        pairs.sink_to(ParquetFileSink(tmp_path / "pairs")),
        pairs.sink_to(collect),
        windows.sink_to(JsonFileSink(tmp_path / "json")),
    )
    checkpoint = tmp_path / "checkpoint"
    result = SparkRunner(spark, checkpoint=checkpoint).run(pipeline)
    assert sorted(result.collected(collect), key=by_time) == expected(pairs) == files("pairs")
    assert files("windows") == expected(windows)
    assert files("first") == expected(first)
    assert files("events") == expected(events(16))
    json = read_back(from_source(JsonFileSource(tmp_path / "json" / "*.json", Event)))
    assert sorted(json, key=by_time) == expected(windows)
    assert len(batches(tmp_path / "first")) == 1
    # One part for each of two partitions, however many groups of keys there are.
    parts = Counter(file.name.partition("-part-")[0] for file in (tmp_path / "windows").glob("batch-*"))
    assert set(parts.values()) <= {1, 2}


def test_files_that_the_last_keyed_step_cannot_write(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(SinkError, match="cannot be written") as unwritable:
        SparkRunner(spark).run(Pipeline("file", totals(events()).sink_to(ParquetFileSink(tmp_path / "out"))))
    assert f"{HERE}:" in str(unwritable.value.where)
    assert str(tmp_path / "out") in str(unwritable.value)

    lies = totals(events()).map(lie)
    with pytest.raises(InvalidArgumentError, match="does not fit its type") as caught:
        SparkRunner(spark).run(Pipeline("lies", lies.sink_to(ParquetFileSink(tmp_path / "lies"))))
    assert str(caught.value.where).startswith("lies.")
    assert f"sink, {__file__}:" in str(caught.value.where)


@dataclass(frozen=True)
class Numbered:
    batch: int


def test_the_folder_of_a_sink_is_for_one_run(spark: SparkSession, tmp_path: Path) -> None:
    rows = [Numbered(100), Numbered(101), Numbered(102), Numbered(103)]

    def pipeline(size: int, *, overwrite: bool = False) -> Pipeline:
        stream = from_source(CollectionSource(rows[:size], batch_size=2))
        return Pipeline(
            "files",
            stream.sink_to(JsonFileSink(tmp_path / "json", overwrite=overwrite)),
            stream.sink_to(ParquetFileSink(tmp_path / "parquet", overwrite=overwrite)),
        )

    def plain(kind: str, below: str = "", **options: str) -> list[int]:
        frame = spark.read.options(**options).format(kind).load(f"{tmp_path}/{kind}{below}")
        return sorted(row["batch"] for row in frame.collect())

    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    runner.run(pipeline(4), drain=False)
    runner.run(pipeline(4, overwrite=True), drain=False)  # goes on, so that nothing is overwritten
    numbers = [row.batch for row in rows]
    for kind in ("json", "parquet"):
        assert batches(tmp_path / kind) == ["batch-0", "batch-1"]
        # No folder reads like a value of the field.
        assert plain(kind) == plain(kind, recursiveFileLookup="true") == numbers
        assert plain(kind, f"/*.{kind}") == plain(kind, "/batch-*") == numbers

    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*") if "checkpoint" not in str(file)}
    other = SparkRunner(spark)
    for run in (other.run, other.run_batch, LocalRunner().run):
        with pytest.raises(SinkError, match=rf"batches of another run(.|\n)*{HERE}:\d+(.|\n)*overwrite=True"):
            run(pipeline(2))
    assert before == {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*") if "checkpoint" not in str(file)}
    (tmp_path / "json" / "mine").mkdir()
    other.run_batch(pipeline(2, overwrite=True))
    assert batches(tmp_path / "json") == ["batch-0", "mine"]
    assert plain("json", "/batch-*") == [100, 101]
    with pytest.raises(SinkError, match="earlier batches of this checkpoint are not there"):
        runner.run(pipeline(4, overwrite=True))


@pytest.mark.classic(reason="takes the folder in this process, where no batch of a server is written")
def test_a_folder_that_was_taken_while_a_batch_was_computed_stays_as_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the file system has no locks."""
    numbers = from_source(CollectionSource([1, 2]))
    rows = from_source(CollectionSource([Numbered(1)]))
    compute = BatchWriter._write_driver_sinks

    def taken(*given: Any) -> Any:
        result = compute(*given)
        (tmp_path / "sink" / "_windrow" / "another").touch()
        (tmp_path / "sink" / "theirs").mkdir()
        return result

    monkeypatch.setattr(BatchWriter, "_write_driver_sinks", taken)
    sink = JsonFileSink[Any](tmp_path / "sink")
    for end, run in (
        (numbers.sink_to(sink), SparkRunner(spark).run),
        (rows.sink_to(sink), SparkRunner(spark).run_batch),
    ):
        with pytest.raises(SinkError, match=rf"another run has taken the folder(.|\n)*{HERE}:\d+"):
            run(Pipeline("files", end))
        assert batches(tmp_path / "sink") == ["theirs"]
        shutil.rmtree(tmp_path / "sink")


def test_paths_with_a_scheme(spark: SparkSession, tmp_path: Path) -> None:
    # A file system of Spark's that is not mounted, as far as windrow can see.
    (tmp_path / "elsewhere").mkdir()
    spark.conf.set("fs.viewfs.mounttable.test.link./out", f"file://{tmp_path}/elsewhere")
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")

    def pipeline(keep: bool) -> Pipeline:
        found = events(8).map(report).filter(lambda record: keep)
        return Pipeline(
            "schemes",
            found.sink_to(JsonFileSink(f"file://{tmp_path}/json")),
            found.sink_to(ParquetFileSink(f"file:{tmp_path}/parquet")),
            found.sink_to(JsonFileSink("viewfs://test/out")),
        )

    def lines(name: str) -> int:
        files = [*(tmp_path / name).glob("batch-0-part-*.json"), *(tmp_path / name).glob("windrow_batch=0/part-*.txt")]
        return sum(len(file.read_text().splitlines()) for file in files)

    runner.run(pipeline(keep=True), drain=False)
    assert (lines("json"), lines("elsewhere")) == (8, 8)
    with pytest.raises(SinkError, match=r"batches of another run(.|\n)*viewfs://test/out"):
        SparkRunner(spark).run(Pipeline("again", events(8).sink_to(JsonFileSink("viewfs://test/out"))))
    assert len(read_parquet(tmp_path / "parquet")) == 8
    # What lies aside while a batch is written or replaced is nothing to Spark.
    (tmp_path / "json" / "_batch-1").mkdir()
    for file in (tmp_path / "json").glob("batch-0-*"):
        shutil.copy(file, tmp_path / "json" / "_batch-1")
    plain = spark.read.option("recursiveFileLookup", "true")
    assert plain.json(str(tmp_path / "json")).count() == 8
    shutil.rmtree(tmp_path / "json" / "_batch-1")

    def run_again() -> None:
        forget_batch(tmp_path / "checkpoint", 0)
        runner.run(pipeline(keep=False), drain=False)

    if not is_connect(spark):
        # A batch that is there is not written again.
        run_again()
        assert lines("elsewhere") == 8
        # As where an earlier version was killed while it wrote the batch.
        (tmp_path / "elsewhere" / "_windrow" / "batch-0").unlink()
    run_again()
    spark.conf.unset("fs.viewfs.mounttable.test.link./out")
    assert batches(tmp_path / "json") == batches(tmp_path / "parquet") == ["batch-0"]
    left = [file.name for file in (tmp_path / "elsewhere").rglob("*") if file.is_file() and "crc" not in file.name]
    assert left == [] or is_connect(spark)
    assert lines("elsewhere") == 0


def total(a: Event, b: Event) -> Event:
    return Event(a.key, a.at, a.value + b.value)


def test_a_writer_of_sparks_own(spark: SparkSession, tmp_path: Path) -> None:
    windows = totals(events(8))
    out = tmp_path / "out"

    # Any: a DataFrame and its writer.
    def write(frame: Any) -> Any:
        return frame.writeStream.format("parquet").option("path", str(out))

    SparkRunner(spark).run(Pipeline("writer", windows.sink_to(WriterSink(write))))
    found = read_back(from_source(ParquetFileSource(out / "*.parquet", Event)))
    assert sorted(found, key=by_time) == sorted(read_back(windows), key=by_time)


def lie(event: Event) -> int:
    result: Any = f"no. {event.value}"
    return result  # type: ignore[no-any-return]  # that this is an int is the lie


def fail(batch: int, elements: Sequence[Event]) -> None:
    if batch == 1:
        raise OSError(f"the disk is full: {len(elements)}")


def test_a_function_that_cannot_write(spark: SparkSession) -> None:
    with pytest.raises(UserFunctionError) as raised:
        SparkRunner(spark).run(Pipeline("full", events().sink_to(FunctionSink(fail))))
    assert "OSError: the disk is full: 8" in raised.value.message
    assert str(raised.value.given).startswith("batch 1 of 8 elements, beginning with ")
    assert f"full.2.sink, {__file__}:" in str(raised.value.where)
    # Over Spark Connect it was raised in another process, and shows where.
    cause = raised.value.__cause__
    assert isinstance(cause, OSError) or (isinstance(cause, RemoteError) and "in fail" in str(cause))


EVENTS = [Event("abc"[number % 3], number * 10, number) for number in range(12)]
ROWS = [(event.key, event.at, event.value) for event in EVENTS]


class Outputs:
    """A folder with the outputs of one pipeline: files, two tables of a database, a Delta table and one of Iceberg."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.database = folder / "test.db"
        self.delta = folder / "delta"
        self.iceberg = folder / "iceberg"
        self.iceberg.mkdir()

    def pipeline(self) -> Pipeline:
        events = from_source(CollectionSource(EVENTS, Event, batch_size=4))
        url = f"sqlite:///{self.database}"
        return Pipeline(
            "outputs",
            events.sink_to(ParquetFileSink(self.files)),
            events.sink_to(DatabaseSink(url, "every")),
            events.sink_to(DatabaseSink(url, "latest", key="key")),
            events.sink_to(DeltaSink(self.delta)),
            events.sink_to(iceberg_sink(self.iceberg)),
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
        iceberg = table_in(self.iceberg).scan().to_arrow().to_pydict()
        return {
            "files": in_files,
            "every": self.run("SELECT * FROM every"),
            "latest": self.run("SELECT * FROM latest"),
            "delta": sorted(zip(*delta.values(), strict=True)),
            "iceberg": sorted(zip(*iceberg.values(), strict=True)),
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
        "iceberg": expected(12),
    }  # fmt: skip
    assert outputs.found() == everything

    forget_batch(checkpoint, 2)
    version, snapshots = DeltaTable(outputs.delta).version(), len(table_in(outputs.iceberg).snapshots())
    SparkRunner(spark, checkpoint=checkpoint).run(outputs.pipeline(), drain=False)
    assert outputs.found() == everything
    assert DeltaTable(outputs.delta).version() == version
    assert len(table_in(outputs.iceberg).snapshots()) == snapshots
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
