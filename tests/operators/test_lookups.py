"""Steps without keys: with side outputs, of several elements at a time, and of coroutines side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from windrow import DataStream, OutputTag, Pipeline, from_source
from windrow.errors import InvalidArgumentError, PlanError, UserFunctionError
from windrow.functions import AsyncFunction, ProcessContext, ProcessFunction, RuntimeContext
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
ODD = OutputTag("odd", int)
SLOW = OutputTag("slow", int)


def numbers(count: int = 6, batch_size: int | None = None) -> DataStream[int]:
    return from_source(CollectionSource(list(range(count)), int, batch_size=batch_size))


def results(stream: DataStream[T], *others: DataStream[T]) -> list[list[T]]:
    sinks = [CollectSink[T](f"sink {place}") for place in range(1 + len(others))]
    pipeline = Pipeline("p", *(each.sink_to(sink) for each, sink in zip((stream, *others), sinks, strict=True)))
    result = LocalRunner().run(pipeline)
    return [result.collected(sink) for sink in sinks]


class Halves(ProcessFunction[int, int]):
    def process_element(self, value: int, context: ProcessContext) -> Iterable[int] | None:
        if value % 2:
            context.output(ODD, value)
            return None
        return [value // 2]


def test_a_process_function_splits_a_stream() -> None:
    halves = numbers().process(Halves())
    odd = halves.get_side_output(ODD)
    assert results(halves, odd, odd.map(lambda number: -number)) == [[0, 1, 2], [1, 3, 5], [-1, -3, -5]]


def test_what_nobody_takes_is_dropped() -> None:
    assert results(numbers().process(Halves()).map(lambda number: number + 1)) == [[1, 2, 3]]


def test_a_side_output_that_is_not_there_is_refused() -> None:
    with pytest.raises(PlanError, match="has no side output 'slow'"):
        results(numbers().map_async(twice, capacity=2).get_side_output(SLOW))


def test_a_function_of_batches_has_at_most_that_many() -> None:
    seen: list[list[int]] = []

    def shifted(values: Sequence[int]) -> list[int]:
        seen.append(list(values))
        return [value + 10 for value in values]

    assert results(numbers(5).map_batches(shifted, size=2)) == [[10, 11, 12, 13, 14]]
    assert [len(batch) for batch in seen] == [2, 2, 1]


def test_a_function_of_batches_gives_one_result_for_each() -> None:
    with pytest.raises(InvalidArgumentError, match=r"given: +1 results for 3 elements, the first of them 0"):
        results(numbers(3).map_batches(lambda values: [0], size=5))


async def twice(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


class InTurn(AsyncFunction[int, int]):
    """Answers the last element first: each waits for the one behind it."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.log: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self._done = [asyncio.Event() for _ in range(self._count + 1)]
        self._done[-1].set()
        self.under_way = self.most = 0

    async def invoke(self, value: int) -> int:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self._done[value + 1].wait()
        self._done[value].set()
        self.under_way -= 1
        return value


@pytest.mark.parametrize(("ordered", "expected"), [(True, [0, 1, 2, 3]), (False, [3, 2, 1, 0])])
def test_coroutines_run_side_by_side(ordered: bool, expected: list[int]) -> None:
    function = InTurn(4)
    assert results(numbers(4).map_async(function, capacity=4, ordered=ordered)) == [expected]
    assert function.most == 4


def test_no_more_than_the_capacity_are_under_way() -> None:
    under_way: list[int] = []
    most: list[int] = []

    async def counted(value: int) -> int:
        under_way.append(value)
        most.append(len(under_way))
        for _ in range(3):
            await asyncio.sleep(0)
        under_way.remove(value)
        return value

    assert results(numbers(20).map_async(counted, capacity=3)) == [list(range(20))]
    assert max(most) == 3


async def stuck(value: int) -> int:
    if value == 2:
        await asyncio.Event().wait()
    return value


def test_what_times_out_is_an_error_otherwise() -> None:
    with pytest.raises(UserFunctionError, match=r"given: +element 2, 2 tries") as raised:
        results(numbers(4).map_async(stuck, capacity=1, timeout=timedelta(milliseconds=5), retries=1))
    assert "test_lookups.py" in str(raised.value)


def test_a_coroutine_that_is_cancelled_has_failed() -> None:
    """The cancellation of what it waits for is no end of the run, and is tried again as other errors are."""
    tries: list[int] = []

    async def cancelled(value: int) -> int:
        tries.append(value)
        task = asyncio.ensure_future(asyncio.sleep(9))
        task.cancel()
        await task
        return value

    with pytest.raises(UserFunctionError, match=r"CancelledError(.|\n)*given: +element 0") as raised:
        results(numbers(1).map_async(cancelled, capacity=1, retries=1))
    assert isinstance(raised.value.__cause__, asyncio.CancelledError)
    assert len(tries) == 2


# Any: what mypy refuses is tried.
plain: Any = abs
a_class: Any = Halves


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: numbers().map_async(twice, capacity=0), "the capacity of map_async"),
        (lambda: numbers().map_async(plain, capacity=1), "needs a coroutine function"),
        (lambda: numbers().map_async(twice, capacity=1, retries=-1), "retries are counted"),
        (lambda: numbers().map_async(twice, capacity=1, rate_limit=0), "calls a second\n  given: +0"),
        (lambda: numbers().map_async(twice, capacity=1, rate_limit=float("nan")), "calls a second\n  given: +nan"),
        (lambda: numbers().map_async(twice, capacity=1, rate_limit=True), "calls a second\n  given: +True"),
        (lambda: numbers().map_async(twice, capacity=1, timeout=timedelta(0)), "must be positive"),
        (lambda: numbers().map_async(twice, capacity=1, timed_out=SLOW), "nothing times out without a timeout"),
        (lambda: numbers().map_batches(lambda values: values, size=0), "the size of a batch"),
        (lambda: numbers().process(a_class), "needs a process function"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        call()


@pytest.mark.spark
def test_so_it_is_on_spark(spark: SparkSession) -> None:
    from windrow_runtime.spark import SparkRunner

    halves = numbers(40).process(Halves())
    doubled = halves.map_async(twice, capacity=4)
    slow = numbers(4).map_async(stuck, capacity=4, timeout=timedelta(milliseconds=20), timed_out=SLOW)
    streams = [
        doubled,
        halves.get_side_output(ODD).map_batches(lambda values: [-value for value in values], size=7),
        slow,
        slow.get_side_output(SLOW),
        doubled.key_by(lambda number: number % 3).sum(lambda number: number).map(lambda pair: pair[1]),
    ]
    sinks = [CollectSink[int](f"sink {place}") for place in range(len(streams))]
    pipeline = Pipeline("p", *(each.returns(int).sink_to(sink) for each, sink in zip(streams, sinks, strict=True)))
    local, found = LocalRunner().run(pipeline), SparkRunner(spark).run_batch(pipeline)
    assert [sorted(found.collected(sink)) for sink in sinks] == [sorted(local.collected(sink)) for sink in sinks]
