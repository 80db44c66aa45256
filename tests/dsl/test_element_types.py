"""What the plan knows of element types: from annotations, type arguments, and what the user states."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

import pytest

from tests.support.records import Reading
from windrow import DataStream, OutputTag, WatermarkStrategy, from_collection, from_source
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
from windrow.plan import KeyByNode
from windrow.plan.hints import resolved_hints
from windrow.plan.keys import key_type
from windrow.plan.types import base_argument, iterable_item, result_type
from windrow.sources import CollectionSource, JsonFileSource, MalformedRecord, RateRecord, RateSource
from windrow.windows import GlobalWindow, TimeWindow, TumblingEventTimeWindows, Window

T = TypeVar("T")
A = TypeVar("A")
W = TypeVar("W", bound=Window)


class Point(NamedTuple):
    x: int
    y: int


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


readings = from_collection([Reading("a", 0, 1.0)])
windows = (
    readings.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), lambda r: r.at)
    .key_by(Sensor())
    .window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
)
all_windows = readings.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps(), lambda r: r.at
).window_all(TumblingEventTimeWindows.of(timedelta(seconds=1)))


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (from_collection([1, 2]), int),
        (from_collection([Point(1, 2)]), Point),
        (from_collection([True, False]), bool),
        (from_collection([]), None),
        (from_collection([1, "a"]), None),
        (from_collection([1, True]), None),
        (from_collection([(1, 2)]), None),
        (from_collection([(1, 2)], tuple[int, int]), tuple[int, int]),
        (from_collection([1, None], int | None), int | None),
        (from_source(CollectionSource([1])), int),
        (from_source(JsonFileSource("in", Reading)), Reading),
        (from_source(RateSource()), RateRecord),
    ],
    ids=[
        "int",
        "named tuple",
        "bool",
        "empty",
        "mixed",
        "int and bool",
        "tuple",
        "stated",
        "optional",
        "source",
        "file",
        "rate",
    ],
)
def test_sources(stream: DataStream[object], expected: object) -> None:
    assert stream.element_type == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (celsius, float),
        (maybe, float | None),
        (Celsius(), float),
        (functools.partial(pair, number=1), tuple[str, int]),
        (Point, Point),
        (str, str),
        (lambda reading: 1.0, float),
        (lambda reading: reading.sensor, None),
        (unannotated, object),
        (unresolvable, object),
        (whatever, object),
        (generic, list[object]),
        (len, int),
        (str.upper, str),
    ],
    ids=[
        "function",
        "optional",
        "map function",
        "partial",
        "class",
        "builtin class",
        "lambda",
        "a field that objects have not",
        "unannotated",
        "unresolvable",
        "Any",
        "generic",
        "builtin",
        "method",
    ],
)
def test_map(function: Callable[[object], object], expected: object) -> None:
    anything: DataStream[object] = from_collection([], object)
    assert anything.map(function).element_type == expected


def test_a_lambda_that_only_makes_a_record_says_its_class() -> None:
    anything: DataStream[Any] = from_collection([], object)
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
    anything: DataStream[Any] = from_collection([], object)
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

    numbers = from_collection([], int)
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


def test_flat_map_takes_the_item() -> None:
    assert readings.flat_map(letters).element_type is str
    assert readings.flat_map(Letters()).element_type is str
    assert readings.flat_map(lambda reading: [reading]).element_type is Reading
    assert readings.flat_map(lambda reading: [letter.upper() for letter in reading.sensor]).element_type is None


def test_steps_that_keep_the_type() -> None:
    stamped = readings.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), lambda reading: reading.at
    )
    assert readings.filter(Everything()).element_type is Reading
    assert stamped.element_type is Reading
    assert readings.key_by(celsius).node.element_type is Reading


def test_a_union_knows_its_type_where_all_agree() -> None:
    numbers = from_collection([], int)
    assert numbers.union(numbers.filter(Everything())).element_type is int
    assert numbers.union(numbers.map(lambda number: number)).element_type is int
    assert numbers.union(numbers.map(lambda number: [*range(number)])).element_type is None


def test_returns_states_the_type() -> None:
    assert readings.map(lambda r: (r.sensor, r.at)).returns(tuple[str, int]).element_type == tuple[str, int]


def test_keys() -> None:
    assert key_type(readings.key_by(celsius).node) is float
    assert key_type(readings.key_by(Sensor()).node) is str
    assert key_type(readings.key_by(lambda reading: reading.sensor).node) is str
    assert key_type(readings.key_by(lambda reading: str([*reading.sensor]), str).node) is str
    assert key_type(readings.key_by(lambda reading: "".join([*reading.sensor])).node) is None


def stated_key_type(node: KeyByNode) -> object:
    return node.key_type


def test_window_functions() -> None:
    assert windows.reduce(Coldest()).element_type is Reading
    assert windows.reduce(lambda a, b: a).element_type is Reading
    assert windows.reduce(Coldest(), NamedReadings()).element_type is Point
    assert windows.process(NamedReadings()).element_type is Point
    assert windows.aggregate(CountReadings()).element_type is int
    assert windows.aggregate(CountWithMixin()).element_type is int
    assert windows.aggregate(CountReadings(), NamedCounts()).element_type is Point
    assert windows.aggregate(FoldReadings()).element_type == tuple[int, Reading]
    assert windows.aggregate(OpenFold()).element_type is Point
    assert all_windows.process(CountOfAll()).element_type is int
    assert all_windows.reduce(Coldest(), CountOfAll()).element_type is int


def first_sensor(key: str, window: TimeWindow, elements: Sequence[Reading]) -> list[str]:
    return [elements[0].sensor]


def test_apply() -> None:
    assert windows.apply(first_sensor).element_type is str
    assert windows.apply(lambda key, window, elements: [key]).element_type is str
    assert windows.apply(lambda key, window, elements: [elements[0]] if window.start else []).element_type is Reading
    assert all_windows.apply(lambda window, elements: [(window.end, len(elements))]).element_type == tuple[int, int]
    assert windows.apply(lambda key, window, elements: [*elements]).element_type is None


def test_side_outputs() -> None:
    late = OutputTag[Reading]("late")
    typed = OutputTag("late", Reading)
    malformed = OutputTag("malformed", MalformedRecord)
    reduced = windows.side_output_late_data(late).reduce(Coldest())
    source = from_source(JsonFileSource("in", Reading, on_malformed=malformed))
    assert reduced.get_side_output(late).element_type is Reading
    assert reduced.get_side_output(typed).element_type is Reading
    assert reduced.get_side_output(OutputTag[int]("other")).element_type is int
    assert reduced.get_side_output(OutputTag[Any]("other")).element_type is None
    assert source.get_side_output(malformed).element_type is MalformedRecord


def test_type_arguments_through_all_levels() -> None:
    assert base_argument(FoldReadings(), AggregateFunction, 0) is Reading
    assert base_argument(FoldReadings(), AggregateFunction, 1) == list[Reading]
    assert base_argument(FoldReadings(), AggregateFunction, 2) == tuple[int, Reading]
    assert base_argument(NamedReadings(), ProcessWindowFunction, 3) is TimeWindow
    assert base_argument(Named[int, GlobalWindow](), ProcessWindowFunction, 1) is Point
    assert base_argument(object(), AggregateFunction, 0) is None


def test_parts_of_signatures() -> None:
    assert result_type(pair) == tuple[str, int]


def test_a_type_with_an_open_part_is_not_known() -> None:
    assert result_type(nested) is None
    assert result_type(nested_any) is None


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (list[int], int),
        (Iterator[str], str),
        (tuple[int, ...], int),
        (tuple[int, str], None),
        (list[int | None], int | None),
        (list, None),
        (int, None),
        (None, None),
    ],
    ids=str,
)
def test_the_item_of_an_iterable(kind: object, item: object) -> None:
    assert iterable_item(kind) == item
