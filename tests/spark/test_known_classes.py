"""Which classes a plan names: those whose values state may hold. No Spark is needed to know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from http import HTTPStatus
from subprocess import Popen
from typing import Any, Generic, NamedTuple, NewType, TypeVar
from urllib.parse import SplitResult, urlsplit

from windrow import DataStream, Pipeline, from_collection
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink
from windrow.state import ValueStateDescriptor
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.topology import Topology
from windrow_spark.shipping import known_classes
from windrow_spark.storage.values import StateCodec

# Any in this module: streams of every type.
T = TypeVar("T")


class Color(Enum):
    RED = "red"


@dataclass(frozen=True)
class Part:
    color: Color


@dataclass(frozen=True)
class Box(Generic[T]):
    held: T


class Event:
    """A base of records, and none itself."""


@dataclass(frozen=True)
class Click(Event):
    at: int


class Peak(NamedTuple):
    at: int


class Plain:
    """Not a record."""


class Unused(NamedTuple):
    at: int


Name = NewType("Name", Part)


def known(stream: DataStream[Any]) -> dict[str, UserClass]:
    plan = Topology(Pipeline("known", stream.sink_to(CollectSink())).steps)
    return {known.class_.__name__: known for known in known_classes(plan.steps)}


def peaked(at: int) -> Peak:
    return Peak(at)


def called(at: int) -> Any:
    return peaked(at)


def test_annotations_name_classes_with_what_they_hold() -> None:
    def boxed(value: int) -> Box[Name]:
        return Box(Name(Part(Color.RED)))

    assert {"Box", "Part", "Color"} <= known(from_collection([1]).map(boxed)).keys()

    def clicked(value: int) -> Event:
        return Click(value)

    found = known(from_collection([1]).map(clicked))
    assert {"Event", "Click"} <= found.keys()

    def answered(value: int) -> tuple[HTTPStatus, SplitResult | None]:
        return HTTPStatus(200), None

    found = known(from_collection([1]).map(answered))
    assert {"HTTPStatus", "SplitResult"} <= found.keys()
    column = [(HTTPStatus.OK, urlsplit("https://example.org/a?b=1"))]
    codec = StateCodec(found.values())
    assert codec.loads(codec.dumps(column)) == column


def test_code_names_the_records_that_it_makes() -> None:
    stream = from_collection([1])
    ways: list[DataStream[Any]] = [
        stream.map(Peak),
        stream.map(lambda at: Peak(at + 1)),
        stream.map(called),
        stream.map(partial(lambda kind, at: called(at), "x")),
        stream.map(lambda at: [Peak(n) for n in range(at)]),
        stream.key_by(lambda at: Peak(at + 1)).reduce(lambda a, b: a),
    ]
    for way in ways:
        assert "Peak" in known(way)
    assert "Unused" not in known(ways[0])

    class Watch(KeyedProcessFunction[int, int, int]):
        last: Any = ValueStateDescriptor("last")

        def process_element(self, value: int, context: KeyedProcessContext[int]) -> Iterable[int]:
            context.get_state(self.last).update((Peak(value), Plain(), Popen))
            return ()

    found = known(stream.key_by(lambda at: at, int).process(Watch()))
    # The user's own classes are known, and no library's class that is no record is.
    assert {"Peak", "Plain"} <= found.keys()
    assert "Popen" not in found


def test_elements_of_a_collection_name_their_classes() -> None:
    elements: list[Any] = [(1, [Peak(1)]), {"a": Color.RED}]
    assert {"Peak", "Color"} <= known(from_collection(elements)).keys()
