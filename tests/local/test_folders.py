"""Fields that the names of folders give, on the interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pytest

from tests.formats import parquet
from tests.support.runs import MALFORMED, sorted_out
from windrow import Pipeline, from_collection, from_source
from windrow.errors import InvalidArgumentError, MalformedRecordError, WindrowWarning
from windrow.sinks import CsvFileSink, FileSink, JsonFileSink, ParquetFileSink
from windrow.sources import CsvFileSource, FileSource, JsonFileSource, ParquetFileSource
from windrow_runtime.local import LocalRunner

# Any in this module: sources of every type.


class Level(Enum):
    LOW = "lo:w"


@dataclass(frozen=True)
class Row:
    day: date
    n: int
    hour: int
    name: str | None
    level: Level = Level.LOW


def collected(source: FileSource[Any]) -> list[Any]:
    return from_source(source).collect()


FORMATS: list[tuple[Any, Any]] = [
    (JsonFileSink, JsonFileSource),
    (CsvFileSink, CsvFileSource),
    (ParquetFileSink, ParquetFileSource),
]
FILES: list[tuple[Any, bytes]] = [
    (JsonFileSource, b'{"n": 1}\n'),
    (CsvFileSource, b"n\n1\n"),
    (ParquetFileSource, parquet({"n": [1]})),
]
of_each_format = pytest.mark.parametrize(("source", "data"), FILES, ids=["json", "csv", "parquet"])


def write(file: Path, data: bytes | str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data.encode() if isinstance(data, str) else data)


@pytest.mark.parametrize(("sink", "source"), FORMATS, ids=lambda kind: kind.__name__)
def test_what_a_sink_wrote_is_read_back(tmp_path: Path, sink: type[FileSink[Any]], source: Any) -> None:
    rows = [Row(date(2024, 1, day), day, 5, name) for day, name in [(1, "a/b=%"), (2, None), (3, "Zo\u00eb"), (3, "x")]]
    fields = ("day", "hour", "name", "level")
    LocalRunner().run(Pipeline("write", from_collection(rows).sink_to(sink(tmp_path, partition_by=fields))))
    assert sorted(collected(source(tmp_path, Row, partitions=fields)), key=repr) == sorted(rows, key=repr)


class Event(TypedDict):
    n: int
    at: NotRequired[datetime]
    Flag: bool


@of_each_format
def test_folders_of_other_programs(tmp_path: Path, source: Any, data: bytes) -> None:
    for name in ("at=2024-01-31 05%3A00%3A00", "at=__HIVE_DEFAULT_PARTITION__"):
        write(tmp_path / "table" / "flag=true" / name / "part-0", data)
    found = collected(source(tmp_path, Event, partitions=("at", "Flag"), timezone="UTC"))
    moment = datetime(2024, 1, 31, 5, tzinfo=UTC)
    assert sorted(found, key=len) == [{"n": 1, "Flag": True}, {"n": 1, "at": moment, "Flag": True}]


@dataclass(frozen=True)
class Hourly:
    n: int
    hour: int = 7
    day: str | None = None


@of_each_format
def test_a_file_whose_folders_do_not_fit_is_malformed(tmp_path: Path, source: Any, data: bytes) -> None:
    for name in ("day=x/hour=05", "day=x/hour=five", "day=x", "hour=6"):
        write(tmp_path / name / "f", data)
    found = source(tmp_path, Hourly, partitions=("hour", "day"), on_malformed=MALFORMED)
    good, (record,), _ = sorted_out(from_source(found))
    assert sorted(good, key=repr) == [Hourly(1, 5, "x"), Hourly(1, 6), Hourly(1, 7, "x")]
    assert record.origin == str(tmp_path / "day=x/hour=five/f")
    assert record.raw == "hour=five"
    assert "Hourly.hour: expected int" in record.reason


@dataclass(frozen=True)
class Needed:
    n: int
    day: str


@of_each_format
def test_a_folder_that_is_not_there(tmp_path: Path, source: Any, data: bytes) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(MalformedRecordError, match=r"no folder day=\.\.\."):
        collected(source(tmp_path, Needed, partitions="day"))


@of_each_format
def test_a_field_that_only_a_folder_could_fill_is_warned_of(tmp_path: Path, source: Any, data: bytes) -> None:
    write(tmp_path / "day=1" / "f", data)
    with pytest.warns(WindrowWarning, match=r"(?s)names of folders have values.*partitions=\('day',\)"):
        assert collected(source(tmp_path, Hourly)) == [Hourly(1)]
    assert collected(source(tmp_path, Hourly, partitions="day")) == [Hourly(1, day="1")]


def test_the_warning_of_one_folder_keeps_those_that_are_taken(tmp_path: Path) -> None:
    write(tmp_path / "day=1/hour=2/f", '{"n": 1}\n')
    with pytest.warns(WindrowWarning, match=r"partitions=\('day', 'hour'\) takes them"):
        collected(JsonFileSource(tmp_path, Hourly, partitions="day"))


def test_a_field_that_the_file_has_is_not_warned_of_and_the_folder_counts(tmp_path: Path) -> None:
    write(tmp_path / "day=1" / "f", '{"n": 1, "day": "2"}\n')
    assert collected(JsonFileSource(tmp_path, Hourly)) == [Hourly(1, day="2")]
    assert collected(JsonFileSource(tmp_path, Hourly, partitions="day")) == [Hourly(1, day="1")]


@dataclass
class Noted:
    number: int
    day: date
    note: str = ""


def test_a_column_that_the_folder_takes_the_place_of_is_no_misspelt_one(tmp_path: Path) -> None:
    write(tmp_path / "day=2026-01-31" / "1.csv", "day,number\n2020-01-01,1\n")
    assert collected(CsvFileSource(tmp_path, Noted, partitions=("day",))) == [Noted(1, date(2026, 1, 31))]


def test_a_name_within_another_one_is_not_that_of_a_field(tmp_path: Path) -> None:
    write(tmp_path / "day=1" / "f", '{"n": 1, "birthday": "yesterday"}\n')
    with pytest.warns(WindrowWarning, match="names of folders have values"):
        assert collected(JsonFileSource(tmp_path, Hourly)) == [Hourly(1)]


@pytest.mark.parametrize("partitions", [("dya",), ("n", "hour", "day"), ("",), ("day", "day")])
def test_partitions_that_are_no_fields(tmp_path: Path, partitions: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgumentError):
        collected(JsonFileSource(tmp_path, Hourly, partitions=partitions))
