"""What the interpreter reads: collections and files, batch by batch, and records that do not fit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

import windrow
from tests.support.runs import MALFORMED, batches_of, in_order, sorted_out
from windrow import Pipeline, from_collection, from_source
from windrow.errors import (
    InvalidArgumentError,
    MalformedRecordError,
    SourceError,
    UnsupportedOperationError,
    WindrowError,
)
from windrow.sinks import CollectSink
from windrow.sources import (
    CollectionSource,
    CsvFileSource,
    FileSource,
    JsonFileSource,
    ParquetFileSource,
    RateSource,
    Source,
)
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner


@dataclass(frozen=True)
class Reading:
    sensor: str
    at: int
    celsius: float | None


GOOD = [Reading("a", 1, 20.5), Reading("b", 2, None), Reading("a", 3, -1.0), Reading("c", 4, 0.0)]


def write_json(folder: Path) -> None:
    for number, reading in enumerate(GOOD):
        line = json.dumps(reading.__dict__)
        write(folder / f"part-{number}.json", f"{line}\n\n")


def write_csv(folder: Path) -> None:
    for number, reading in enumerate(GOOD):
        celsius = "" if reading.celsius is None else reading.celsius
        # Columns are found by name, and others are left out.
        write(folder / f"part-{number}.csv", f"at;more;celsius;sensor\n{reading.at};x;{celsius};{reading.sensor}\n")


def write_parquet(folder: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for number, reading in enumerate(GOOD):
        path = folder / f"part-{number}.parquet"
        parquet.write_table(arrow.Table.from_pylist([{**reading.__dict__, "more": 1}]), path)
        stamp(path)


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    stamp(path)


def stamp(path: Path) -> None:
    """Files that are as old as each other are taken by name."""
    os.utime(path, (1_000_000, 1_000_000))


SOURCES = [
    pytest.param(write_json, lambda path, n: JsonFileSource(path, Reading, files_per_batch=n), id="json"),
    pytest.param(write_csv, lambda path, n: CsvFileSource(path, Reading, delimiter=";", files_per_batch=n), id="csv"),
    pytest.param(write_parquet, lambda path, n: ParquetFileSource(path, Reading, files_per_batch=n), id="parquet"),
]


@pytest.mark.parametrize(("fill", "source"), SOURCES)
def test_files_are_read_in_batches_in_order(
    tmp_path: Path, fill: Callable[[Path], None], source: Callable[[Path, int | None], Source[Reading]]
) -> None:
    fill(tmp_path)
    (tmp_path / "_SUCCESS").write_text("not data", encoding="utf-8")
    (tmp_path / ".hidden.json").write_text("not data", encoding="utf-8")
    assert batches_of(from_source(source(tmp_path, 3))) == [GOOD[:3], GOOD[3:]]
    assert batches_of(from_source(source(tmp_path, None))) == [GOOD]
    first = next(tmp_path.glob("part-0.*"))
    assert batches_of(from_source(source(first, None))) == [GOOD[:1]]
    # The file that was changed last comes last.
    os.utime(first, (2_000_000, 2_000_000))
    assert batches_of(from_source(source(tmp_path, 1))) == [[reading] for reading in [*GOOD[1:], GOOD[0]]]


def test_a_collection_is_read_in_batches() -> None:
    assert batches_of(from_source(CollectionSource(GOOD, batch_size=3))) == [GOOD[:3], GOOD[3:]]
    assert batches_of(from_source(CollectionSource(GOOD))) == [GOOD]
    assert batches_of(from_source(CollectionSource[Reading]([], Reading))) == []


BAD_JSON = ['{"sensor": "a"', '{"at": 1}', '{"sensor": null, "at": 1}', '{"sensor": "a", "at": "soon"}']
BAD_CSV = ["a,soon,1", "a,,1", "a,1,warm"]


def bad_files(folder: Path) -> list[Source[Reading]]:
    write(folder / "bad.json", "\n".join(['{"sensor": "a", "at": 1, "celsius": 2}', *BAD_JSON]))
    write(folder / "bad.csv", "\n".join(["sensor,at,celsius", "a,1,2", *BAD_CSV]))
    return [
        JsonFileSource(folder / "bad.json", Reading, on_malformed="drop"),
        CsvFileSource(folder / "bad.csv", Reading, on_malformed="drop"),
    ]


def test_malformed_records_may_be_dropped_and_are_counted(tmp_path: Path) -> None:
    for source, bad in zip(bad_files(tmp_path), (BAD_JSON, BAD_CSV), strict=True):
        sink = CollectSink[Reading]()
        result = LocalRunner().run(Pipeline("readings", from_source(source, name="readings").sink_to(sink)))
        assert result.collected(sink) == [Reading("a", 1, 2.0)]
        assert result.counter("records_malformed") == len(bad)
        assert dict(result.counters["readings.1.readings"]) == {"records_malformed": len(bad)}


def test_malformed_records_may_go_to_a_side_output(tmp_path: Path) -> None:
    bad_files(tmp_path)
    source = JsonFileSource(tmp_path / "bad.json", Reading, on_malformed=MALFORMED)
    good, records, _ = sorted_out(from_source(source))
    assert good == [Reading("a", 1, 2.0)]
    assert [record.raw for record in records] == BAD_JSON
    assert [record.origin for record in records] == [f"{tmp_path / 'bad.json'}:{line}" for line in (2, 3, 4, 5)]
    fields = ["sensor", "sensor", "at"]
    assert [name for name, record in zip(fields, records[1:], strict=True) if name in record.reason] == fields


@pytest.mark.parametrize("line", BAD_JSON)
def test_a_malformed_record_fails_the_run_and_is_shown(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.json"
    write(path, f'{{"sensor": "a", "at": 1, "celsius": 2}}\n{line}\n')
    with pytest.raises(MalformedRecordError) as caught:
        from_source(JsonFileSource(path, Reading), name="readings").collect(name="readings")
    where = str(caught.value.where)
    assert where.startswith("readings.1.readings, ")
    assert "test_sources.py:" in where
    assert where.endswith(f", {path}:2")
    assert line in str(caught.value)


def test_a_missing_column_of_csv_is_an_error_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "narrow.csv"
    write(path, "sensor,celsius\na,1\n")
    with pytest.raises(WindrowError, match="at") as caught:
        from_source(CsvFileSource(path, Reading, on_malformed="drop")).collect()
    assert str(path) in str(caught.value)


def test_an_unknown_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="the path does not exist") as caught:
        from_source(JsonFileSource(tmp_path / "absent", Reading), name="readings").collect(name="readings")
    assert f"given:    {tmp_path / 'absent'}" in str(caught.value)
    assert "readings.1.readings, " in str(caught.value)
    assert "test_sources.py:" in str(caught.value)


def test_an_address_is_shown_without_its_secrets() -> None:
    with pytest.raises(UnsupportedOperationError, match="only Spark opens files") as caught:
        from_source(JsonFileSource("s3a://ann:s3cret@bucket/in", Reading)).collect()
    assert caught.value.given == "json s3a://ann:*****@bucket/in"
    assert "leave the password out" in str(caught.value.hint)


def test_a_source_of_sparks_is_refused_with_a_hint() -> None:
    with pytest.raises(UnsupportedOperationError, match="run the pipeline with SparkRunner"):
        from_source(RateSource(5)).collect()


def test_a_file_source_knows_its_type() -> None:
    source: FileSource[Reading] = JsonFileSource("anywhere", Reading)
    assert source.element_type is Reading


def test_a_plan_of_hundreds_of_steps_and_sources_runs() -> None:
    mapped = from_collection([1, 2])
    for _ in range(400):
        mapped = mapped.map(lambda number: number + 1)
    united = from_collection([0])
    for number in range(100):
        united = united.union(from_collection([number]))
    sinks = CollectSink[int](), CollectSink[int]()
    result = LocalRunner().run(Pipeline("p", mapped.sink_to(sinks[0]), united.sink_to(sinks[1])))
    assert result.collected(sinks[0]) == [401, 402]
    assert len(result.collected(sinks[1])) == 101


@pytest.mark.parametrize(("batch_size", "late"), [(None, 0), (2, 1), (1, 1)])
def test_elements_are_late_by_the_batches_before_theirs(batch_size: int | None, late: int) -> None:
    seconds = in_order(from_collection([1, 20, 2], batch_size=batch_size), lambda second: second * 1_000)
    counts = seconds.key_by(lambda second: "all").window(TumblingEventTimeWindows.of(timedelta(seconds=10))).count()
    result = LocalRunner().run(Pipeline("p", counts.sink_to(CollectSink[int]())))
    assert result.counter("late_records_dropped") == late


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="the batch size"):
        from_collection([1], int, batch_size=0)


def test_data_frames_are_found_by_the_names_of_their_libraries() -> None:
    assert windrow.from_pandas is windrow.from_polars is windrow.from_arrow
