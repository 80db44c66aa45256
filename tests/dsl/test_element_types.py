"""What the plan knows of element types: from annotations, type arguments, and what the user states."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

import pytest

from tests.dsl.plans import SECONDS, in_time
from tests.support.records import Reading
from windrow import DataStream, OutputTag, from_changes, from_collection, from_source
from windrow.debezium import TableChange
from windrow.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ProcessAllWindowFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
    ReduceFunction,
)
from windrow.panes import Change
from windrow.plan import KeyByNode
from windrow.plan.hints import resolved_hints
from windrow.plan.keys import key_type
from windrow.plan.types import base_argument, iterable_item, result_type
from windrow.sources import CollectionSource, JsonFileSource, MalformedRecord, RateRecord, RateSource
from windrow.windows import GlobalWindow, TimeWindow, Window

T = TypeVar("T")
A = TypeVar("A")
W = TypeVar("W", bound=Window)


class Point(NamedTuple):
    x: int
    y: int


class Moved(TableChange[Point]):
    """Changes of points alone."""


class Wide(Point):
    def __new__(cls, *values: object) -> Any:
        return values


THIS = sys.modules[__name__]


class Celsius(MapFunction[Reading, float]):
    def map(self, value: Reading) -> float:
        return value.celsius


class Letters(FlatMapFunction[Reading, str]):
    def flat_map(self, value: Reading) -> list[str]:
        return list(value.sensor)


class Everything(FilterFunction[object]):
    def filter(self, value: object) -> bool:
        return True


class Sensor(KeySelector[Reading, str]):
    def get_key(self, value: Reading) -> str:
        return value.sensor


class Coldest(ReduceFunction[Reading]):
    def reduce(self, a: Reading, b: Reading) -> Reading:
        return a


class Fold(AggregateFunction[T, list[T], A], Generic[A, T]):
    """Its parameters stand in another order than those of its base."""

    def create_accumulator(self) -> list[T]:
        return []

    def add(self, value: T, accumulator: list[T]) -> list[T]:
        return [*accumulator, value]


class FoldToTuple(Fold[tuple[int, T], T]):
    def get_result(self, accumulator: list[T]) -> tuple[int, T]:
        return len(accumulator), accumulator[0]


class FoldReadings(FoldToTuple[Reading]):
    pass


class CountReadings(Fold[int, Reading]):
    def get_result(self, accumulator: list[Reading]) -> int:
        return len(accumulator)


class Mixin:
    pass


class CountWithMixin(Mixin, CountReadings):
    pass


class OpenFold(Fold[Any, Reading]):
    def get_result(self, accumulator: list[Reading]) -> Point:
        return Point(0, 0)


class Named(ProcessWindowFunction[T, Point, str, W]):
    def process(self, key: str, context: ProcessWindowContext[W], elements: Sequence[T]) -> Iterable[Point]:
        return [Point(0, 0)]


class NamedReadings(Named[Reading, TimeWindow]):
    pass


class NamedCounts(Named[int, TimeWindow]):
    pass


class CountOfAll(ProcessAllWindowFunction[Reading, int, TimeWindow]):
    def process(self, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]) -> Iterable[int]:
        return [len(elements)]


def celsius(reading: Reading) -> float:
    return reading.celsius


def maybe(reading: Reading) -> float | None:
    return reading.celsius


def pair(reading: Reading, number: int) -> tuple[str, int]:
    return reading.sensor, number


def unannotated(reading):  # type: ignore[no-untyped-def]  # what users write who annotate nothing
    return reading


def unresolvable(reading: Reading) -> Missing:  # type: ignore[name-defined]  # noqa: F821  an annotation that lies
    return reading


def whatever(reading: Reading) -> Any:
    return reading


def generic(reading: T) -> list[T]:
    return [reading]


def nested(reading: T) -> dict[str, list[T]]:
    return {"a": [reading]}


def nested_any(reading: Reading) -> list[list[Any] | None]:
    return [[reading]]


def letters(reading: Reading) -> Iterator[str]:
    yield from reading.sensor


def first_sensor(key: str, window: TimeWindow, elements: Sequence[Reading]) -> list[str]:
    return [elements[0].sensor]


readings = in_time([Reading("a", 0, 1.0)], lambda reading: reading.at)
windows = readings.key_by(Sensor()).window(SECONDS)
all_windows = readings.window_all(SECONDS)
anything: DataStream[Any] = from_collection([], object)

point_class: Any = Point  # a class with two arguments
numbers = from_collection([], int)
late, malformed = OutputTag[Reading]("late"), OutputTag("malformed", MalformedRecord)
with_late = windows.side_output_late_data(late).reduce(Coldest())
with_malformed = from_source(JsonFileSource("in", Reading, on_malformed=malformed))

STREAMS: dict[str, tuple[DataStream[Any], object]] = {
    "int": (from_collection([1, 2]), int),
    "named tuple": (from_collection([Point(1, 2)]), Point),
    "bool": (from_collection([True, False]), bool),
    "empty": (from_collection([]), None),
    "mixed": (from_collection([1, "a"]), None),
    "int and bool": (from_collection([1, True]), None),
    "tuple": (from_collection([(1, 2)]), None),
    "stated": (from_collection([(1, 2)], tuple[int, int]), tuple[int, int]),
    "optional": (from_collection([1, None], int | None), int | None),
    "source": (from_source(CollectionSource([1])), int),
    "file": (from_source(JsonFileSource("in", Reading)), Reading),
    "rate": (from_source(RateSource()), RateRecord),
    "map": (anything.map(celsius), float),
    "map to an optional": (anything.map(maybe), float | None),
    "map by a map function": (anything.map(Celsius()), float),
    "map by a partial": (anything.map(functools.partial(pair, number=1)), tuple[str, int]),
    "map by a class": (anything.map(point_class), Point),
    "map by a builtin class": (anything.map(str), str),
    "map by a lambda": (anything.map(lambda reading: 1.0), float),
    "map to a field that objects have not": (anything.map(lambda reading: reading.sensor), None),
    "map without annotations": (anything.map(unannotated), object),
    "map with an annotation that nobody knows": (anything.map(unresolvable), object),
    "map to Any": (anything.map(whatever), object),
    "map by a generic function": (anything.map(generic), list[object]),
    "map by a builtin": (anything.map(len), int),
    "map by a method": (anything.map(str.upper), str),
    "flat_map": (readings.flat_map(letters), str),
    "flat_map by a flat-map function": (readings.flat_map(Letters()), str),
    "flat_map by a lambda": (readings.flat_map(lambda reading: [reading]), Reading),
    "flat_map by a comprehension": (readings.flat_map(lambda reading: [each.upper() for each in reading.sensor]), None),
    "timestamps": (readings, Reading),
    "filter": (readings.filter(Everything()), Reading),
    "union": (numbers.union(numbers.filter(Everything())), int),
    "union with what a lambda gives": (numbers.union(numbers.map(lambda number: number)), int),
    "union with what nobody knows": (numbers.union(numbers.map(lambda number: [*range(number)])), None),
    "reduce": (windows.reduce(Coldest()), Reading),
    "reduce by a lambda": (windows.reduce(lambda a, b: a), Reading),
    "reduce and process": (windows.reduce(Coldest(), NamedReadings()), Point),
    "process": (windows.process(NamedReadings()), Point),
    "aggregate": (windows.aggregate(CountReadings()), int),
    "aggregate with a second base": (windows.aggregate(CountWithMixin()), int),
    "aggregate and process": (windows.aggregate(CountReadings(), NamedCounts()), Point),
    "aggregate by type arguments": (windows.aggregate(FoldReadings()), tuple[int, Reading]),
    "aggregate by an annotation": (windows.aggregate(OpenFold()), Point),
    "process of all": (all_windows.process(CountOfAll()), int),
    "reduce and process of all": (all_windows.reduce(Coldest(), CountOfAll()), int),
    "apply": (windows.apply(first_sensor), str),
    "apply a lambda": (windows.apply(lambda key, window, elements: [key]), str),
    "apply a choice": (windows.apply(lambda key, window, elements: [elements[0]] if window.start else []), Reading),
    "apply to all": (all_windows.apply(lambda window, elements: [(window.end, len(elements))]), tuple[int, int]),
    "apply what nobody knows": (windows.apply(lambda key, window, elements: [*elements]), None),
    "late elements": (with_late.get_side_output(late), Reading),
    "late elements of a stated type": (with_late.get_side_output(OutputTag("late", Reading)), Reading),
    "a side output": (with_late.get_side_output(OutputTag[int]("other")), int),
    "a side output of Any": (with_late.get_side_output(OutputTag[Any]("other")), None),
    "malformed records": (with_malformed.get_side_output(malformed), MalformedRecord),
}


@pytest.mark.parametrize("case", STREAMS)
def test_the_type_of_elements(case: str) -> None:
    stream, kind = STREAMS[case]
    assert stream.element_type == kind


def test_a_lambda_that_only_makes_a_record_says_its_class() -> None:
    functions: list[Callable[[Any], Any]] = [
        lambda line: Point(line, 1),
        lambda line: Point(*line.split()),
        lambda line: Point(**line),
        lambda line: Point(x=int(line.x[0]), y=len(line)),
        lambda line: Point(Point(line, 2).x, [Point(3, 4)][0].y),
        lambda line: THIS.Point(line, 2),
    ]
    for function in functions:
        assert anything.map(function).element_type is Point
        assert stated_key_type(anything.key_by(function).node) is Point
        assert anything.flat_map(function).element_type is None


def test_a_lambda_that_makes_what_nobody_can_tell_says_nothing() -> None:
    functions: list[Callable[[Any], Any]] = [
        lambda line: line(Point(line, 1)),
        lambda line: line.point(line, 1)(line),
        lambda line: Point,
        lambda line: Wide(line, 1),
    ]
    assert [anything.map(function).element_type for function in functions] == [None] * len(functions)


def test_annotations_name_classes_of_the_function_around() -> None:
    class Unit(Enum):
        CELSIUS = "C"

    @dataclass
    class Local:
        unit: Unit
        other: Local | None

    def make(number: int) -> Local:
        raise NotImplementedError

    def several(number: Hidden) -> list[Local]:  # type: ignore[name-defined]  # noqa: F821
        raise NotImplementedError

    locals_ = numbers.map(make)
    assert locals_.element_type is Local
    assert numbers.flat_map(several).element_type is Local
    assert stated_key_type(numbers.key_by(make).node) is Local
    assert resolved_hints(Local) == {"unit": Unit, "other": Local | None}
    assert locals_.map(keeps()).element_type is None
    kind, keep = kept()
    upstream: DataStream[object] = from_collection([], kind)
    assert upstream.map(keep).element_type is kind


def keeps() -> Callable[[Any], Any]:
    """A function whose annotation names what is gone when it is used."""

    class Gone:
        pass

    def keep(value: Gone) -> Gone:
        def within() -> Gone:
            return value

        return within()

    return keep


def kept() -> tuple[Any, Callable[[Any], Any]]:
    """A class with a function that names it in annotations alone."""

    class Kept:
        pass

    def keep(value: Kept) -> Kept:
        return value

    return Kept, keep


def test_keys() -> None:
    assert readings.key_by(celsius).node.element_type is Reading
    assert key_type(readings.key_by(celsius).node) is float
    assert key_type(readings.key_by(Sensor()).node) is str
    assert key_type(readings.key_by(lambda reading: reading.sensor).node) is str
    assert key_type(readings.key_by(lambda reading: str([*reading.sensor]), str).node) is str
    assert key_type(readings.key_by(lambda reading: "".join([*reading.sensor])).node) is None


def stated_key_type(node: KeyByNode) -> object:
    return node.key_type


def test_type_arguments_through_all_levels() -> None:
    assert base_argument(FoldReadings(), AggregateFunction, 0) is Reading
    assert base_argument(FoldReadings(), AggregateFunction, 1) == list[Reading]
    assert base_argument(FoldReadings(), AggregateFunction, 2) == tuple[int, Reading]
    assert base_argument(NamedReadings(), ProcessWindowFunction, 3) is TimeWindow
    assert base_argument(Named[int, GlobalWindow](), ProcessWindowFunction, 1) is Point
    assert base_argument(object(), AggregateFunction, 0) is None


def test_a_type_with_an_open_part_is_not_known() -> None:
    assert result_type(nested) is None
    assert result_type(nested_any) is None


def test_a_method_of_generic_elements_gives_what_their_type_says() -> None:
    source = from_source(JsonFileSource("changes", TableChange[Point]))
    for method in (TableChange.changes, TableChange[Point].changes):
        changes = source.flat_map(method)
        assert changes.element_type == Change[Point]
        assert from_changes(changes, key=lambda point: point.x).element_type is Point
    assert from_source(JsonFileSource("changes", Moved)).flat_map(TableChange.changes).element_type == Change[Point]
    assert result_type(TableChange.changes) is None
    assert result_type(Change.__repr__, TableChange[Point]) is None
    assert result_type(TableChange.changes, TableChange[Point] | None) is None


def test_the_item_of_an_iterable() -> None:
    kinds = [list[int], Iterator[str], tuple[int, ...], tuple[int, str], list[int | None], list, int, None]
    assert [iterable_item(kind) for kind in kinds] == [int, str, int, None, int | None, None, None, None]
