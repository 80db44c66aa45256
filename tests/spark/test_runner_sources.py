"""Sources on Spark: files, DataFrames and the rate source, and records that do not fit."""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.comparison import Outputs, Seen, millis
from tests.spark.streams import stamped, tumbling
from tests.support.thorough import thorough
from windrow import OutputTag, Pipeline, from_collection, from_source
from windrow import aggregates as agg
from windrow.errors import MalformedRecordError, SourceError, UnsupportedOperationError, WindrowError
from windrow.sinks import CollectSink
from windrow.sources import (
    CollectionSource,
    CsvFileSource,
    DataFrameSource,
    FileSource,
    JsonFileSource,
    MalformedRecord,
    ParquetFileSource,
    RateRecord,
    RateSource,
)
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGIN = datetime(1969, 12, 31, 23, 59, 59, 900_000, tzinfo=UTC)
HERE = Path(__file__).name


@dataclass(frozen=True)
class Reading:
    key: str
    at: datetime
    celsius: float
    note: str | None


Write = Callable[[Path, Sequence[dict[str, Any]]], None]  # Any: some records are not what they should be


def write_json(file: Path, records: Sequence[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(record, default=str) + "\n" for record in records))


def write_csv(file: Path, records: Sequence[dict[str, Any]]) -> None:
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, list(records[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(records)


def write_parquet(file: Path, records: Sequence[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(list(records)), file)


FORMATS: dict[str, tuple[Write, Callable[..., FileSource[Reading]]]] = {
    "json": (write_json, JsonFileSource),
    "csv": (write_csv, lambda *given, **options: CsvFileSource(*given, delimiter=";", **options)),
    "parquet": (write_parquet, ParquetFileSource),
}


def readings(count: int) -> list[dict[str, Any]]:
    return [
        asdict(
            Reading(
                "abc"[number % 3],
                BEGIN + millis(number * 30 % 700),
                number / 4,
                f"no. {number};\n" if number % 4 else None,
            )
        )
        for number in range(count)
    ]


def write_files(folder: Path, write: Write, batches: Sequence[Sequence[dict[str, Any]]], first: int = 0) -> Path:
    """A file for each batch; the later a batch, the newer its file, whatever the names."""
    folder.mkdir(exist_ok=True)
    for number, batch in enumerate(batches, start=first):
        file = folder / f"part-{9 - number}.data"
        write(file, batch)
        os.utime(file, (1_600_000_000 + number,) * 2)
    return folder


def split(records: Sequence[dict[str, Any]], size: int) -> list[Sequence[dict[str, Any]]]:
    return [records[start : start + size] for start in range(0, len(records), size)]


FOLDERS = ("", "celsius=7", "value=7/length=9", "key=x/day=1", "batch-0", "plain")
"""By itself Spark takes celsius=7 for a column, and value=7 for the text of lines."""


def test_files_of_every_format(spark: SparkSession, tmp_path: Path) -> None:
    outputs = Outputs()
    below: dict[str, CollectSink[Reading]] = {}
    ends = []
    tag = OutputTag("bad", MalformedRecord)
    for name, (write, source) in FORMATS.items():
        folder = write_files(tmp_path / name, write, split(readings(30), 15))
        stream = from_source(source(folder, Reading, files_per_batch=1))
        outputs.add(f"all of {name}", stream)
        outputs.add(f"windows of {name}", tumbling(stream, 200, behind=100).process(Seen()))

        folder = write_files(tmp_path / f"bad {name}", write, [bad_records(name), readings(3)])
        dropped = from_source(source(folder, Reading, on_malformed="drop"), name=f"{name} drop")
        routed = from_source(source(folder, Reading, on_malformed=tag), name=f"{name} route")
        outputs.add(f"left of {name}", dropped, key=None)
        outputs.add(f"routed {name}", routed, key=None)
        outputs.add(f"bad {name}", routed.get_side_output(tag), key=lambda _: name)

        # Fields of files win over the names of folders.
        folder = tmp_path / f"below {name}"
        for number, place in enumerate(FOLDERS):
            (folder / place).mkdir(parents=True, exist_ok=True)
            write_files(folder / place, write, [readings(12)[2 * number : 2 * number + 2]])
        stream = from_source(source(folder, Reading), name=f"{name} below")
        outputs.add(f"below {name}", stream, key=None)
        below[name] = CollectSink(name)
        ends.append(stream.sink_to(below[name]))
    pipeline = outputs.pipeline("files")
    expected, counters = outputs.expected(pipeline)
    result = SparkRunner(spark, partitions=1).run(pipeline)
    assert outputs.of(result) == expected
    assert result.counters == counters
    assert sum(map(len, expected["all of csv"].values())) == 30
    whole = sorted((Reading(**record) for record in readings(12)), key=repr)
    as_batch = SparkRunner(spark, columnar=False).run_batch(Pipeline("below", *ends))
    for name, sink in below.items():
        assert expected[f"below {name}"] == {None: whole}, name
        assert sorted(as_batch.collected(sink), key=repr) == whole, name
    malformed = {step: counts for step, counts in counters.items() if "records_malformed" in counts}
    assert malformed == {
        step.id: {"records_malformed": 3 if "json" in step.id else 2}
        for step in pipeline.steps
        if step.id.endswith((" drop", " route"))
    }


def test_a_file_that_is_much_older_than_those_before_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    # As one is that was copied with its time, into a folder that has been read for some time.
    folder = write_files(tmp_path / "in", write_json, [readings(3)])
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)

    def run() -> int:
        sink = CollectSink[Reading]()
        pipeline = Pipeline("older", from_source(JsonFileSource(folder, Reading)).sink_to(sink))
        return len(runner.run(pipeline, drain=False).collected(sink))

    assert run() == 3
    write_json(folder / "older.data", readings(2))
    os.utime(folder / "older.data", (1, 1))
    assert run() == 2
    assert run() == 0


def bad_records(name: str) -> list[dict[str, Any]]:
    """One that fits between three that do not: null where a value must be, a wrong type, a field that is missing."""
    good = readings(2)
    null = {**good[0], "key": None}
    if name == "parquet":
        return [good[1], null, null]
    return [{**good[0], "celsius": "warm"}, good[1], null, {**good[0], "at": "yesterday"}]


@pytest.mark.parametrize("name", ["parquet", "csv"])  # test_runner_faults.py has JSON
def test_a_malformed_record_fails_the_run(spark: SparkSession, tmp_path: Path, name: str) -> None:
    write, source = FORMATS[name]
    folder = write_files(tmp_path / name, write, [bad_records(name)])
    stream = from_source(source(folder, Reading))
    pipeline = Pipeline("failing", stream.sink_to(CollectSink[Reading]()))
    with pytest.raises(MalformedRecordError) as expected:
        LocalRunner().run(pipeline)
    with pytest.raises(MalformedRecordError) as caught:
        SparkRunner(spark).run_batch(pipeline)
    assert str(caught.value) == str(expected.value)
    where = str(caught.value.where)
    assert where.startswith("failing.1.source, ")
    assert f"{HERE}:" in where
    assert f"{folder}/part-9.data" in where
    assert len(str(caught.value).splitlines()) <= 5


@pytest.mark.parametrize("case", [thorough("wrong type", reason="a file below has one"), "missing column"])
def test_columns_of_files_that_do_not_fit(spark: SparkSession, tmp_path: Path, case: str) -> None:
    records = readings(2)
    for record in records:
        if case == "wrong type":
            record["celsius"] = "warm"
        else:
            del record["celsius"]
    folder = write_files(tmp_path / "in", write_parquet, [records])
    pipeline = Pipeline("columns", from_source(ParquetFileSource(folder, Reading)).sink_to(CollectSink[Reading]()))
    with pytest.raises(SourceError) as expected:
        LocalRunner().run(pipeline)
    with pytest.raises(SourceError) as caught:
        SparkRunner(spark).run(pipeline)
    assert caught.value.message.startswith("the columns do not fit Reading\n  - Reading.celsius: ")
    assert expected.value.message.startswith("the columns do not fit Reading\n  - Reading.celsius: ")
    assert str(caught.value.where).startswith("columns.1.source, ")


def test_a_file_that_comes_later_and_does_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    records = readings(2)
    folder = write_files(tmp_path / "in", write_parquet, [[{**records[0], "celsius": "warm"}], records])
    pipeline = Pipeline("later", from_source(ParquetFileSource(folder, Reading)).sink_to(CollectSink[Reading]()))
    with pytest.raises(SourceError) as caught:
        SparkRunner(spark).run(pipeline)
    assert "celsius" in str(caught.value)
    assert "part-9.data" in str(caught.value.where)
    assert caught.value.hint is not None
    assert len(str(caught.value).splitlines()) <= 6


def test_what_cannot_be_read_is_refused_before_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    missing = from_source(JsonFileSource(tmp_path / "missing", Reading))
    with pytest.raises(SourceError, match=r"path does not exist(.|\n)*missing(.|\n)*test_runner_sources.py:\d+"):
        SparkRunner(spark).run(Pipeline("missing", missing.sink_to(CollectSink[Reading]())))
    frame = spark.createDataFrame([("a", 1.5, 3)], "key string, celsius double, note int")
    wrong = from_source(DataFrameSource(frame, Reading))
    with pytest.raises(SourceError, match=r"do not fit(.|\n)*at(.|\n)*note(.|\n)*test_runner_sources.py:\d+"):
        SparkRunner(spark).run(Pipeline("wrong", wrong.sink_to(CollectSink[Reading]())))
    rate = from_source(RateSource()).sink_to(CollectSink[RateRecord]())
    with pytest.raises(UnsupportedOperationError, match="cannot be drained"):
        SparkRunner(spark).run(Pipeline("rate", rate))
    with pytest.raises(WindrowError, match="needs a checkpoint"):
        SparkRunner(spark).start(Pipeline("rate", rate))


def test_data_frames(spark: SparkSession, tmp_path: Path) -> None:
    rows = [Reading(**record) for record in readings(20)]
    static = spark.createDataFrame(
        [(row.celsius, row.key, row.at, row.note, "more") for row in rows],
        "celsius double, key string, at timestamp, note string, other string",
    )
    folder = write_files(tmp_path / "in", write_json, [readings(20)])
    streaming: DataFrame = spark.readStream.schema("key string, at timestamp, celsius double, note string").json(
        str(folder)
    )
    outputs = Outputs()
    collection = from_collection(rows)
    for name, stream in {
        "static": from_source(DataFrameSource(static, Reading)),
        "streaming": from_source(DataFrameSource(streaming, Reading)),
        "collection": collection,
    }.items():
        windows = tumbling(stream, 200, behind=3_600_000)
        outputs.add(
            name, windows.apply(lambda key, window, found: [(key, window.start, sorted(e.celsius for e in found))])
        )
    pipeline = outputs.pipeline("frames")
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)
    result = outputs.of(runner.run(pipeline, drain=False))
    # A streaming DataFrame may go on. The others are at their end, which is the end of time for what follows them.
    assert result["streaming"] == {}
    assert result["static"] == result["collection"] != {}


def test_the_rate_source_runs_until_it_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    sink = CollectSink[RateRecord]()
    stream = stamped(from_source(RateSource(50)), at=lambda record: record.timestamp)
    largest = stream.key_by(lambda record: record.value % 2).count_window(2).reduce(max)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)
    running = runner.start(Pipeline("rate", largest.sink_to(sink)))
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            running.await_termination(0.2)
            if any(progress["numInputRows"] for progress in running.streaming_query.recentProgress):
                break
        assert running.is_active
    finally:
        result = running.stop()
    assert not running.is_active
    values = [record.value for record in result.collected(sink)]
    assert values
    for parity in (0, 1):
        of_parity = [value for value in values if value % 2 == parity]
        assert of_parity == list(range(parity + 2, 4 * len(of_parity) + parity, 4))


def test_a_link_that_leads_out_of_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in here%20", write_parquet, [readings(3)])
    elsewhere = write_files(tmp_path / "elsewhere", write_parquet, [readings(2)])
    sink = CollectSink[Reading]()
    pipeline = Pipeline("links", from_source(ParquetFileSource(folder, Reading)).sink_to(sink))
    (folder / "inside.data").symlink_to(folder / "part-9.data")
    assert len(SparkRunner(spark).run(pipeline).collected(sink)) == 6
    (folder / "outside.data").symlink_to(elsewhere / "part-9.data")
    with pytest.raises(SourceError, match="a link leads out of the path") as caught:
        SparkRunner(spark).run(pipeline)
    assert f"{folder}/outside.data -> {elsewhere}/part-9.data" == caught.value.given
    assert f"links.1.source, {__file__}:" in str(caught.value.where)


TEXTS = {
    JsonFileSource: '{"sensor": "a", "celsius": 1}\n\n{"sensor": "b"}\n{"sensor": "c", "celsius": 3}\n',
    CsvFileSource: 'sensor,celsius\n"a\nb",1\n\nb,\nc,3\n',
}


class Sample(NamedTuple):
    sensor: str
    celsius: int


def test_spark_reports_how_many_records_each_source_has_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "columns").mkdir()
    for number in range(2):
        table = pa.table({"sensor": ["a", "b", None], "celsius": [1, 2, 3]})
        pq.write_table(table, tmp_path / "columns" / f"{number}.parquet")
    read_columns = from_source(ParquetFileSource(tmp_path / "columns", Sample, on_malformed="drop"), name="columns")
    columns = stamped(read_columns, at=lambda reading: reading.celsius)
    windows = columns.key_by(lambda reading: reading.sensor).window(TumblingEventTimeWindows.of(millis(10)))
    ends = [windows.aggregate(agg.count(), name="windows").sink_to(CollectSink())]
    for kind, text in TEXTS.items():
        file = tmp_path / kind.__name__ / "1"
        file.parent.mkdir()
        file.write_text(text)
        stream = from_source(kind(str(file.parent), Sample, on_malformed="drop"), name=kind.__name__)
        # Nothing is passed on, and it counts all the same; a line without anything is no record.
        ends.append(stream.filter(lambda reading: reading.celsius > 3).sink_to(CollectSink()))
    one = from_source(CollectionSource(list(range(5)), int, batch_size=3), name="one")
    other = from_collection(list(range(2)), name="other")
    counts = one.union(other).key_by(lambda number: number % 2).count_window(1).aggregate(agg.count())
    pipeline = Pipeline("read", *ends, counts.sink_to(CollectSink()))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)
    assert "runs as columns" in pipeline.explain(runner)

    running = runner.start(pipeline)
    running.process_available()
    read: dict[str, list[int]] = {}
    for progress in running.streaming_query.recentProgress:
        if progress.numInputRows:
            for name, row in progress.observedMetrics.items():
                read.setdefault(name.rpartition(".")[2], []).append(row["records_read"])
    running.stop()
    assert read == {
        "columns": [6, 0],
        "JsonFileSource": [3, 0],
        "CsvFileSource": [3, 0],
        "one": [3, 2],
        "other": [2, 0],
    }
