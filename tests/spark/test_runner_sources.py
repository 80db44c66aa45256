"""Sources on Spark: files, DataFrames and the rate source, and records that do not fit."""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.comparison import Outputs, Seen, millis
from tests.support.thorough import thorough
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import MalformedRecordError, SourceError, UnsupportedOperationError, WindrowError
from windrow.sinks import CollectSink
from windrow.sources import (
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


LINES = ("json", "csv")


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


def test_files_of_every_format(spark: SparkSession, tmp_path: Path) -> None:
    outputs = Outputs()
    for name, (write, source) in FORMATS.items():
        folder = write_files(tmp_path / name, write, split(readings(30), 10))
        stream = from_source(source(folder, Reading, files_per_batch=1))
        outputs.add(f"all of {name}", stream)
        timed = stream.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(millis(100)), timestamp=lambda reading: reading.at
        )
        windows = timed.key_by(lambda reading: reading.key).window(TumblingEventTimeWindows.of(millis(200)))
        outputs.add(f"windows of {name}", windows.process(Seen()))
    pipeline = outputs.pipeline("files")
    expected, counters = outputs.expected(pipeline)
    assert sum(map(len, expected["all of csv"].values())) == 30
    result = SparkRunner(spark).run(pipeline)
    assert outputs.of(result) == expected
    assert result.counters == counters


def test_a_file_that_is_much_older_than_those_before_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    # As one is that was copied with its time, into a folder that has been read for some time.
    folder = write_files(tmp_path / "in", write_json, [readings(3)])
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")

    def run() -> int:
        sink = CollectSink[Reading]()
        pipeline = Pipeline("older", from_source(JsonFileSource(folder, Reading)).sink_to(sink))
        return len(runner.run(pipeline, drain=False).collected(sink))

    assert run() == 3
    write_json(folder / "older.data", readings(2))
    os.utime(folder / "older.data", (1, 1))
    assert run() == 2
    assert run() == 0


def test_fields_of_files_win_over_the_names_of_folders(spark: SparkSession, tmp_path: Path) -> None:
    # By itself Spark takes celsius=7 for a column, and value=7 for the text of the lines below.
    sinks: dict[str, CollectSink[Reading]] = {}
    ends = []
    for name, (write, source) in FORMATS.items():
        folder = tmp_path / name
        for number, below in enumerate(("", "celsius=7", "value=7/length=9", "key=x/day=1", "batch-0", "plain")):
            (folder / below).mkdir(parents=True, exist_ok=True)
            write_files(folder / below, write, [readings(12)[2 * number : 2 * number + 2]])
        sinks[name] = CollectSink(name)
        ends.append(from_source(source(folder, Reading), name=name).sink_to(sinks[name]))
    pipeline = Pipeline("below", *ends)
    expected = [Reading(**record) for record in readings(12)]
    for result in (
        LocalRunner().run(pipeline),
        SparkRunner(spark).run(pipeline),
        SparkRunner(spark, columnar=False).run_batch(pipeline),
    ):
        for name, sink in sinks.items():
            found = sorted(result.collected(sink), key=lambda reading: reading.celsius)
            assert found == expected, name


def bad_records(name: str) -> list[dict[str, Any]]:
    """One that fits between three that do not: null where a value must be, a wrong type, a field that is missing."""
    good = readings(2)
    null = {**good[0], "key": None}
    if name == "parquet":
        return [good[1], null, null]
    return [{**good[0], "celsius": "warm"}, good[1], null, {**good[0], "at": "yesterday"}]


def test_malformed_records_are_dropped_or_routed(spark: SparkSession, tmp_path: Path) -> None:
    outputs = Outputs()
    bad: dict[str, CollectSink[MalformedRecord]] = {}
    ends = []
    for name, (write, source) in FORMATS.items():
        folder = write_files(tmp_path / name, write, [bad_records(name), readings(3)])
        outputs.add(f"left of {name}", from_source(source(folder, Reading, on_malformed="drop"), name=f"{name} drop"))
        tag = OutputTag("bad", MalformedRecord)
        routed = from_source(source(folder, Reading, on_malformed=tag), name=f"{name} route")
        outputs.add(f"routed {name}", routed)
        bad[name] = CollectSink(f"bad {name}")
        ends.append(routed.get_side_output(tag).sink_to(bad[name]))
    pipeline = outputs.pipeline("malformed", *ends)
    local = LocalRunner().run(pipeline)
    result = SparkRunner(spark).run(pipeline)
    assert result.counters == local.counters
    assert {name: sum(counts.values()) for name, counts in result.counters.items()} == {
        step.id: 3 if "json" in step.id else 2 for step in pipeline.steps if step.inputs == ()
    }
    assert {name: sorted(map(repr, found["a"])) for name, found in outputs.of(result).items()} == {
        name: sorted(map(repr, found["a"])) for name, found in outputs.of(local).items()
    }
    for sink in bad.values():
        assert result.collected(sink) == local.collected(sink)


@pytest.mark.parametrize("name", ["parquet", "csv", thorough("json", reason="test_same_errors.py has JSON")])
def test_a_malformed_record_fails_the_run(spark: SparkSession, tmp_path: Path, name: str) -> None:
    write, source = FORMATS[name]
    folder = write_files(tmp_path / name, write, [bad_records(name)])
    stream = from_source(source(folder, Reading))
    pipeline = Pipeline("failing", stream.sink_to(CollectSink[Reading]()))
    with pytest.raises(MalformedRecordError) as expected:
        LocalRunner().run(pipeline)
    with pytest.raises(MalformedRecordError) as caught:
        SparkRunner(spark).run(pipeline)
    assert str(caught.value) == str(expected.value)
    where = str(caught.value.where)
    assert where.startswith("failing.1.source, ")
    assert f"{HERE}:" in where
    assert f"{folder}/part-9.data" in where
    assert len(str(caught.value).splitlines()) <= 5


@pytest.mark.parametrize("case", ["wrong type", "missing column"])
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
    folder = write_files(tmp_path / "in", write_json, split(readings(20), 5))
    streaming: DataFrame = (
        spark.readStream.schema("key string, at timestamp, celsius double, note string")
        .option("maxFilesPerTrigger", 1)
        .json(str(folder))
    )
    outputs = Outputs()
    collection = from_collection(rows)
    for name, stream in {
        "static": from_source(DataFrameSource(static, Reading)),
        "streaming": from_source(DataFrameSource(streaming, Reading)),
        "collection": collection,
    }.items():
        windows = (
            stream.assign_timestamps_and_watermarks(
                WatermarkStrategy.for_bounded_out_of_orderness(timedelta(hours=1)), timestamp=lambda reading: reading.at
            )
            .key_by(lambda reading: reading.key)
            .window(TumblingEventTimeWindows.of(millis(200)))
        )
        outputs.add(
            name, windows.apply(lambda key, window, found: [(key, window.start, sorted(e.celsius for e in found))])
        )
    pipeline = outputs.pipeline("frames")
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    result = outputs.of(runner.run(pipeline, drain=False))
    # A streaming DataFrame may go on. The others are at their end, which is the end of time for what follows them.
    assert result["streaming"] == {}
    assert result["static"] == result["collection"] != {}


def test_the_rate_source_runs_until_it_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    sink = CollectSink[RateRecord]()
    stream = from_source(RateSource(50)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda record: record.timestamp
    )
    largest = stream.key_by(lambda record: record.value % 2).count_window(2).reduce(max)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    running = runner.start(Pipeline("rate", largest.sink_to(sink)))
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            running.await_termination(1)
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


@pytest.mark.parametrize("name", ["parquet", *(thorough(name, reason="it is listed as Parquet is") for name in LINES)])
def test_a_link_that_leads_out_of_the_folder(spark: SparkSession, tmp_path: Path, name: str) -> None:
    write, source = FORMATS[name]
    folder = write_files(tmp_path / "in here%20", write, [readings(3)])
    elsewhere = write_files(tmp_path / "elsewhere", write, [readings(2)])
    sink = CollectSink[Reading]()
    pipeline = Pipeline("links", from_source(source(folder, Reading)).sink_to(sink))
    (folder / "inside.data").symlink_to(folder / "part-9.data")
    assert len(SparkRunner(spark).run(pipeline).collected(sink)) == 6
    (folder / "outside.data").symlink_to(elsewhere / "part-9.data")
    with pytest.raises(SourceError, match="a link leads out of the path") as caught:
        SparkRunner(spark).run(pipeline)
    assert f"{folder}/outside.data -> {elsewhere}/part-9.data" == caught.value.given
    assert f"links.1.source, {__file__}:" in str(caught.value.where)
