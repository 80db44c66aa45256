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

import pytest

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


def boxed(value: int) -> Box[Name]:
    return Box(Name(Part(Color.RED)))


def clicked(value: int) -> Event:
    return Click(value)


def answered(value: int) -> tuple[HTTPStatus, SplitResult | None]:
    return HTTPStatus(200), None


def peaked(at: int) -> Peak:
    return Peak(at)


def called(at: int) -> Any:
    return peaked(at)


class Watch(KeyedProcessFunction[int, int, int]):
    last: Any = ValueStateDescriptor("last")

    def process_element(self, value: int, context: KeyedProcessContext[int]) -> Iterable[int]:
        context.get_state(self.last).update((Peak(value), Plain(), Popen))
        return ()


ONE = from_collection([1])
NAMED: dict[str, tuple[DataStream[Any], set[str]]] = {
    "an annotation, with what it holds": (ONE.map(boxed), {"Box", "Part", "Color"}),
    "an annotation, with what is below it": (ONE.map(clicked), {"Event", "Click"}),
    "an annotation of a library's classes": (ONE.map(answered), {"HTTPStatus", "SplitResult"}),
    "the function itself": (ONE.map(Peak), {"Peak"}),
    "code": (ONE.map(lambda at: Peak(at + 1)), {"Peak"}),
    "a function that another one calls": (ONE.map(called), {"Peak"}),
    "a partial": (ONE.map(partial(lambda kind, at: called(at), "x")), {"Peak"}),
    "a comprehension": (ONE.map(lambda at: [Peak(n) for n in range(at)]), {"Peak"}),
    "a key": (ONE.key_by(lambda at: Peak(at + 1)).reduce(lambda a, b: a), {"Peak"}),
    # The user's own classes are known, and no library's class that is no record is.
    "a method": (ONE.key_by(lambda at: at, int).process(Watch()), {"Peak", "Plain"}),
    "elements of a collection": (from_collection([(1, [Peak(1)]), {"a": Color.RED}]), {"Peak", "Color"}),
}


@pytest.mark.parametrize("by", NAMED)
def test_classes_are_named_by(by: str) -> None:
    stream, names = NAMED[by]
    found = known(stream).keys()
    assert names <= found
    assert not {"Unused", "Popen"} & found


def test_values_of_a_librarys_classes_are_stored() -> None:
    column = [(HTTPStatus.OK, urlsplit("https://example.org/a?b=1"))]
    codec = StateCodec(known(ONE.map(answered)).values())
    assert codec.loads(codec.dumps(column)) == column
