"""Moments as other programs write them, and the formats that annotations of fields say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest

from windrow import Pipeline, from_collection, from_source
from windrow.errors import InvalidArgumentError, WindrowError
from windrow.formats import DateFormat, EpochMicros, EpochMillis, EpochSeconds
from windrow.sinks import CsvFileSink, JsonFileSink
from windrow.sources import CsvFileSource, JsonFileSource
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_forms import parse_datetime
from windrow_runtime.connectors.files.text_blocks import text_block_reader
from windrow_runtime.local import LocalRunner

# Any in this module: sources of every type.

NOON = datetime(2024, 1, 31, 12, 30, tzinfo=UTC)


class Inner(NamedTuple):
    at: Annotated[datetime, EpochSeconds]


@dataclass(frozen=True)
class Event:
    german: Annotated[datetime, DateFormat("%d.%m.%Y %H:%M", timezone="Europe/Berlin")]
    offset: Annotated[datetime | None, DateFormat("%Y/%m/%d %H:%M:%S %z")]
    day: Annotated[date, DateFormat("%m/%d/%Y")]
    seconds: Annotated[datetime, EpochSeconds]
    millis: Annotated[datetime, EpochMillis] | None
    micros: Annotated[datetime, EpochMicros]
    inner: Inner


EVENT = Event(NOON, NOON, date(2024, 1, 31), NOON, NOON, NOON, Inner(NOON))
WRITTEN = (
    '{"german":"31.01.2024 13:30","offset":"2024/01/31 12:30:00 +0000","day":"01/31/2024","seconds":1706704200,'
    '"millis":1706704200000,"micros":1706704200000000,"inner":{"at":1706704200}}\n'
)
ROW = (
    "german,offset,day,seconds,millis,micros,inner\n"
    "31.01.2024 13:30,2024/01/31 12:30:00 +0000,01/31/2024,1706704200,"
    '1706704200000,1706704200000000,"{""at"":1706704200}"\n'
)


class At(NamedTuple):
    n: int
    at: datetime


def read(folder: Path, kind: Any, cell: str) -> list[Any]:
    """Reads a moment from JSON, and from CSV."""
    (folder / "a.json").write_text(f'{{"n": 1, "at": {cell}}}\n')
    (folder / "a.csv").write_text(f"n,at\n1,{cell}\n")
    sources = JsonFileSource(folder / "a.json", kind), CsvFileSource(folder / "a.csv", kind)
    return [element for source in sources for element in from_source(source).collect()]


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-31 12:30:00+00", "2024-01-31 14:30:00+02", "2024-01-31T12:30Z", "2024-01-31T14:30+02:00",
        "2024-01-31T12:30:00.0000000Z", "2024-01-31T12:30:00.000000000Z", "20240131T123000Z", "20240131T1230Z",
        "2024-01-31t12:30:00z", "2024-W05-3T12:30Z", "2024-01-31 12:30:00 +0000", "2024-01-31T12:30:00+00:00:00",
        "2024-01-31T12:30:00,000Z",
    ],
)  # fmt: skip
def test_moments_of_other_programs(tmp_path: Path, text: str) -> None:
    assert parse_datetime(text) == datetime.fromisoformat(text.upper()) == NOON
    assert read(tmp_path, At, f'"{text}"') == [At(1, NOON)] * 2


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-31T12:30:00.0000001Z", "2024-01-31X12:30Z", "2024-01-31T12:30.5Z", "2024-01-31T12:3000Z",
        "2024-01-31T12:30:60Z", "2024-01-31T12:30:00+24", "2024-01-31", "2024-02-30T12:00Z", "1706704200",
        "2024-01-31T12:30:00+00:00Z",
    ],
)  # fmt: skip
def test_texts_that_name_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match=r"not|finer|names|second|day"):
        parse_datetime(text)


def test_a_day_alone_begins_where_the_clock_is() -> None:
    assert parse_datetime("2024-01-31", UTC) == datetime(2024, 1, 31, tzinfo=UTC)


def test_a_sink_writes_what_its_source_reads(tmp_path: Path) -> None:
    forms: list[tuple[Any, Any, str]] = [(JsonFileSink, JsonFileSource, WRITTEN), (CsvFileSink, CsvFileSource, ROW)]
    for sink, source, text in forms:
        folder = tmp_path / sink.__name__
        LocalRunner().run(Pipeline("write", from_collection([EVENT]).sink_to(sink(folder))))
        (file,) = folder.glob("[!_]*")
        assert file.read_text() == text
        assert from_source(source(folder, Event)).collect() == [EVENT]


class Stamped(NamedTuple):
    n: int
    at: Annotated[datetime, EpochSeconds]


@pytest.mark.parametrize(
    ("number", "micros"),
    [("1706704200.25", 250_000), ("1706704200.1234567", 123_457), ("1706704200e0", 0), ("1706704200.000", 0)],
)
def test_seconds_may_have_a_fraction(tmp_path: Path, number: str, micros: int) -> None:
    assert read(tmp_path, Stamped, number) == [Stamped(1, NOON + timedelta(microseconds=micros))] * 2


@pytest.mark.parametrize("cell", ["true", '"1706704200"', "1e300", "99999999999999999999999", "null", '"x"'])
def test_what_is_no_epoch_time_is_malformed(tmp_path: Path, cell: str) -> None:
    with pytest.raises(WindrowError, match=r"malformed record: Stamped\.at"):
        read(tmp_path, Stamped, cell)


class Local(NamedTuple):
    n: int
    at: Annotated[datetime, DateFormat("%d.%m.%Y %H:%M")]


def test_the_clock_of_a_pattern_is_that_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,at\n1,31.01.2024 13:30\n")
    assert from_source(CsvFileSource(tmp_path / "a.csv", Local, timezone="Europe/Berlin")).collect() == [Local(1, NOON)]
    with pytest.raises(WindrowError, match="names no moment"):
        from_source(CsvFileSource(tmp_path / "a.csv", Local)).collect()


@pytest.mark.parametrize(
    ("element", "reason"),
    [
        (Local(1, NOON), "names no moment"),
        (EVENT.__class__(NOON + timedelta(seconds=1), *list(EVENT.__dict__.values())[1:]), "it is finer"),
    ],
)
def test_a_sink_refuses_what_would_not_be_read_back(tmp_path: Path, element: Any, reason: str) -> None:
    with pytest.raises(WindrowError, match=reason):
        LocalRunner().run(Pipeline("write", from_collection([element]).sink_to(JsonFileSink[Any](tmp_path))))


@pytest.mark.parametrize("pattern", ["%Q", "%d.%m.%Y %Z", "no directive", "%-d"])
def test_patterns_that_python_does_not_read(pattern: str) -> None:
    with pytest.raises(InvalidArgumentError, match="a date format is a pattern"):
        DateFormat(pattern)


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[str, EpochMillis], Annotated[date, EpochMillis], Annotated[list[datetime], EpochMillis],
        Annotated[datetime, EpochMillis, EpochSeconds], Annotated[datetime, DateFormat],
        dict[Annotated[datetime, EpochMillis], int],
    ],
    ids=str,
)  # fmt: skip
def test_formats_that_do_not_fit_their_type(annotation: object) -> None:
    with pytest.raises(InvalidArgumentError):
        record_type(annotation)


def test_fields_with_a_format_are_read_row_by_row() -> None:
    for source in (JsonFileSource("x", Stamped), CsvFileSource("x", Stamped)):
        assert text_block_reader(source) == "Stamped.at is a number of seconds since 1970"
