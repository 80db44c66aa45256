"""Types that Avro has no form for, found when sources and pipelines are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, NewType, NotRequired, TypeVar
from uuid import UUID

import msgspec
import pytest
from typing_extensions import TypedDict

from windrow import Pipeline, from_collection
from windrow.connectors.avro_types import avro_misfit
from windrow.errors import InvalidArgumentError, PlanError
from windrow.formats import EpochMillis, JsonValue, RawJson
from windrow.kafka import AvroFormat, KafkaRecordSource, KafkaSink, KafkaSource

AVRO = AvroFormat("mock://types")
T = TypeVar("T")
Name = NewType("Name", str)
Delay = NewType("Delay", timedelta)


class Level(Enum):
    LOW = "low"


class Noted:
    since: timedelta  # no field of what is derived from it


class Part(NamedTuple):
    level: Level
    weights: Mapping[Name, float | None]


@dataclass
class Fine(Noted):
    at: Annotated[datetime, EpochMillis]
    day: date
    price: Decimal
    ident: UUID
    parts: list[Part]
    next: Fine | None
    none: None
    longest: ClassVar[timedelta] = timedelta(1)
    given: InitVar[timedelta] = timedelta(1)


@dataclass
class Span:
    took: timedelta | None


class Struct(msgspec.Struct):
    spans: tuple[Span, ...]


class Keys(TypedDict):
    counts: NotRequired[dict[str, dict[int, str]]]


@dataclass
class Box(Generic[T]):
    value: T


@pytest.mark.parametrize("kind", [Fine, int, tuple[int, str], Name, Box[int], Any, "Unknown", dict[str, list[bytes]]])
def test_types_that_avro_has(kind: object) -> None:
    assert avro_misfit(kind) is None


@pytest.mark.parametrize(
    ("kind", "part", "expected"),
    [
        (Span, "Span.took: timedelta", "milliseconds"),
        (Struct, "Struct.spans[].took: timedelta", "milliseconds"),
        (Delay | None, "timedelta", "milliseconds"),
        (tuple[int, Span], "[].took: timedelta", "milliseconds"),
        (Keys, "Keys.counts{}: dict[int, str]", "dict[str, ...]"),
        (Box[int] | dict[Level, int], "dict[", "dict[str, ...]"),
        (dict[str, JsonValue], "{}: JsonValue", "JSON as its text"),
        (Annotated[RawJson, "note"], "RawJson", "JSON as its text"),
    ],
)
def test_a_part_that_avro_lacks_is_named(kind: object, part: str, expected: str) -> None:
    misfit = avro_misfit(kind)
    assert misfit is not None
    assert part in misfit.part
    assert expected in misfit.expected


def test_sources_refuse_it_when_they_are_made() -> None:
    for source in (KafkaSource, KafkaRecordSource):
        with pytest.raises(InvalidArgumentError, match=r"no form in Avro(.|\n)*Span\.took: timedelta"):
            source("a:1", "t", Span, value_format=AVRO)
        source("a:1", "t", Span, value_format="json")


def test_a_pipeline_refuses_a_sink_with_its_step() -> None:
    spans = from_collection([Span(None)])
    with pytest.raises(PlanError, match=r"no form for Span\.took: timedelta\n +where: +p\.2\.sink, .*test_avro_types"):
        Pipeline("p", spans.sink_to(KafkaSink[Span]("a:1", "t", value_format=AVRO)))
    Pipeline("p", spans.sink_to(KafkaSink[Span]("a:1", "t")))
    Pipeline("p", spans.map(str).returns(str).sink_to(KafkaSink[str]("a:1", "t", value_format=AVRO)))
