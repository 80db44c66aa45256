"""Arguments that cannot be meant, refused where they are given: for programs that no type checker has seen."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from tests.counting import Count
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import InvalidArgumentError
from windrow.evictors import CountEvictor, TimeEvictor
from windrow.functions import AsyncFunction, CoMapFunction, MapFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import CollectionSource, CsvFileSource, JsonFileSource, RateSource
from windrow.state import StateTtlConfig, ValueStateDescriptor
from windrow.triggers import ContinuousEventTimeTrigger, CountTrigger
from windrow.windows import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

SECOND = timedelta(seconds=1)
NOTHING = timedelta(0)

# Any: these tests give arguments of wrong types, which a type checker would refuse.
wrong: Any = object()
number: Any = 5


class Last(ProcessWindowFunction[int, int, int, TimeWindow]):
    def process(self, key: int, context: ProcessWindowContext[TimeWindow], elements: Sequence[int]) -> Iterable[int]:
        return elements[-1:]


numbers = from_collection([1, 2])
keyed = numbers.key_by(abs)
windows = keyed.window(TumblingEventTimeWindows.of(SECOND))
sessions = keyed.window(EventTimeSessionWindows.with_gap(SECOND))
everything = numbers.window_all(TumblingEventTimeWindows.of(SECOND))
bounded = WatermarkStrategy.for_monotonous_timestamps()

# Any: a class where an instance is meant.
count_class: Any = Count
plain_function: Any = len


def late(name: str) -> OutputTag[int]:
    return OutputTag(name, int)


# Each call with the first line of its error, and whether the error knows the line of the user's program.
CALLS: list[tuple[str, Callable[[], object], str, bool]] = [
    ("map", lambda: numbers.map(wrong), "map needs a function", True),
    ("flat_map", lambda: numbers.flat_map(wrong), "flat_map needs a function", True),
    ("filter", lambda: numbers.filter(wrong), "filter needs a function", True),
    ("key_by", lambda: numbers.key_by(wrong), "key_by needs a function", True),
    ("strategy", lambda: numbers.assign_timestamps_and_watermarks(wrong), "watermarks need a strategy", True),
    (
        "timestamp",
        lambda: numbers.assign_timestamps_and_watermarks(bounded, wrong),
        "assign_timestamps_and_watermarks needs a function",
        True,
    ),
    ("sink", lambda: numbers.sink_to(wrong), "a stream goes to a sink", True),
    ("source", lambda: from_source(wrong), "a stream reads from a source", True),
    ("window", lambda: keyed.window(wrong), "windows need an assigner", True),
    ("window_all", lambda: numbers.window_all(wrong), "windows need an assigner", True),
    ("trigger", lambda: windows.trigger(wrong), "windows fire by a trigger", True),
    (
        "two triggers",
        lambda: windows.trigger(CountTrigger.of(1)).trigger(CountTrigger.of(2)),
        "the trigger of a window is set twice",
        True,
    ),
    (
        "two triggers on sessions",
        lambda: sessions.trigger(CountTrigger.of(1)).trigger(CountTrigger.of(2)),
        "the trigger of a window is set twice",
        True,
    ),
    (
        "a trigger on a count window",
        lambda: keyed.count_window(3).trigger(CountTrigger.of(1)),
        "the trigger of a window is set twice",
        True,
    ),
    (
        "two evictors",
        lambda: windows.evictor(CountEvictor.of(1)).evictor(CountEvictor.of(2)),
        "the evictor of a window is set twice",
        True,
    ),
    (
        "an evictor on a sliding count window",
        lambda: keyed.count_window(3, 1).evictor(CountEvictor.of(2)),
        "the evictor of a window is set twice",
        True,
    ),
    (
        "two latenesses",
        lambda: windows.allowed_lateness(SECOND).allowed_lateness(SECOND),
        "the allowed lateness of a window is set twice",
        True,
    ),
    (
        "two tags",
        lambda: windows.side_output_late_data(late("a")).side_output_late_data(late("b")),
        "the side output for late data of a window is set twice",
        True,
    ),
    ("negative lateness", lambda: windows.allowed_lateness(-SECOND), "the allowed lateness must not be negative", True),
    ("reduce", lambda: windows.reduce(wrong), "reduce needs a function of two elements", True),
    ("reduce all", lambda: everything.reduce(wrong), "reduce needs a function of two elements", True),
    ("aggregate", lambda: windows.aggregate(count_class), "aggregate needs an aggregate function", True),
    ("aggregate all", lambda: everything.aggregate(wrong), "aggregate needs an aggregate function", True),
    ("process", lambda: windows.process(plain_function), "the window function has the wrong kind", True),
    ("apply", lambda: windows.apply(wrong), "apply needs a function", True),
    ("apply all", lambda: everything.apply(wrong), "apply needs a function", True),
    ("behind reduce", lambda: windows.reduce(max, plain_function), "the window function has the wrong kind", True),
    (
        "behind aggregate",
        lambda: windows.aggregate(Count(), plain_function),
        "the window function has the wrong kind",
        True,
    ),
    ("pipeline without name", lambda: Pipeline(""), "a pipeline needs a name", False),
    ("pipeline of half a character", lambda: Pipeline("p\ud800"), "the name of a pipeline is no line of text", True),
    ("pipeline that clears a screen", lambda: Pipeline("p\x1b[2J"), "the name of a pipeline is no line of text", True),
    ("pipeline of two lines", lambda: Pipeline("p\u2028q"), "the name of a pipeline is no line of text", True),
    ("pipeline of a stream", lambda: Pipeline("plan", wrong), "a pipeline is made of sinks", False),
    ("tag without name", lambda: OutputTag(""), "an output tag needs a name", False),
    (
        "tumbling 0",
        lambda: TumblingEventTimeWindows.of(NOTHING),
        "the size of tumbling windows must be positive",
        False,
    ),
    (
        "tumbling -1",
        lambda: TumblingProcessingTimeWindows.of(-SECOND),
        "the size of tumbling windows must be positive",
        False,
    ),
    (
        "tumbling in seconds",
        lambda: TumblingEventTimeWindows.of(number),
        "the size of tumbling windows must be a duration",
        False,
    ),
    (
        "tumbling offset",
        lambda: TumblingEventTimeWindows.of(SECOND, offset=SECOND),
        "the offset of tumbling windows must be smaller than their size",
        False,
    ),
    (
        "sliding size",
        lambda: SlidingEventTimeWindows.of(NOTHING, SECOND),
        "the size of sliding windows must be positive",
        False,
    ),
    (
        "sliding slide",
        lambda: SlidingProcessingTimeWindows.of(SECOND, NOTHING),
        "the slide of sliding windows must be positive",
        False,
    ),
    (
        "sliding offset",
        lambda: SlidingEventTimeWindows.of(5 * SECOND, SECOND, offset=-SECOND),
        "the offset of sliding windows must be smaller than their slide",
        False,
    ),
    ("gap", lambda: EventTimeSessionWindows.with_gap(NOTHING), "the gap of session windows must be positive", False),
    (
        "clock gap",
        lambda: ProcessingTimeSessionWindows.with_gap(-SECOND),
        "the gap of session windows must be positive",
        False,
    ),
    ("count trigger", lambda: CountTrigger.of(0), "the count of a count trigger must be positive", False),
    (
        "continuous trigger",
        lambda: ContinuousEventTimeTrigger.of(NOTHING),
        "the interval of a continuous trigger must be positive",
        False,
    ),
    ("count evictor", lambda: CountEvictor.of(-1), "the count of a count evictor must not be negative", False),
    ("time evictor", lambda: TimeEvictor.of(-SECOND), "the span of a time evictor must not be negative", False),
    (
        "out-of-orderness",
        lambda: WatermarkStrategy.for_bounded_out_of_orderness(-SECOND),
        "the out-of-orderness must not be negative",
        False,
    ),
    ("idleness", lambda: bounded.with_idleness(NOTHING), "the idleness timeout must be positive", False),
    ("on_malformed", lambda: JsonFileSource("in", int, on_malformed=wrong), "on_malformed has an unknown value", False),
    ("delimiter", lambda: CsvFileSource("in", int, delimiter=";;"), "the delimiter must be one character", False),
    ("function sink", lambda: FunctionSink(wrong), "a function sink needs a function", False),
    ("state", lambda: ValueStateDescriptor[int](""), "a state descriptor needs a name", False),
    ("time to live", lambda: StateTtlConfig(NOTHING), "the time to live of state must be positive", False),
]


@pytest.mark.parametrize(("call", "message", "placed"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS])
def test_a_wrong_argument(call: Callable[[], object], message: str, placed: bool) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert caught.value.message == message
    if placed:
        # A lambda over several lines is on the line of the call that raised.
        assert str(caught.value.where).startswith(f"{__file__}:")


@pytest.mark.parametrize("size", [0, -1, 1.5, True], ids=str)
def test_count_windows_need_positive_sizes(size: int) -> None:
    for call in (
        lambda: keyed.count_window(size),
        lambda: keyed.count_window(size, 1),
        lambda: keyed.count_window(1, size),
        lambda: numbers.count_window_all(size),
        lambda: numbers.count_window_all(size, 1),
        lambda: numbers.count_window_all(1, size),
    ):
        with pytest.raises(InvalidArgumentError, match="must be positive"):
            call()


async def later(element: Any) -> Any:
    return element


async def several_later(element: Any) -> AsyncIterator[Any]:
    yield element


class Later(MapFunction[int, int]):
    # What mypy refuses is tried.
    async def map(self, value: int) -> int:  # type: ignore[override]
        return value


class BothLater(CoMapFunction[int, int, int]):
    def map1(self, value: int) -> int:
        return value

    async def map2(self, value: int) -> int:  # type: ignore[override]
        return value


class Asked(AsyncFunction[int, int]):
    async def invoke(self, value: int) -> int:
        return value


# Any: as above.
asynchronous: list[Any] = [later, several_later, partial(later), Later(), Asked(), Asked().invoke]

AWAITING: list[tuple[str, Callable[[Any], object]]] = [
    ("map", numbers.map),
    ("flat_map", numbers.flat_map),
    ("filter", numbers.filter),
    ("map_batches", lambda function: numbers.map_batches(function, size=2)),
    ("key_by", numbers.key_by),
    ("map", keyed.map),
    ("flat_map", keyed.flat_map),
    ("filter", keyed.filter),
    ("reduce", keyed.reduce),
    ("map", lambda function: numbers.connect(numbers).map(abs, function)),
    ("apply", windows.apply),
    ("reduce", windows.reduce),
]


@pytest.mark.parametrize(
    "function", asynchronous, ids=["def", "iterator", "partial", "class", "AsyncFunction", "method"]
)
@pytest.mark.parametrize(
    ("name", "call"), AWAITING, ids=[f"{name} {place}" for place, (name, _) in enumerate(AWAITING)]
)
def test_a_coroutine_function_is_refused_where_nobody_awaits(
    name: str, call: Callable[[Any], object], function: object
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call(function)
    assert caught.value.message == f"{name} does not await what a coroutine function gives"
    assert caught.value.given is function
    assert str(caught.value.where).startswith(f"{__file__}:")
    assert "use map_async(function, capacity=...)" in str(caught.value.hint)


def test_a_function_of_two_streams_with_a_coroutine_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="map does not await what a coroutine function gives"):
        numbers.connect(numbers).map(BothLater())


def test_the_whole_text_of_an_error_about_a_coroutine_function() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        numbers.map(later)
    at = f"{__file__}:{sys._getframe().f_lineno - 1}"
    assert str(caught.value) == (
        "map does not await what a coroutine function gives\n"
        "  given:    <function later>\n"
        "  expected: a function without async, whose result is there when it returns\n"
        f"  where:    {at}\n"
        "  hint:     use map_async(function, capacity=...), which has many under way at once"
    )


def test_the_whole_text_of_one() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        windows.aggregate(count_class)
    at = f"{__file__}:{sys._getframe().f_lineno - 1}"
    assert str(caught.value) == (
        "aggregate needs an aggregate function\n"
        "  given:    <class 'tests.counting.Count'>\n"
        "  expected: an instance of AggregateFunction\n"
        f"  where:    {at}\n"
        "  hint:     Count()"
    )


def test_a_class_where_an_instance_is_meant_is_named_in_the_hint() -> None:
    with pytest.raises(InvalidArgumentError, match=r"hint:     Count\(\)"):
        windows.aggregate(count_class)


def test_an_offset_that_is_too_large_comes_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        TumblingEventTimeWindows.of(5 * SECOND, offset=-7 * SECOND)
    assert caught.value.hint == "an offset of 3 s gives the windows you mean"


def test_two_sinks_may_have_the_same_name() -> None:
    first, second = CollectSink[int](), CollectSink[int]()
    Pipeline("plan", numbers.sink_to(first), numbers.sink_to(second))


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "3"], ids=repr)
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda count: CollectionSource([1], batch_size=count), "the batch size"),
        (lambda count: JsonFileSource("in", int, files_per_batch=count), "files_per_batch"),
        (RateSource, "rows_per_second"),
        (CountTrigger.of, "the count of a count trigger"),
        (numbers.count_window_all, "the size of a count window"),
    ],
    ids=["batch size", "files per batch", "rate", "trigger", "window"],
)
def test_what_counts_is_a_positive_int(make: Callable[[Any], object], what: str, count: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{what} must be positive(.|\n)*an int of at least 1"):
        make(count)
