"""Arguments that cannot be meant, refused where they are given: for programs that no type checker has seen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from tests.counting import Count
from tests.dsl.plans import IN_ORDER, SECOND, SECONDS, cases, refusal
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.evictors import CountEvictor, TimeEvictor
from windrow.functions import AsyncFunction, CoMapFunction, MapFunction
from windrow.sinks import FunctionSink
from windrow.sources import CollectionSource, CsvFileSource, JsonFileSource, RateSource
from windrow.state import StateTtlConfig, ValueStateDescriptor
from windrow.triggers import ContinuousEventTimeTrigger, CountTrigger
from windrow.windows import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

NOTHING = 0 * SECOND

# Any: these tests give arguments of wrong types, which a type checker would refuse: a class where an instance is meant.
wrong: Any = object()
number: Any = 5
count_class: Any = Count
plain_function: Any = len

numbers = from_collection([1, 2])
keyed = numbers.key_by(abs)
windows = keyed.window(SECONDS)
sessions = keyed.window(EventTimeSessionWindows.with_gap(SECOND))
everything = numbers.window_all(SECONDS)
once, last = CountTrigger.of(1), CountEvictor.of(1)
late, later = OutputTag("late", int), OutputTag("later", int)

STEPS: dict[str, list[Callable[[], object]]] = {
    "map needs a function": [lambda: numbers.map(wrong)],
    "flat_map needs a function": [lambda: numbers.flat_map(wrong)],
    "filter needs a function": [lambda: numbers.filter(wrong)],
    "key_by needs a function": [lambda: numbers.key_by(wrong)],
    "watermarks need a strategy": [lambda: numbers.assign_timestamps_and_watermarks(wrong)],
    "assign_timestamps_and_watermarks needs a function": [
        lambda: numbers.assign_timestamps_and_watermarks(IN_ORDER, wrong)
    ],
    "a stream goes to a sink": [lambda: numbers.sink_to(wrong)],
    "a stream reads from a source": [lambda: from_source(wrong)],
    "windows need an assigner": [lambda: keyed.window(wrong), lambda: numbers.window_all(wrong)],
    "windows fire by a trigger": [lambda: windows.trigger(wrong)],
    "the trigger of a window is set twice": [
        lambda: windows.trigger(once).trigger(CountTrigger.of(2)),
        lambda: sessions.trigger(once).trigger(CountTrigger.of(2)),
        lambda: keyed.count_window(3).trigger(once),
    ],
    "the evictor of a window is set twice": [
        lambda: windows.evictor(last).evictor(CountEvictor.of(2)),
        lambda: keyed.count_window(3, 1).evictor(last),
    ],
    "the allowed lateness of a window is set twice": [
        lambda: windows.allowed_lateness(SECOND).allowed_lateness(SECOND)
    ],
    "the side output for late data of a window is set twice": [
        lambda: windows.side_output_late_data(late).side_output_late_data(later)
    ],
    "the allowed lateness must not be negative": [lambda: windows.allowed_lateness(-SECOND)],
    "reduce needs a function of two elements": [lambda: windows.reduce(wrong), lambda: everything.reduce(wrong)],
    "aggregate needs an aggregate function": [
        lambda: windows.aggregate(count_class),
        lambda: everything.aggregate(wrong),
    ],
    "the window function has the wrong kind": [
        lambda: windows.process(plain_function),
        lambda: windows.reduce(max, plain_function),
        lambda: windows.aggregate(Count(), plain_function),
    ],
    "apply needs a function": [lambda: windows.apply(wrong), lambda: everything.apply(wrong)],
    "the name of a pipeline is no line of text": [
        lambda: Pipeline("half of a character: \ud800"),
        lambda: Pipeline("clears a screen: \x1b[2J"),
        lambda: Pipeline("two\u2028lines"),
    ],
}
SETTINGS: dict[str, list[Callable[[], object]]] = {
    "a pipeline needs a name": [lambda: Pipeline("")],
    "a pipeline is made of sinks": [lambda: Pipeline("plan", wrong)],
    "an output tag needs a name": [lambda: OutputTag("")],
    "the size of tumbling windows must be positive": [
        lambda: TumblingEventTimeWindows.of(NOTHING),
        lambda: TumblingProcessingTimeWindows.of(-SECOND),
    ],
    "the size of tumbling windows must be a duration": [lambda: TumblingEventTimeWindows.of(number)],
    "the offset of tumbling windows must be smaller than their size": [
        lambda: TumblingEventTimeWindows.of(SECOND, offset=SECOND)
    ],
    "the size of sliding windows must be positive": [lambda: SlidingEventTimeWindows.of(NOTHING, SECOND)],
    "the slide of sliding windows must be positive": [lambda: SlidingProcessingTimeWindows.of(SECOND, NOTHING)],
    "the offset of sliding windows must be smaller than their slide": [
        lambda: SlidingEventTimeWindows.of(5 * SECOND, SECOND, offset=-SECOND)
    ],
    "the gap of session windows must be positive": [
        lambda: EventTimeSessionWindows.with_gap(NOTHING),
        lambda: ProcessingTimeSessionWindows.with_gap(-SECOND),
    ],
    "the count of a count trigger must be positive": [lambda: CountTrigger.of(0)],
    "the interval of a continuous trigger must be positive": [lambda: ContinuousEventTimeTrigger.of(NOTHING)],
    "the count of a count evictor must not be negative": [lambda: CountEvictor.of(-1)],
    "the span of a time evictor must not be negative": [lambda: TimeEvictor.of(-SECOND)],
    "the out-of-orderness must not be negative": [lambda: WatermarkStrategy.for_bounded_out_of_orderness(-SECOND)],
    "the idleness timeout must be positive": [lambda: IN_ORDER.with_idleness(NOTHING)],
    "on_malformed has an unknown value": [lambda: JsonFileSource("in", int, on_malformed=wrong)],
    "the delimiter must be one character": [lambda: CsvFileSource("in", int, delimiter=";;")],
    "a function sink needs a function": [lambda: FunctionSink(wrong)],
    "a state descriptor needs a name": [lambda: ValueStateDescriptor[int]("")],
    "the time to live of state must be positive": [lambda: StateTtlConfig(NOTHING)],
}


@pytest.mark.parametrize(("call", "message"), cases(STEPS))
def test_a_step_refuses_a_wrong_argument_and_names_the_line_of_the_call(
    call: Callable[[], object], message: str
) -> None:
    error = refusal(call)
    assert error.message == message
    assert str(error.where).startswith(f"{__file__}:")


@pytest.mark.parametrize(("call", "message"), cases(SETTINGS))
def test_a_setting_refuses_a_wrong_argument(call: Callable[[], object], message: str) -> None:
    assert refusal(call).message == message


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "3"], ids=repr)
@pytest.mark.parametrize(
    ("make", "what"),
    cases(
        {
            "the batch size": [lambda count: CollectionSource([1], batch_size=count)],
            "files_per_batch": [lambda count: JsonFileSource("in", int, files_per_batch=count)],
            "rows_per_second": [RateSource],
            "the count of a count trigger": [CountTrigger.of],
            "the size of a count window": [
                keyed.count_window,
                numbers.count_window_all,
                lambda count: keyed.count_window(count, 1),
                lambda count: numbers.count_window_all(count, 1),
            ],
            "the slide of a count window": [
                lambda count: keyed.count_window(1, count),
                lambda count: numbers.count_window_all(1, count),
            ],
        }
    ),
)
def test_what_counts_is_a_positive_int(make: Callable[[Any], object], what: str, count: Any) -> None:
    error = refusal(lambda: make(count))
    assert (error.message, error.expected) == (f"{what} must be positive", "an int of at least 1")


def test_an_offset_that_is_too_large_comes_with_the_one_that_was_meant() -> None:
    error = refusal(lambda: TumblingEventTimeWindows.of(5 * SECOND, offset=-7 * SECOND))
    assert error.hint == "an offset of 3 s gives the windows you mean"


async def awaited(element: Any) -> Any:
    return element


async def several_awaited(element: Any) -> AsyncIterator[Any]:
    yield element


class Awaited(MapFunction[int, int]):
    # What mypy refuses is tried.
    async def map(self, value: int) -> int:  # type: ignore[override]
        return value


class SecondAwaited(CoMapFunction[int, int, int]):
    def map1(self, value: int) -> int:
        return value

    async def map2(self, value: int) -> int:  # type: ignore[override]
        return value


class Asked(AsyncFunction[int, int]):
    async def invoke(self, value: int) -> int:
        return value


AWAITING: dict[str, Callable[[Any], object]] = {
    "map": numbers.map,
    "flat_map": numbers.flat_map,
    "filter": numbers.filter,
    "map_batches": lambda function: numbers.map_batches(function, size=2),
    "key_by": numbers.key_by,
    "map by key": keyed.map,
    "flat_map by key": keyed.flat_map,
    "filter by key": keyed.filter,
    "reduce": keyed.reduce,
    "map of two streams": lambda function: numbers.connect(numbers).map(abs, function),
    "apply": windows.apply,
    "reduce of windows": windows.reduce,
}


@pytest.mark.parametrize(
    "function",
    [awaited, several_awaited, partial(awaited), Awaited(), Asked(), Asked().invoke],
    ids=["def", "iterator", "partial", "class", "AsyncFunction", "method"],
)
@pytest.mark.parametrize("place", AWAITING)
def test_a_coroutine_function_is_refused_where_nobody_awaits(place: str, function: object) -> None:
    error = refusal(lambda: AWAITING[place](function))
    assert error.message == f"{place.split(maxsplit=1)[0]} does not await what a coroutine function gives"
    assert error.given is function
    assert str(error.where).startswith(f"{__file__}:")
    assert "use map_async(function, capacity=...)" in str(error.hint)


def test_a_function_of_two_streams_with_a_coroutine_is_refused() -> None:
    error = refusal(lambda: numbers.connect(numbers).map(SecondAwaited()))
    assert error.message == "map does not await what a coroutine function gives"


WHOLE: list[tuple[Callable[[], object], str]] = [
    (
        lambda: numbers.map(awaited),
        "map does not await what a coroutine function gives\n"
        "  given:    <function awaited>\n"
        "  expected: a function without async, whose result is there when it returns\n"
        "  where:    HERE\n"
        "  hint:     use map_async(function, capacity=...), which has many under way at once",
    ),
    (
        lambda: windows.aggregate(count_class),
        "aggregate needs an aggregate function\n"
        "  given:    <class 'tests.counting.Count'>\n"
        "  expected: an instance of AggregateFunction\n"
        "  where:    HERE\n"
        "  hint:     Count()",
    ),
]


@pytest.mark.parametrize(("call", "text"), WHOLE, ids=["coroutine", "class"])
def test_whole_texts(call: Callable[[], object], text: str) -> None:
    assert str(refusal(call)) == text.replace("HERE", f"{__file__}:{call.__code__.co_firstlineno}")
