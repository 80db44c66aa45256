"""Functions whose call gives a generator are refused where a result is taken, when the plan is built."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from windrow import DataStreamSink, Pipeline, WatermarkStrategy, from_collection
from windrow import aggregates as agg
from windrow.connectors import CustomSink
from windrow.errors import InvalidArgumentError, PlanError
from windrow.evictors import DeltaEvictor, Evictor
from windrow.facts.lazy import COROUTINE, GENERATOR, lazy_result
from windrow.functions import (
    AggregateFunction,
    CoMapFunction,
    FilterFunction,
    FixedDelayRetryStrategy,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
)
from windrow.joins import into, left
from windrow.kafka import KafkaSink
from windrow.sinks import CollectSink
from windrow.state import AggregatingStateDescriptor, ReducingStateDescriptor
from windrow.triggers import DeltaTrigger, Trigger
from windrow.watermarks import WatermarkGenerator
from windrow.windows import EventTimeSessionWindows, GlobalWindows
from windrow_runtime.local import LocalRunner

# Any in this module: what mypy refuses is tried.

numbers = from_collection([1, 2])
stamped = numbers.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda n: n)
keyed = numbers.key_by(lambda number: number)
windows = keyed.count_window(2)


def twice(*values: Any) -> Iterator[Any]:
    yield values
    yield values


class Twice:
    def __call__(self, *values: Any) -> Iterator[Any]:
        yield values

    def method(self, *values: Any) -> Iterator[Any]:
        yield values

    @staticmethod
    def static(*values: Any) -> Iterator[Any]:
        yield values


def handing_on(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def call(*values: Any) -> Any:
        print("called")
        return function(*values)

    return call


def listed(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def call(*values: Any) -> Any:
        return list(function(*values))

    return call


async def later(*values: Any) -> Any:
    return values


def test_what_a_call_gives_in_place_of_a_result() -> None:
    yielding: list[Any] = [
        *(twice, Twice(), Twice().method, Twice.static, functools.partial(twice, 1), functools.partial(Twice())),
        *(functools.partial(Twice().method, 1), functools.cache(twice), handing_on(twice), handing_on(Twice().method)),
    ]
    assert {lazy_result(function) for function in yielding} == {GENERATOR}
    assert {lazy_result(function) for function in (later, handing_on(later), functools.partial(later))} == {COROUTINE}
    plain: list[Any] = [
        *(len, int, Twice, 7, functools.partial(len), functools.cache(len), handing_on(len)),
        *(listed(twice), contextmanager(twice), lambda value: (each for each in [value])),
    ]
    assert [function for function in plain if lazy_result(function) is not None] == []


TAKING: dict[str, Callable[[Any], object]] = {
    "map": numbers.map,
    "map of a keyed stream": keyed.map,
    "map of the second stream": lambda function: numbers.connect(numbers).map(abs, function),
    "filter": numbers.filter,
    "key_by": numbers.key_by,
    "key_by of connected streams": lambda function: numbers.connect(numbers).key_by(abs, function),
    "timestamps": lambda function: numbers.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=function
    ),
    "generator": WatermarkStrategy.for_generator,
    "rolling reduce": keyed.reduce,
    "rolling sum": keyed.sum,
    "min_by": keyed.min_by,
    "reduce of windows": windows.reduce,
    "selector": agg.sum,
    "record": lambda function: agg.into(function, agg.count()),
    "state": lambda function: ReducingStateDescriptor("total", function),
    "delta": lambda function: DeltaTrigger.of(1.0, function),
    "evictor": lambda function: DeltaEvictor.of(1.0, function),
    "gap": EventTimeSessionWindows.with_dynamic_gap,
    "join": lambda function: numbers.join(numbers).where(function),
    "joined pairs": lambda function: (
        numbers.join(numbers).where(abs).equal_to(abs).window(GlobalWindows.create()).apply(function)
    ),
    "field of a join": left,
    "record of a join": lambda function: into(function, left(abs)),
    "topic": lambda function: KafkaSink("broker", function),
    "retries": lambda function: FixedDelayRetryStrategy(2, retry_result=function),
    "errors to retry": lambda function: FixedDelayRetryStrategy(2, retry_on=function),
    "pipe": numbers.pipe,
}


@pytest.mark.parametrize("place", TAKING)
def test_a_generator_is_refused_where_a_result_is_taken(place: str) -> None:
    for function in (twice, Twice(), functools.partial(twice), handing_on(twice)):
        with pytest.raises(InvalidArgumentError, match="generator"):
            TAKING[place](function)


class Maps(MapFunction[int, Any]):
    def map(self, value: int) -> Iterator[int]:
        yield value


class Filters(FilterFunction[int]):
    def filter(self, value: int) -> Any:
        yield True


class Both(CoMapFunction[int, int, Any]):
    def map1(self, value: int) -> int:
        return value

    def map2(self, value: int) -> Iterator[int]:
        yield value


class Emits(FlatMapFunction[int, int]):
    def flat_map(self, value: int) -> Iterator[int]:
        yield value
        yield value


class Helped(MapFunction[int, int]):
    """Has a method of the name of another function's, which windrow does not call."""

    def map(self, value: int) -> int:
        return sum(self.filter(value))

    def filter(self, value: int) -> Iterator[int]:
        yield value


def test_classes_of_functions_and_what_the_error_says() -> None:
    for call in (
        lambda: numbers.map(Maps()),
        lambda: numbers.filter(Filters()),
        lambda: numbers.connect(numbers).map(Both()),
        lambda: numbers.map(Emits()),
    ):
        with pytest.raises(InvalidArgumentError, match="one with yield gives a generator"):
            call()
    with pytest.raises(InvalidArgumentError) as caught:
        numbers.map(twice)
    assert caught.value.given is twice
    assert str(caught.value.where).startswith(__file__)
    assert caught.value.hint == "use flat_map(function), which emits each value that it yields"


class Counts(AggregateFunction[int, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> Any:
        yield accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class HasCounts(KeyedProcessFunction[int, int, int]):
    COUNTS = AggregatingStateDescriptor("counts", Counts())

    def process_element(self, value: int, context: Any) -> Iterator[int]:
        yield value


class Asked(Trigger[int, Any]):
    def on_element(self, element: int, timestamp: int, window: Any, context: Any) -> Any:
        yield element

    def clear(self, window: Any, context: Any) -> None:
        """Keeps nothing."""


class Marks(WatermarkGenerator[int]):
    def on_event(self, element: int, timestamp: int, output: Any) -> Any:
        yield output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: Any) -> None:
        """Emits nothing."""


def marked_by(create: Callable[[], WatermarkGenerator[int]]) -> DataStreamSink:
    strategy = WatermarkStrategy.for_generator(create)
    return numbers.assign_timestamps_and_watermarks(strategy, timestamp=abs).sink_to(CollectSink())


FAULTS: dict[str, Callable[[], DataStreamSink]] = {
    "Counts.get_result": lambda: windows.aggregate(Counts()).sink_to(CollectSink()),
    "Counts.get_result of state": lambda: keyed.process(HasCounts()).sink_to(CollectSink()),
    "Asked.on_element": lambda: (
        keyed.window(GlobalWindows.create()).trigger(Asked()).reduce(max).sink_to(CollectSink())
    ),
    "Marks.on_event": lambda: marked_by(Marks),
}


@pytest.mark.parametrize("method", FAULTS)
def test_methods_whose_result_is_taken(method: str) -> None:
    with pytest.raises(PlanError) as caught:
        Pipeline("plan", FAULTS[method]())
    (fault,) = caught.value.faults
    name = method.removesuffix(" of state")
    assert fault.message == f"{name} is a generator, and its result is taken, not what it yields"


def test_the_class_of_a_watermark_generator_that_a_lambda_makes() -> None:
    pipeline = Pipeline("plan", marked_by(lambda: Marks()))  # noqa: PLW0108  a class would be seen before
    with pytest.raises(PlanError, match=r"Marks\.on_event is a generator"):
        LocalRunner().run(pipeline)


class Drops(Evictor[int, Any]):
    def evict_before(self, elements: Sequence[Any], size: int, window: Any, context: Any) -> Any:
        yield 0

    def evict_after(self, elements: Sequence[Any], size: int, window: Any, context: Any) -> Any:
        return ()


class Processes(KeyedProcessFunction[int, int, int]):
    def process_element(self, value: int, context: Any) -> Iterator[int]:
        context.timer_service.register_event_time_timer(10)
        yield value

    def on_timer(self, timestamp: int, context: Any) -> Iterator[int]:
        yield timestamp


def test_generators_where_several_values_are_taken() -> None:
    sinks = [CollectSink[Any]() for _ in range(6)]
    by_parity = stamped.key_by(lambda number: 0)
    results = LocalRunner().run(
        Pipeline(
            "plan",
            numbers.flat_map(twice).sink_to(sinks[0]),
            numbers.flat_map(Emits()).sink_to(sinks[1]),
            numbers.map(listed(twice)).sink_to(sinks[2]),
            by_parity.process(Processes()).sink_to(sinks[3]),
            by_parity.count_window(2)
            .apply(lambda key, window, elements: (each for each in elements))
            .sink_to(sinks[4]),
            by_parity.window(GlobalWindows.create_with_end_of_stream_trigger())
            .evictor(Drops())
            .reduce(max)
            .sink_to(sinks[5]),
            numbers.map(Helped()).sink_to(CollectSink()),
        )
    )
    assert [list(results.collected(sink)) for sink in sinks] == [
        [(1,), (1,), (2,), (2,)],
        [1, 1, 2, 2],
        [[(1,), (1,)], [(2,), (2,)]],
        [1, 2, 10],
        [1, 2],
        [2],
    ]


class Routed(CustomSink[int]):
    """Has attributes of its own, under names that say what they are."""

    functions = None

    def __init__(self) -> None:
        self.functions_by_name = {"twice": lambda number: (yield number)}

    def write(self, batch: int, elements: Sequence[int]) -> None: ...


def test_attributes_of_a_sink_of_the_users_are_its_own() -> None:
    assert "Routed" in Pipeline("own", numbers.sink_to(Routed())).explain()
