"""Policies for elements whose function raises: nothing is lost and nothing comes twice, in each kind of function."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.failing import SEEN, STEPS, Number, checked, failed_of, good_of, is_bad, stamp
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import InvalidArgumentError, MissingTimestampError, PlanError, UserFunctionError
from windrow.failures import Failed, OnError, Retry
from windrow.functions import (
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    KeyedProcessContext,
    KeyedProcessFunction,
    ProcessContext,
    ProcessFunction,
)
from windrow.sinks import CollectSink, JsonFileSink
from windrow.sources import CollectionSource
from windrow.triggers import after_count, repeatedly
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner, PipelineResult

# Any in this module: streams of every kind of step, and elements of all of them.

FAILED = OutputTag[Failed[Number]]("failed")
AT_ONCE = timedelta(0)


def numbers_of(seed: int) -> list[Number]:
    chance = random.Random(seed)
    return [Number(chance.choice("abc"), number, chance.randrange(1000)) for number in range(chance.randrange(1, 200))]


def source(numbers: Sequence[Number], seed: int = 0) -> DataStream[Number]:
    return from_source(CollectionSource(numbers, batch_size=1 + seed * 7 % 60)).returns(Number)


def main_of(step: Any) -> DataStream[Any]:
    """The elements of a step; of a keyed stream what a rolling reduce gives of them."""
    return step if isinstance(step, DataStream) else step.reduce(lambda before, number: number)


def run(*streams: DataStream[Any]) -> tuple[list[list[Any]], PipelineResult]:
    sinks = [CollectSink[Any]() for _ in streams]
    ends = [stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True)]
    result = LocalRunner().run(Pipeline("failing", *ends))
    return [result.collected(sink) for sink in sinks], result


@pytest.mark.parametrize("name", STEPS)
def test_failed_elements_go_to_the_side_output_and_others_go_on(name: str) -> None:
    for seed in range(8):
        numbers = numbers_of(seed)
        step = STEPS[name](source(numbers, seed), FAILED)
        (good, failed), result = run(main_of(step), step.get_side_output(FAILED))
        assert good == good_of(name, numbers)
        assert failed == failed_of(f"failing.3.{step.node.kind}", numbers)
        assert result.counter("failed_records_dropped") == 0


@pytest.mark.parametrize("name", STEPS)
def test_dropped_elements_are_counted(name: str) -> None:
    for seed in range(8):
        numbers = numbers_of(seed)
        step = STEPS[name](source(numbers, seed), "drop")
        (good,), result = run(main_of(step))
        assert good == good_of(name, numbers)
        assert result.counter("failed_records_dropped") == sum(map(is_bad, numbers))


@pytest.mark.parametrize("name", STEPS)
def test_without_a_policy_the_run_fails(name: str) -> None:
    with pytest.raises(UserFunctionError, match=r"UnluckyError: the number 5"):
        run(main_of(STEPS[name](source([Number("a", 1, 5)]), "fail")))


def test_what_a_failed_call_has_put_out_is_discarded() -> None:
    numbers = numbers_of(3)
    step = STEPS["process"](source(numbers), FAILED)
    (seen,), _ = run(step.get_side_output(SEEN))
    assert seen == [number.value for number in numbers if not is_bad(number)]


def flaky(failures: int, calls: Counter[int]) -> Callable[[int], int]:
    """A function that raises for the first calls of some elements, and counts the calls."""

    def call(number: int) -> int:
        calls[number] += 1
        if number % 3 == 0 and calls[number] <= failures:
            raise OSError(f"try {calls[number]}")
        return number

    return call


@pytest.mark.parametrize(
    ("then", "failures", "good", "failed", "dropped"),
    [
        ("drop", 2, [0, 1, 2, 3], [], 0),
        ("drop", 3, [1, 2], [], 2),
        (OutputTag[Failed[int]]("failed"), 3, [1, 2], [0, 3], 0),
    ],
)
def test_a_function_is_tried_again(
    then: Any, failures: int, good: list[int], failed: list[int], dropped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("windrow_runtime.operators.guarded.guard.time.sleep", waits.append)
    strategy = ExponentialBackoffDelayRetryStrategy(
        3, initial_delay=timedelta(seconds=1), max_delay=timedelta(minutes=1)
    )
    calls: Counter[int] = Counter()
    step = from_collection(range(4)).returns(int).map(flaky(failures, calls), on_error=Retry(strategy, then))
    streams = [step, step.get_side_output(then)] if isinstance(then, OutputTag) else [step]
    outputs, result = run(*streams)
    assert outputs[0] == good
    assert [[each.element for each in output] for output in outputs[1:]] == ([failed] if failed else [])
    assert result.counter("failed_records_dropped") == dropped
    assert waits == [1.0, 2.0, 1.0, 2.0]
    assert calls == {0: 3, 1: 1, 2: 1, 3: 3}


def test_a_retry_ends_with_an_error_that_says_how_often_it_tried() -> None:
    step = from_collection([3]).map(flaky(9, Counter()), on_error=Retry(FixedDelayRetryStrategy(2, AT_ONCE)))
    with pytest.raises(UserFunctionError, match=r"OSError: try 2\n  given:    element 3, 2 tries"):
        run(step)


def test_a_strategy_that_raises_is_named_with_the_step_and_the_element() -> None:
    retry = Retry(FixedDelayRetryStrategy(3, AT_ONCE, retry_on=lambda error: 1 // 0 > 0), then="drop")
    with pytest.raises(UserFunctionError, match=r"ZeroDivisionError(.|\n)*element 3, try 1(.|\n)*failing.2.map,"):
        run(from_collection([3]).map(flaky(9, Counter()), on_error=retry))


def test_a_strategy_chooses_what_is_tried_again() -> None:
    retry = Retry(FixedDelayRetryStrategy(5, AT_ONCE, retry_on=ValueError), then="drop")
    calls: Counter[int] = Counter()
    (good,), _ = run(from_collection([1, 3]).map(flaky(1, calls), on_error=retry))
    assert (good, calls) == ([1], {1: 1, 3: 1})


def grown(row: list[int]) -> list[list[int]]:
    """Changes its argument, and raises at the first try of an element."""
    row.append(len(row))
    GROWN.append(row[0])
    if GROWN.count(row[0]) < row[0]:
        raise OSError("not yet")
    return [list(row)]


GROWN: list[int] = []


class _Grown(ProcessFunction[list[int], list[int]]):
    def process_element(self, value: list[int], context: ProcessContext) -> list[list[int]]:
        return grown(value)


class _GrownByKey(KeyedProcessFunction[int, list[int], list[int]]):
    def process_element(self, value: list[int], context: KeyedProcessContext[int]) -> list[list[int]]:
        return grown(value)


@pytest.mark.parametrize(
    "call",
    [
        lambda rows, retry: rows.map(lambda row: grown(row)[0], on_error=retry),
        lambda rows, retry: rows.filter(grown, on_error=retry),
        lambda rows, retry: rows.flat_map(grown, on_error=retry),
        lambda rows, retry: rows.process(_Grown(), on_error=retry),
        lambda rows, retry: rows.map_batches(lambda batch: grown(batch[0]), size=1, on_error=retry),
        lambda rows, retry: rows.key_by(len).process(_GrownByKey(), on_error=retry),
    ],
    ids=["map", "filter", "flat_map", "process", "map_batches", "keyed process"],
)
def test_each_try_gets_the_element_as_it_came(call: Any) -> None:
    GROWN.clear()
    tag = OutputTag[Failed[list[int]]]("failed")
    retry = Retry(FixedDelayRetryStrategy(2, AT_ONCE), then=tag)
    made = call(from_collection([[1], [2], [9]]), retry)
    (good, failed), _ = run(made, made.get_side_output(tag))
    assert good in ([[1, 1], [2, 1]], [[1], [2]])  # a filter passes on what came
    assert [each.element for each in failed] == [[9]]


def test_half_a_surrogate_pair_in_the_text_of_an_error_can_be_written(tmp_path: Path) -> None:
    def refuse(number: int) -> int:
        raise ValueError(f"{number} \ud800")

    failed = OutputTag[Failed[int]]("failed")
    made = from_collection([1]).returns(int).map(refuse, on_error=failed)
    LocalRunner().run(Pipeline("halves", made.get_side_output(failed).sink_to(JsonFileSink(str(tmp_path)))))
    (written,) = map(Path.read_text, tmp_path.glob("*.json"))
    assert json.loads(written)["error"] == r"ValueError: 1 \ud800"


def test_each_element_is_given_to_the_function_once() -> None:
    calls: list[int] = []

    def seen(number: int) -> int:
        calls.append(number)
        return 1 // (number % 4)

    run(from_collection(range(20)).map(seen, on_error="drop"))
    assert calls == list(range(20))


def test_a_function_of_batches_may_change_its_list() -> None:
    def doubled(numbers: Any) -> list[int]:
        if 3 in numbers:
            numbers.clear()
            raise ValueError("three")
        return [2 * number for number in numbers]

    (good,), result = run(from_collection([1, 2, 3, 4]).map_batches(doubled, size=4, on_error="drop"))
    assert (good, result.counter("failed_records_dropped")) == ([2, 4, 8], 1)


def test_a_function_of_batches_may_change_its_elements() -> None:
    def grown(rows: Sequence[dict[str, int]]) -> list[dict[str, int]]:
        for row in rows:
            row["n"] += 1
            if row["n"] == 100:
                raise ValueError("a hundred")
        return list(rows)

    tag = OutputTag[Failed[dict[str, int]]]("failed")
    made = from_collection([{"n": number} for number in (1, 2, 99, 4)]).map_batches(grown, size=4, on_error=tag)
    (good, failed), _ = run(made, made.get_side_output(tag))
    assert (good, [each.element for each in failed]) == ([{"n": 2}, {"n": 3}, {"n": 5}], [{"n": 100}])


def test_what_takes_too_long_has_failed() -> None:
    async def slow(number: int) -> int:
        await asyncio.sleep(60 * (number == 2))
        return number

    tag = OutputTag[Failed[int]]("failed")
    limit = timedelta(milliseconds=50)
    made = from_collection([1, 2, 3]).map_async(slow, capacity=3, timeout=limit, on_error=tag)
    (good, failed), _ = run(made, made.get_side_output(tag))
    assert (good, failed) == ([1, 3], [Failed(2, "TimeoutError: the try took too long", "failing.2.map_async")])


def test_a_stop_iteration_of_a_function_loses_no_element() -> None:
    def pick(number: int) -> int:
        return next(iter([] if number == 2 else [number]))

    (good,), result = run(from_collection([1, 2, 3]).map(pick, on_error="drop"))
    assert (good, result.counter("failed_records_dropped")) == ([1, 3], 1)


@dataclass(frozen=True)
class _Refused(ProcessFunction[int, int]):
    """Asks for what windrow refuses."""

    def process_element(self, value: int, context: ProcessContext) -> list[int]:
        context.timer_service.register_event_time_timer(5)
        return [value]


def test_windrows_own_errors_fail_the_run() -> None:
    with pytest.raises(Exception, match="a stream without keys has no timers"):
        run(from_collection([1]).process(_Refused(), on_error="drop"))
    with pytest.raises(InvalidArgumentError, match="another number of results"):
        run(from_collection([1]).map_batches(lambda numbers: [], size=3, on_error="drop"))
    # A timestamp that is none is no exception of the function.
    strategy = WatermarkStrategy[int].for_monotonous_timestamps()
    nothing: Any = {}.get  # gives None
    stamped = from_collection([1]).assign_timestamps_and_watermarks(strategy, nothing, on_error="drop")
    with pytest.raises(MissingTimestampError, match="an element has no timestamp"):
        run(stamped)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_ends_a_program_is_no_failure_of_an_element(error: type[BaseException]) -> None:
    def end(number: int) -> int:
        raise error

    with pytest.raises((KeyboardInterrupt, UserFunctionError)):
        run(from_collection([1]).map(end, on_error="drop"))


def test_a_failed_element_is_withdrawn_with_the_result_that_it_was() -> None:
    # Withdrawals of windows upstream run through the function too, which raises again.
    stamped = from_collection([Number("a", 1, 4), Number("a", 2, 1), Number("a", 3, 9)]).returns(Number)
    strategy = WatermarkStrategy[Number].for_monotonous_timestamps()
    windows = stamped.assign_timestamps_and_watermarks(strategy, lambda number: number.at).key_by(lambda n: n.key)
    sums = (
        windows.window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
        .trigger(repeatedly(after_count(1)))
        .retracting()
        .reduce(lambda a, b: Number(a.key, b.at, a.value + b.value))
    )
    step = sums.map(checked, on_error=FAILED)
    changes = step.changelog(lambda kind, number: (kind.value, number.value))
    refused = step.get_side_output(FAILED).changelog(lambda kind, failed: (kind.value, failed.element.value))
    (good, failed), _ = run(changes, refused)
    # The pane at the end of the window replaces the last one by an equal one.
    assert good == [("+I", 4), ("-U", 4), ("+U", 14), ("-U", 14), ("+U", 14)]
    assert failed == [("+U", 5), ("-U", 5)]


def test_explain_shows_the_policy() -> None:
    tag = OutputTag[Failed[int]]("bad")
    numbers = from_collection([1]).returns(int)
    retried = numbers.map(abs, on_error=Retry(FixedDelayRetryStrategy(3, timedelta(seconds=1)), tag))
    shown = Pipeline("p", retried.sink_to(CollectSink()), numbers.map(abs, on_error="drop").print()).explain()
    assert "abs, on error: 3 attempts, 1 s apart, then to 'bad'" in shown
    assert "abs, on error: drop" in shown


def test_the_side_output_has_the_type_of_the_elements() -> None:
    step = from_collection([1]).returns(int).map(str, on_error=OutputTag("bad"))
    assert str(step.get_side_output(OutputTag("bad")).element_type) == "windrow.failures.Failed[int]"


@pytest.mark.parametrize("is_stamped", [False, True])
def test_an_element_whose_timestamp_function_raised_has_the_timestamp_that_it_came_with(is_stamped: bool) -> None:
    numbers = source([Number("a", 1, 5), Number("a", 2, 4), Number("a", 3, 15)])
    strategy = WatermarkStrategy[Number].for_monotonous_timestamps()
    if is_stamped:
        numbers = numbers.assign_timestamps_and_watermarks(strategy, lambda number: number.at)
    stamped = numbers.assign_timestamps_and_watermarks(strategy, stamp, on_error=FAILED)
    windows = stamped.get_side_output(FAILED).window_all(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    counts = windows.apply(lambda window, elements: [len(elements)])
    if is_stamped:
        assert counts.collect() == [2]
        return
    with pytest.raises(PlanError, match="needs timestamps, and the stream has none"):
        counts.collect()


@pytest.mark.parametrize(
    ("on_error", "message"),
    [
        ("ignore", "on_error has an unknown value"),
        (np.array([1, 2]), "on_error has an unknown value"),  # its comparison has no truth value
        (FixedDelayRetryStrategy(3), "hint:     on_error=Retry"),
    ],
)
def test_unknown_policies_are_refused(on_error: OnError[int], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        from_collection([1]).map(abs, on_error=on_error)


def test_failed_elements_of_two_types_need_a_record_of_both_at_a_sink(tmp_path: Path) -> None:
    both = from_collection([Number("a", 1, 1)]).connect(from_collection(["b"]))
    failed = OutputTag[Failed[Number | str]]("failed")
    aside = both.map(lambda number: 1, len, on_error=failed).get_side_output(failed)
    with pytest.raises(InvalidArgumentError, match="this type has no column form") as caught:
        LocalRunner().run(Pipeline("two", aside.sink_to(JsonFileSink(tmp_path))))
    assert re.search(rf"\.sink, {re.escape(__file__)}:\d+, windrow\.failures\.Failed\[", str(caught.value))
    assert "a record with an Optional field for each, which a map can make" in str(caught.value)


# Any: what mypy refuses.
@pytest.mark.parametrize(
    ("strategy", "then", "message"),
    [
        (3, "fail", "a strategy decides about retries"),
        (FixedDelayRetryStrategy(2, retry_result=bool), "fail", "after an exception alone"),
        (FixedDelayRetryStrategy(2), Retry(FixedDelayRetryStrategy(2)), "ends with one of"),
        (FixedDelayRetryStrategy(2), "again", "ends with one of"),
    ],
)
def test_a_retry_is_refused_when_it_is_made(strategy: Any, then: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Retry(strategy, then)


class Unclear:
    """Has no truth value, as pandas.NA."""

    def __bool__(self) -> bool:
        raise TypeError("neither")


def test_a_condition_without_truth_value_follows_the_policy() -> None:
    answers: dict[int, Any] = {1: True, 2: Unclear(), 3: False, 4: Unclear(), 5: True}
    tag = OutputTag[Failed[int]]("unclear")
    step = from_collection([1, 2, 3, 4, 5]).returns(int).filter(answers.__getitem__, on_error=tag)
    (good, failed), _ = run(step, step.get_side_output(tag))
    assert (good, [each.element for each in failed]) == ([1, 5], [2, 4])
    assert failed[0].error.startswith("NoTruthValueError: a condition is neither true nor false, TypeError: neither")
    dropping = from_collection([1, 2, 3]).returns(int).filter(answers.__getitem__, on_error="drop")
    (good,), result = run(dropping)
    assert (good, result.counter("failed_records_dropped")) == ([1], 1)
    with pytest.raises(UserFunctionError, match="neither true nor false"):
        from_collection([2]).filter(answers.__getitem__).collect()


def test_a_condition_that_nobody_has_computed_fails_the_run() -> None:
    def wrong(number: int) -> Any:
        return (each for each in [number])

    with pytest.raises(UserFunctionError, match="generator"):
        from_collection([1]).filter(wrong, on_error="drop").collect()


def test_policies_that_a_step_cannot_follow_are_refused() -> None:
    numbers = from_collection([Number("a", 1, 1)])

    async def same(number: Number) -> Number:
        return number

    with pytest.raises(InvalidArgumentError, match="map_async has retries of its own"):
        numbers.map_async(same, capacity=1, on_error=Retry(FixedDelayRetryStrategy(2)))
    with pytest.raises(InvalidArgumentError, match="one side output"):
        numbers.map_async(same, capacity=1, failed=OutputTag("a"), on_error="drop")
    with pytest.raises(InvalidArgumentError, match="timestamp function raises, and there is none"):
        numbers.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), on_error="drop")
    guarded, plain = numbers.key_by(lambda n: n.key, on_error="drop"), numbers.key_by(lambda n: n.key)
    with pytest.raises(InvalidArgumentError, match="selects the keys of two streams in one step"):
        guarded.interval_join(plain)
    for call in (
        lambda: guarded.map(str),
        lambda: guarded.filter(bool),
        lambda: guarded.flat_map(lambda number: [number]),
        lambda: guarded.union(numbers),
        lambda: plain.union(guarded),
    ):
        with pytest.raises(InvalidArgumentError, match=r"selects no keys(.|\n)*before key_by"):
            call()
    with pytest.raises(PlanError, match="has no side output 'failed'"):
        run(numbers.map(checked, on_error="drop").get_side_output(FAILED))
