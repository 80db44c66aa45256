"""Plans whose sinks name folders by fields."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NamedTuple, NewType, TypedDict, TypeVar

import pytest

from tests.dsl.plans import fault_of, faults_of, plan, refusal
from windrow import DataStreamSink, from_collection, from_source
from windrow.sinks import CsvFileSink, FileSink, JsonFileSink, ParquetFileSink, TextFileSink
from windrow.sources import CollectionSource, JsonFileSource

T = TypeVar("T")
Minute = NewType("Minute", str)


class Level(Enum):
    LOW = 1


@dataclass
class Reading:
    sensor: str
    minute: Minute | None
    day: datetime.date
    at: datetime.datetime
    level: Level
    good: bool
    tags: list[str]
    celsius: float
    either: int | str
    _hidden: int = 0


class Keyed(TypedDict):
    sensor: str


class Pair(NamedTuple, Generic[T]):
    first: T
    second: int


def into(sink: FileSink[Any], kind: object = Reading) -> DataStreamSink:
    element_type: Any = kind  # Any: elements of every type
    return from_source(CollectionSource([], element_type)).sink_to(sink)


@pytest.mark.parametrize("sink", [JsonFileSink, CsvFileSink, ParquetFileSink])
def test_fields_that_name_folders(sink: Callable[..., FileSink[Any]]) -> None:
    by = ("sensor", "minute", "day", "level", "good")
    text = plan(into(sink("out", partition_by=by))).explain()
    assert f"{sink('out').format_name} out partitioned by sensor, minute, day, level, good" in text
    assert sink("out", partition_by="sensor").partition_by == ("sensor",)
    plan(into(sink("out", partition_by="first"), Pair[str]))


@pytest.mark.parametrize(
    ("by", "kind", "fault", "hint"),
    [
        ("hour", Reading, "names a field that Reading does not have: hour", "name fields of Reading: sensor, minute"),
        ("celsius", Reading, "cannot name folders: celsius is of float", "expected str, int, bool, date or Enum"),
        ("at", Reading, "at is of datetime", "map the field to the text"),
        (("sensor", "tags"), Reading, "tags is of list", "expected str"),
        ("either", Reading, "either is of int | str", "expected str"),
        ("_hidden", Reading, "readers pass over folders whose names begin with '_'", "rename the field"),
        ("sensor", Keyed, "names all fields of Keyed", "leave a field out"),
        ("value", int, "the elements are of int, which is no record", "map the elements to a record"),
    ],
)
def test_fields_that_cannot(by: str | tuple[str, ...], kind: object, fault: str, hint: str) -> None:
    found = fault_of(into(ParquetFileSink("out", partition_by=by), kind))
    assert fault in found.message
    assert hint in found.hint
    assert "test_partition_by.py:" in found.where


@pytest.mark.parametrize("by", [("sensor", "sensor"), "", ("",)])
def test_names_are_told_apart(by: Any) -> None:
    assert "partition_by of a file sink" in str(refusal(lambda: JsonFileSink[Reading]("out", partition_by=by)))


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("out", True),
        ("out/sensor=a", True),
        ("out/sensor=a/*.json", True),
        ("out/*/*.json", True),
        ("out/sen*", True),
        ("out/other=*", False),
        ("out/in", False),
        ("out/batch-0", False),
    ],
)
def test_a_source_that_reads_what_its_pipeline_writes(source: str, refused: bool) -> None:
    rows = from_source(JsonFileSource(source, Reading)).sink_to(JsonFileSink("out", partition_by="sensor"))
    assert ["reads what the sink" in fault.message for fault in faults_of(rows)] == [True] * refused


def test_text_has_no_fields() -> None:
    lines: Any = TextFileSink
    with pytest.raises(TypeError, match="partition_by"):
        lines("out", partition_by="line")
    plan(from_collection(["a"]).sink_to(TextFileSink("out", overwrite=True)))
