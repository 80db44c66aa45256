"""Functions whose call gives a generator are refused where a result is taken, when the plan is built."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from tests.counting import MergingCount
from tests.dsl.plans import IN_ORDER, SECOND, fault_of, in_time, plan, refusal
from tests.waiting_trigger import WaitingTrigger
from windrow import DataStream, DataStreamSink, WatermarkStrategy, from_collection
from windrow import aggregates as agg
from windrow.connectors import CustomSink
from windrow.errors import PlanError
from windrow.evictors import DeltaEvictor, Evictor
from windrow.facts.lazy import COROUTINE, GENERATOR, lazy_result
from windrow.functions import (
    CoMapFunction,
    FilterFunction,
    FixedDelayRetryStrategy,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
)
from windrow.joins import into, left
from windrow.kafka import KafkaSink
from windrow.sinks import FunctionSink
from windrow.state import AggregatingStateDescriptor, ReducingStateDescriptor
from windrow.triggers import DeltaTrigger, MergingTrigger, PurgingTrigger
from windrow.watermarks import WatermarkGenerator
from windrow.windows import EventTimeSessionWindows, GlobalWindows, ProcessingTimeSessionWindows, WindowAssigner
from windrow_runtime.local import LocalRunner

# Any in this module: what mypy refuses is tried.

numbers = from_collection([1, 2])
keyed = numbers.key_by(lambda number: number)
windows = keyed.count_window(2)
by_parity = in_time([1, 2], lambda number: number).key_by(lambda number: 0)
sessions: WindowAssigner[int, Any] = ProcessingTimeSessionWindows.with_gap(SECOND)


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
        *(twice, Twice(), Twice().method, Twice.static, partial(twice, 1), partial(Twice())),
        *(partial(Twice().method, 1), functools.cache(twice), handing_on(twice), handing_on(Twice().method)),
    ]
    assert {lazy_result(function) for function in yielding} == {GENERATOR}
    assert {lazy_result(function) for function in (later, handing_on(later), partial(later))} == {COROUTINE}
    plain: list[Any] = [
        *(len, int, Twice, 7, partial(len), functools.cache(len), handing_on(len)),
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
    "timestamps": lambda function: numbers.assign_timestamps_and_watermarks(IN_ORDER, timestamp=function),
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
    for function in (twice, Twice(), partial(twice), handing_on(twice)):
        assert "generator" in refusal(partial(TAKING[place], function)).message


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
        assert "one with yield gives a generator" in str(refusal(call))
    error = refusal(lambda: numbers.map(twice))
    assert error.given is twice
    assert str(error.where).startswith(__file__)
    assert error.hint == "use flat_map(function), which emits each value that it yields"


class Counts(MergingCount):
    def get_result(self, accumulator: int) -> Any:
        yield accumulator


class HasCounts(KeyedProcessFunction[int, int, int]):
    COUNTS = AggregatingStateDescriptor("counts", Counts())

    def process_element(self, value: int, context: Any) -> Iterator[int]:
        yield value


class Asked(WaitingTrigger[int]):
    def on_element(self, element: int, timestamp: int, window: Any, context: Any) -> Any:
        yield element


class Marks(WatermarkGenerator[int]):
    def on_event(self, element: int, timestamp: int, output: Any) -> Any:
        yield output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: Any) -> None:
        """Emits nothing."""


class ClearsWithYield(ProcessWindowFunction[int, int, int, Any]):
    def process(self, key: int, context: Any, elements: Sequence[int]) -> Iterator[int]:
        yield key

    def clear(self, context: Any) -> Any:
        yield 1.0


class OpensLater(KeyedProcessFunction[int, int, int]):
    async def open(self, runtime_context: object) -> None:  # type: ignore[override]  # the fault
        """Never runs."""

    def process_element(self, value: int, context: object) -> list[int]:
        return [value]


class ClosesWithYield(MergingCount):
    def close(self) -> Any:
        yield


class MergesWithYield(MergingTrigger[object, Any]):
    def on_merge(self, window: Any, context: object) -> Any:
        yield

    def clear(self, window: Any, context: object) -> None:
        """Has no state."""


class WritesWithYield(CustomSink[int]):
    def write(self, batch: int, elements: Sequence[int]) -> Any:
        yield from elements


class AddsLater(MergingCount):
    async def add(self, value: object, accumulator: int) -> int:  # type: ignore[override]  # the fault
        return accumulator + 1


class ProcessesLater(KeyedProcessFunction[int, int, int]):
    async def process_element(self, value: int, context: Any) -> AsyncIterator[int]:  # type: ignore[override]
        yield value


def marked_by(create: Callable[[], WatermarkGenerator[int]]) -> DataStream[int]:
    return numbers.assign_timestamps_and_watermarks(WatermarkStrategy.for_generator(create), timestamp=abs)


TAKEN = "is a generator, and its result is taken, not what it yields"
UNRUN = "so none of its code would run when it is called"
AWAITED = "is a coroutine function, and nobody awaits what it gives"
merging = keyed.window(sessions).trigger(PurgingTrigger.of(MergesWithYield()))
FAULTS: list[tuple[str, Callable[[], DataStream[Any] | DataStreamSink]]] = [
    (f"Counts.get_result {TAKEN}", lambda: windows.aggregate(Counts())),
    (f"Counts.get_result {TAKEN}", lambda: keyed.process(HasCounts())),
    (f"Asked.on_element {TAKEN}", lambda: keyed.window(GlobalWindows.create()).trigger(Asked()).reduce(max)),
    (f"Marks.on_event {TAKEN}", lambda: marked_by(Marks)),
    (f"ClearsWithYield.clear is a generator, {UNRUN}", lambda: windows.process(ClearsWithYield())),
    (f"OpensLater.open is a coroutine, {UNRUN}", lambda: keyed.process(OpensLater())),
    (f"ClosesWithYield.close is a generator, {UNRUN}", lambda: windows.aggregate(ClosesWithYield())),
    (f"MergesWithYield.on_merge is a generator, {UNRUN}", lambda: merging.reduce(max)),
    (f"WritesWithYield.write is a generator, {UNRUN}", lambda: numbers.sink_to(WritesWithYield())),
    (f"twice is a generator, {UNRUN}", lambda: numbers.sink_to(FunctionSink(twice))),
    (f"Twice is a generator, {UNRUN}", lambda: numbers.sink_to(FunctionSink(Twice()))),
    (f"AddsLater.add {AWAITED}", lambda: windows.aggregate(AddsLater())),
    (f"ProcessesLater.process_element {AWAITED}", lambda: keyed.process(ProcessesLater())),
]


@pytest.mark.parametrize(("message", "make"), FAULTS, ids=map(str, range(len(FAULTS))))
def test_methods_that_would_not_do_what_they_say(message: str, make: Callable[[], Any]) -> None:
    fault = fault_of(make())
    assert fault.message == message
    assert (fault.hint == "write it without yield and async; nobody takes what it gives") == (UNRUN in message)


def test_the_class_of_a_watermark_generator_that_a_lambda_makes() -> None:
    pipeline = plan(marked_by(lambda: Marks()))  # noqa: PLW0108  a class would be seen before
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


TAKING_SEVERAL: list[tuple[DataStream[Any], list[object]]] = [
    (numbers.flat_map(twice), [(1,), (1,), (2,), (2,)]),
    (numbers.flat_map(Emits()), [1, 1, 2, 2]),
    (numbers.map(listed(twice)), [[(1,), (1,)], [(2,), (2,)]]),
    (numbers.map(Helped()), [1, 2]),
    (by_parity.process(Processes()), [1, 2, 10]),
    (by_parity.count_window(2).apply(lambda key, window, elements: (each for each in elements)), [1, 2]),
    (by_parity.window(GlobalWindows.create_with_end_of_stream_trigger()).evictor(Drops()).reduce(max), [2]),
]


@pytest.mark.parametrize(("stream", "results"), TAKING_SEVERAL, ids=map(str, range(7)))
def test_generators_where_several_values_are_taken(stream: DataStream[Any], results: list[object]) -> None:
    assert stream.collect() == results


class Routed(CustomSink[int]):
    """Has attributes of its own, under names that say what they are."""

    functions = None

    def __init__(self) -> None:
        self.functions_by_name = {"twice": lambda number: (yield number)}

    def write(self, batch: int, elements: Sequence[int]) -> None: ...


def test_attributes_of_a_sink_of_the_users_are_its_own() -> None:
    assert "Routed" in plan(numbers.sink_to(Routed())).explain()
