"""Pairs, groups and elements of two streams for which a function raises go the way of the policy; others go on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.support.failing import Number, UnluckyError, checked, is_bad
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.failures import Failed, OnError, Retry
from windrow.functions import (
    CoMapFunction,
    FixedDelayRetryStrategy,
    ProcessJoinContext,
    ProcessJoinFunction,
    RuntimeContext,
)
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.windows import SlidingEventTimeWindows
from windrow_runtime.local import LocalRunner, PipelineResult

# Any in this module: pairs of elements, and results of every type.

FAILED = OutputTag[Any]("failed")
PUT_OUT = OutputTag[int]("put out")


def stamped(seed: int) -> DataStream[Number]:
    chance = random.Random(seed)
    numbers = [Number(chance.choice("ab"), at + chance.randrange(9), chance.randrange(100)) for at in range(0, 200, 4)]
    strategy = WatermarkStrategy[Number].for_bounded_out_of_orderness(timedelta(milliseconds=5))
    source = from_source(CollectionSource(numbers, batch_size=7)).returns(Number)
    return source.assign_timestamps_and_watermarks(strategy, lambda number: number.at)


def run(*streams: DataStream[Any]) -> tuple[list[list[Any]], PipelineResult]:
    sinks = [CollectSink[Any]() for _ in streams]
    ends = [stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True)]
    result = LocalRunner().run(Pipeline("pairs", *ends))
    return [result.collected(sink) for sink in sinks], result


def is_bad_pair(left: Number | None, right: Number | None) -> bool:
    return ((0 if left is None else left.value) + (0 if right is None else right.value)) % 10 == 5


class Pairs(ProcessJoinFunction[Number, Number, Any]):
    """Puts out a pair before it raises for a bad one, or does nothing for it."""

    def __init__(self, *, raises: bool) -> None:
        self.raises = raises

    def process_element(self, left: Number, right: Number, context: ProcessJoinContext) -> Iterator[Any]:
        if is_bad_pair(left, right) and not self.raises:
            return
        context.output(PUT_OUT, left.value)
        yield (left, right)
        if is_bad_pair(left, right):
            raise UnluckyError("a pair")


def pair(left: Any, right: Any) -> Any:
    if is_bad_pair(left, right):
        raise UnluckyError("a pair")
    return (left, right)


def rightly(left: Any, right: Any) -> Any:
    """Makes None of a bad pair."""
    return None if is_bad_pair(left, right) else (left, right)


Join = Callable[[DataStream[Number], DataStream[Number], Callable[[Any, Any], Any], OnError[Any]], DataStream[Any]]
BOUNDS = (timedelta(milliseconds=-9), timedelta(milliseconds=9))
WINDOWS = SlidingEventTimeWindows.of(timedelta(milliseconds=20), timedelta(milliseconds=10))


def by_interval(left: DataStream[Number], right: DataStream[Number]) -> Any:
    return left.key_by(lambda n: n.key).interval_join(right.key_by(lambda n: n.key)).between(*BOUNDS)


JOINS: dict[str, Join] = {
    "interval": lambda left, right, f, on_error: by_interval(left, right).apply(f, on_error=on_error),
    "outer interval": lambda left, right, f, on_error: by_interval(left, right).full().apply(f, on_error=on_error),
    "as of": lambda left, right, f, on_error: (
        left.key_by(lambda n: n.key).as_of_join(right.key_by(lambda n: n.key)).apply(f, on_error=on_error)
    ),
    "left as of": lambda left, right, f, on_error: (
        left.key_by(lambda n: n.key).left_as_of_join(right.key_by(lambda n: n.key)).apply(f, on_error=on_error)
    ),
    "window": lambda left, right, f, on_error: (
        left.join(right).where(lambda n: n.key).equal_to(lambda n: n.key).window(WINDOWS).apply(f, on_error=on_error)
    ),
    "left window": lambda left, right, f, on_error: (
        left.left_join(right)
        .where(lambda n: n.key)
        .equal_to(lambda n: n.key)
        .window(WINDOWS)
        .apply(f, on_error=on_error)
    ),
}


@pytest.mark.parametrize("name", JOINS)
def test_a_pair_that_fails_is_left_out(name: str) -> None:
    for seed in range(3):
        left, right = stamped(seed), stamped(seed + 100)
        (good,), _ = run(JOINS[name](left, right, rightly, "fail"))
        failing = JOINS[name](left, right, pair, FAILED)
        (results, failed), _ = run(failing, failing.get_side_output(FAILED))
        assert results == [each for each in good if each is not None]
        assert len(failed) == good.count(None) > 0
        assert all(is_bad_pair(*each.element) and each.error == "UnluckyError: a pair" for each in failed)
        (dropped,), result = run(JOINS[name](left, right, pair, "drop"))
        assert dropped == results
        assert result.counter("failed_records_dropped") == len(failed)


def test_what_a_failed_call_has_put_out_is_discarded() -> None:
    joined = by_interval(stamped(1), stamped(2))
    quiet, failing = joined.process(Pairs(raises=False)), joined.process(Pairs(raises=True), on_error=FAILED)
    outputs, _ = run(quiet, quiet.get_side_output(PUT_OUT))
    (*outputs_too, failed), _ = run(failing, failing.get_side_output(PUT_OUT), failing.get_side_output(FAILED))
    assert outputs_too == outputs
    assert failed


def test_a_group_of_two_streams_fails_as_a_whole() -> None:
    def grouped(left: Sequence[Number], right: Sequence[Number]) -> list[int]:
        return [10 // (len(left) % 2)]

    windows = stamped(1).co_group(stamped(2)).where(lambda n: n.key).equal_to(lambda n: n.key).window(WINDOWS)
    tag = OutputTag[Failed[tuple[list[Number], list[Number]]]]("groups")
    step = windows.apply(grouped, on_error=tag)
    (good, failed), _ = run(step, step.get_side_output(tag))
    assert good
    assert failed
    assert all(len(left) % 2 == 0 and isinstance(right, list) for left, right in (each.element for each in failed))


def test_the_side_output_has_the_type_of_pairs() -> None:
    numbers = stamped(1)
    types = {
        name: str(join(numbers, numbers, pair, FAILED).get_side_output(OutputTag("failed")).element_type)
        for name, join in JOINS.items()
    }
    number = "tests.support.failing.Number"
    assert types["interval"] == f"windrow.failures.Failed[tuple[{number}, {number}]]"
    assert types["left as of"] == f"windrow.failures.Failed[tuple[{number}, typing.Optional[{number}]]]"
    assert types["left window"] == types["left as of"]


def test_a_pair_is_tried_again_with_its_elements_as_they_came() -> None:
    tries: list[int] = []

    def flaky(left: Number, right: Number) -> int:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("not yet")
        return len(tries)

    numbers = stamped(1).filter(lambda number: number.at < 9)
    again = Retry(FixedDelayRetryStrategy(3, timedelta(0)))
    (good,), _ = run(by_interval(numbers, numbers).apply(flaky, on_error=again))
    assert good[0] == 3


class Both(CoMapFunction[Number, Number, str]):
    opened = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        type(self).opened += 1

    def map1(self, value: Number) -> str:
        return f"first {checked(value).value}"

    def map2(self, value: Number) -> str:
        return f"second {checked(value).value}"


def test_connected_streams_have_a_policy() -> None:
    tag = OutputTag[Failed[Number]]("failed")
    connected = stamped(1).connect(stamped(2))
    numbers = run(stamped(1), stamped(2))[0]
    expected = [
        f"{side} {n.value}"
        for side, each in zip(("first", "second"), numbers, strict=True)
        for n in each
        if not is_bad(n)
    ]
    bad = sorted(number for each in numbers for number in each if is_bad(number))
    by_class = connected.map(Both(), on_error=tag)
    (good, failed), _ = run(by_class, by_class.get_side_output(tag))
    assert (sorted(good), sorted(each.element for each in failed)) == (sorted(expected), bad)
    assert Both.opened == 2  # by the fragment of each source, once
    assert by_class.element_type is str
    (good,), result = run(
        connected.map(lambda n: f"first {checked(n).value}", lambda n: f"second {checked(n).value}", on_error="drop")
    )
    assert (sorted(good), result.counter("failed_records_dropped")) == (sorted(expected), len(bad))

    def twice(number: Number) -> Iterator[int]:
        yield number.value
        yield checked(number).value

    (flat,), result = run(connected.flat_map(twice, lambda number: [checked(number).value], on_error="drop"))
    assert len(flat) == 2 * sum(not is_bad(n) for n in numbers[0]) + sum(not is_bad(n) for n in numbers[1])
    assert result.counter("failed_records_dropped") == len(bad)
