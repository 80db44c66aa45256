"""Plans whose sinks name folders by fields."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NamedTuple, NewType, TypedDict, TypeVar

import pytest

from windrow import Pipeline, from_collection, from_source
from windrow.errors import InvalidArgumentError, PlanError
from windrow.sinks import CsvFileSink, FileSink, JsonFileSink, ParquetFileSink
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


def plan(sink: FileSink[Any], kind: object = Reading) -> Pipeline:
    element_type: Any = kind  # Any: elements of every type
    return Pipeline("parts", from_source(CollectionSource([], element_type)).sink_to(sink))


@pytest.mark.parametrize("sink", [JsonFileSink, CsvFileSink, ParquetFileSink])
def test_fields_that_name_folders(sink: Callable[..., FileSink[Any]]) -> None:
    by = ("sensor", "minute", "day", "level", "good")
    assert (
        f"{sink('out').format_name} out partitioned by sensor, minute, day, level, good"
        in plan(sink("out", partition_by=by)).explain()
    )
    assert sink("out", partition_by="sensor").partition_by == ("sensor",)
    plan(sink("out", partition_by="first"), Pair[str])


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
    with pytest.raises(PlanError) as caught:
        plan(ParquetFileSink("out", partition_by=by), kind)
    (found,) = caught.value.faults
    assert fault in found.message
    assert hint in found.hint
    assert "test_partition_by.py:" in found.where


@pytest.mark.parametrize("by", [("sensor", "sensor"), "", ("",)])
def test_names_are_told_apart(by: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"partition_by of a file sink"):
        JsonFileSink[Reading]("out", partition_by=by)


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
    if not refused:
        Pipeline("apart", rows)
        return
    with pytest.raises(PlanError, match="reads what the sink"):
        Pipeline("loop", rows)


def test_text_has_no_fields() -> None:
    from windrow.sinks import TextFileSink

    lines: Any = TextFileSink
    with pytest.raises(TypeError, match="partition_by"):
        lines("out", partition_by="line")
    Pipeline("lines", from_collection(["a"]).sink_to(TextFileSink("out", overwrite=True)))
