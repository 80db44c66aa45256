"""A call of a keyed process function that fails changes nothing: no output, no state, no timer."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, get_args, get_origin

import pytest

from tests.support.failing import ONE_IN, SEEN, Collected, Keeps, Number, is_bad
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.errors import UnsupportedOperationError, UserFunctionError
from windrow.failures import Failed, OnError, Retry
from windrow.functions import (
    AggregateFunction,
    BroadcastContext,
    CoProcessFunction,
    FixedDelayRetryStrategy,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    ProcessContext,
    ReadOnlyContext,
    ReadOnlyOnTimerContext,
    TimeDomain,
)
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from windrow_runtime.local import LocalRunner, PipelineResult
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: elements of every type.

FAILED = OutputTag[Failed[Number | None]]("failed")


class Hashes(AggregateFunction[int, Any, int]):
    def create_accumulator(self) -> Any:
        return hashlib.sha256()

    def add(self, value: int, accumulator: Any) -> Any:
        accumulator.update(bytes(value))
        return accumulator

    def get_result(self, accumulator: Any) -> int:
        return len(accumulator.digest())


class Digests(KeyedProcessFunction[str, Number, int]):
    DIGEST = AggregatingStateDescriptor("digest", Hashes())

    def process_element(self, value: Number, context: KeyedProcessContext[str]) -> None:
        context.get_state(self.DIGEST).add(value.value)


def test_state_that_cannot_be_copied_is_refused() -> None:
    strategy = WatermarkStrategy[Number].for_monotonous_timestamps()
    source = from_source(CollectionSource([Number("a", 1, 1)])).returns(Number)
    stamped = source.assign_timestamps_and_watermarks(strategy, lambda number: number.at)
    made = stamped.key_by(lambda number: number.key).process(Digests(), on_error="drop")
    with pytest.raises(UnsupportedOperationError, match="an accumulator that cannot be copied has no on_error"):
        made.collect()


def numbers_of(seed: int) -> list[Number]:
    chance = random.Random(seed)
    return [Number(chance.choice("ab"), 2 * at + chance.randrange(20), chance.randrange(1000)) for at in range(150)]


def outputs(numbers: list[Number], function: Keeps, on_error: OnError[Number | None]) -> tuple[Any, PipelineResult]:
    strategy = WatermarkStrategy[Number].for_bounded_out_of_orderness(timedelta(milliseconds=20))
    source = from_source(CollectionSource(numbers, batch_size=10)).returns(Number)
    stamped = source.assign_timestamps_and_watermarks(strategy, lambda number: number.at)
    made = stamped.key_by(lambda number: number.key).process(function, on_error=on_error)
    streams: list[DataStream[Any]] = [made, made.get_side_output(SEEN)]
    if on_error is FAILED:
        streams.append(made.get_side_output(FAILED))
    sinks = [CollectSink[Any]() for _ in streams]
    ends = [stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True)]
    # The timers set each other without end.
    result = LocalRunner().run(Pipeline("keyed", *ends), drain=False)
    return [result.collected(sink) for sink in sinks], result


@pytest.mark.parametrize("seed", range(6))
def test_a_failed_call_changes_nothing(seed: int) -> None:
    numbers = numbers_of(seed)
    (made, seen), _ = outputs(numbers, Keeps(raises=False), "fail")
    (made_too, seen_too, failed), _ = outputs(numbers, Keeps(raises=True), FAILED)
    assert (made_too, seen_too) == (made, seen)
    elements = [each for each in failed if each.element is not None]
    assert [each.element for each in elements] == [number for number in numbers if is_bad(number)]
    timers = [each.error for each in failed if each.element is None]
    assert timers
    assert all("UnluckyError: the timer" in error and "5 in event_time)" in error for error in timers)
    (made_again, _), result = outputs(numbers, Keeps(raises=True), "drop")
    assert made_again == made
    assert result.counter("failed_records_dropped") == len(failed)


class Adds(KeyedProcessFunction[str, Number, int]):
    """Adds to a list before it raises, twice of three times."""

    LIST = ListStateDescriptor("list", int)

    def __init__(self, tries: list[int]) -> None:
        self.tries = tries

    def process_element(self, value: Number, context: KeyedProcessContext[str]) -> list[int]:
        held = context.get_state(self.LIST)
        held.add(value.value)
        TRIES.append(value.value)
        if len(TRIES) % 3:
            raise OSError("not yet")
        return [len(held.get())]


TRIES: list[int] = []


def test_a_further_try_begins_with_the_state_before_the_first() -> None:
    TRIES.clear()
    numbers = from_source(CollectionSource([Number("a", 1, 1), Number("a", 2, 2)])).returns(Number)
    again = Retry[Number | None](FixedDelayRetryStrategy(3, timedelta(0)))
    made = numbers.key_by(lambda number: number.key).process(Adds(TRIES), on_error=again)
    assert made.collect() == [1, 2]
    assert TRIES == [1, 1, 1, 2, 2, 2]


def test_a_retry_may_end_with_an_error() -> None:
    TRIES.clear()
    numbers = from_source(CollectionSource([Number("a", 1, 1)])).returns(Number)
    again = Retry[Number | None](FixedDelayRetryStrategy(2, timedelta(0)))
    made = numbers.key_by(lambda number: number.key).process(Adds(TRIES), on_error=again)
    with pytest.raises(UserFunctionError, match=r"key 'a', element Number.*2 tries"):
        made.collect()


def test_the_side_output_says_that_a_timer_has_no_element() -> None:
    numbers = from_source(CollectionSource([Number("a", 1, ONE_IN)])).returns(Number)
    made = numbers.key_by(lambda number: number.key).process(Keeps(raises=True), on_error=OutputTag("failed"))
    type_form = made.get_side_output(OutputTag("failed")).element_type
    assert (get_origin(type_form), get_args(type_form)) == (Failed, (Number | None,))


class _Gathers(KeyedProcessFunction[str, int, tuple[int, ...]]):
    """Reads a state and changes its value in place, before it raises."""

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        self.numbers = ReducingStateDescriptor[list[int]]("numbers", gathered, ttl=ttl)
        self.sets = AggregatingStateDescriptor("sets", Collected(), ttl=ttl)

    def process_element(self, value: int, context: KeyedProcessContext[str]) -> list[tuple[int, ...]]:
        numbers, sets = context.get_state(self.numbers), context.get_state(self.sets)
        numbers.get()
        sets.get()
        numbers.add([value])
        sets.add(value)
        numbers.get()
        raising(value)
        return [(*(numbers.get() or ()), *(sets.get() or ()))]


def gathered(before: list[int], numbers: list[int]) -> list[int]:
    before.extend(numbers)
    return before


@pytest.mark.parametrize("refresh", [None, False, True])
def test_a_value_that_was_read_and_changed_in_place_is_as_before(refresh: bool | None) -> None:
    ttl = None if refresh is None else StateTtlConfig(timedelta(hours=1), refresh_on_read=refresh)
    keyed = from_source(CollectionSource([1, 5, 3])).returns(int).key_by(lambda number: "k")
    assert keyed.process(_Gathers(ttl), on_error="drop").collect() == [(1, 1), (1, 3, 1, 3)]


TTLS = [None, *(StateTtlConfig(timedelta(seconds=60), time_domain=domain) for domain in TimeDomain)]


@pytest.mark.parametrize("after", TTLS)
@pytest.mark.parametrize("before", TTLS)
def test_a_failed_call_converts_no_state_whose_time_to_live_has_changed(
    before: StateTtlConfig | None, after: StateTtlConfig | None
) -> None:
    class Changing(KeyedProcessFunction[int, int, list[list[int] | None]]):
        def process_element(self, value: int, context: KeyedProcessContext[int]) -> list[list[list[int] | None]]:
            ttl = after if value else before
            total = context.get_state(ReducingStateDescriptor[list[int]]("sum", gathered, ttl=ttl))
            numbers = context.get_state(ListStateDescriptor("list", int, ttl=ttl))
            total.get()
            total.add([value])
            numbers.add(value)
            raising(value)
            return [[total.get(), list(numbers.get())]]

    numbers = PushSource[int]()
    made = from_source(numbers).key_by(lambda number: 0).process(Changing(), on_error="drop")
    with StreamHarness(made, numbers) as harness:
        for second, number in enumerate([0, 5, 15, 2]):
            harness.set_processing_time(second * 10_000)
            harness.process_element(number, second * 10_000)
        assert harness.take_values() == [[[0], [0]], [[0, 2], [0, 2]]]
        harness.set_processing_time(10**9)
        harness.process_watermark(10**9)
        (operator,) = harness._execution.operators.values()
        assert bool(operator.state.keys) == (after is None)


def raising(number: int) -> int:
    if number % ONE_IN == ONE_IN // 2:
        raise ValueError(number)
    return number


@pytest.mark.parametrize(
    ("call", "good"),
    [
        (lambda keyed, tag: keyed.reduce(lambda a, b: a + raising(b), on_error=tag), [1, 3, 6]),
        (lambda keyed, tag: keyed.sum(raising, on_error=tag), [("k", 1), ("k", 3), ("k", 6)]),
        (lambda keyed, tag: keyed.min(raising, on_error=tag), [("k", 1)] * 3),
        (lambda keyed, tag: keyed.max(raising, on_error=tag), [("k", 1), ("k", 2), ("k", 3)]),
        (lambda keyed, tag: keyed.min_by(raising, on_error=tag), [1, 1, 1]),
        (lambda keyed, tag: keyed.max_by(raising, on_error=tag), [1, 2, 3]),
    ],
    ids=["reduce", "sum", "min", "max", "min_by", "max_by"],
)
def test_a_rolling_aggregate_leaves_out_what_fails(call: Any, good: list[Any]) -> None:
    tag = OutputTag[Failed[int]]("failed")
    keyed = from_source(CollectionSource([1, 2, 5, 3])).returns(int).key_by(lambda number: "k")
    made = call(keyed, tag)
    assert made.collect() == good
    assert [(each.element, each.error) for each in made.get_side_output(tag).collect()] == [(5, "ValueError: 5")]
    type_form = made.get_side_output(OutputTag("failed")).element_type
    assert (get_origin(type_form), get_args(type_form)) == (Failed, (int,))


@pytest.mark.parametrize("lowest", [False, True])
def test_the_first_element_of_a_key_may_fail(lowest: bool) -> None:
    tag = OutputTag[Failed[int]]("failed")
    keyed = from_source(CollectionSource([5, 1, 3, 2])).returns(int).key_by(lambda number: "k")
    made = keyed.min_by(raising, on_error=tag) if lowest else keyed.max_by(raising, on_error=tag)
    assert made.collect() == ([1, 1, 1] if lowest else [1, 3, 3])
    assert [each.element for each in made.get_side_output(tag).collect()] == [5]


class _Both(CoProcessFunction[int, str, str]):
    def process_element1(self, value: int, context: ProcessContext) -> list[str]:
        return [str(raising(value))]

    def process_element2(self, value: str, context: ProcessContext) -> list[str]:
        return [str(raising(int(value)))]


class _BothByKey(KeyedCoProcessFunction[int, int, str, int]):
    COUNT = ValueStateDescriptor("count", int)

    def process_element1(self, value: int, context: KeyedProcessContext[int]) -> list[int]:
        count = context.get_state(self.COUNT)
        count.update((count.value() or 0) + 1)
        raising(value)
        return [count.value() or 0]

    def process_element2(self, value: str, context: KeyedProcessContext[int]) -> list[int]:
        return self.process_element1(int(value), context)


def test_elements_of_two_streams_fail_without_their_mark() -> None:
    numbers = from_source(CollectionSource([1, 5, 2])).returns(int)
    texts = from_source(CollectionSource(["3", "15"])).returns(str)
    tag = OutputTag[Failed[int | str]]("failed")
    both = numbers.connect(texts).process(_Both(), on_error=tag)
    assert sorted(both.collect()) == ["1", "2", "3"]
    assert {each.element for each in both.get_side_output(tag).collect()} == {5, "15"}
    maybe = OutputTag[Failed[int | str | None]]("failed")
    keyed = numbers.connect(texts).key_by(lambda number: 0, lambda text: 0).process(_BothByKey(), on_error=maybe)
    assert keyed.collect() == [1, 2, 3]
    assert {each.element for each in keyed.get_side_output(maybe).collect()} == {5, "15"}
    type_form = keyed.get_side_output(OutputTag("failed")).element_type
    assert get_args(type_form) == (int | str | None,)


class Limited(KeyedBroadcastProcessFunction[str, int, int, int]):
    """Counts elements, and raises for one above the limit, or for a limit below 0."""

    LIMITS = MapStateDescriptor("limits", str, int)
    COUNT = ValueStateDescriptor("count", int)

    def process_element(self, value: int, context: ReadOnlyContext[str]) -> Iterator[int]:
        count = context.get_state(self.COUNT)
        count.update((count.value() or 0) + 1)
        context.timer_service.register_event_time_timer(value)
        yield count.value() or 0
        if value > (context.get_broadcast_state(self.LIMITS).get("limit") or 0):
            raise ValueError("too high")

    def process_broadcast_element(self, value: int, context: BroadcastContext[str, int]) -> None:
        if value < 0:
            raise ValueError("below zero")
        context.get_broadcast_state(self.LIMITS).put("limit", value)

    def on_timer(self, timestamp: int, context: ReadOnlyOnTimerContext[str]) -> list[int]:
        context.get_state(self.COUNT).clear()
        if timestamp == 3:
            raise ValueError("a timer")
        return [-timestamp]


def test_a_function_with_rules_has_a_policy_for_elements_of_keys() -> None:
    numbers, limits = PushSource(int), PushSource(int)
    rules = from_source(limits).broadcast(Limited.LIMITS)
    tag = OutputTag[Failed[int | None]]("failed")
    step = from_source(numbers).key_by(lambda n: "all").connect(rules).process(Limited(), on_error=tag)
    failed = step.get_side_output(tag)
    harness = StreamHarness(step, numbers, also=(failed,))
    harness.process_element(5, 0, source=limits)
    for number in (3, 7, 4):
        harness.process_element(number, 0, source=numbers)
        harness.snapshot_restore()
    harness.process_watermark(3)
    harness.process_element(5, 3, source=numbers)
    assert harness.take_values() == [1, 2, 3]
    assert [(each.value.element, each.value.error) for each in harness.take(failed)] == [
        (7, "ValueError: too high"),
        (None, "ValueError: a timer (key 'all', timer 3 in event_time)"),
    ]
    with pytest.raises(UserFunctionError, match="for all keys -1"):
        harness.process_element(-1, 0, source=limits)
