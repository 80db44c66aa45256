"""Policies of ready-made calls: those of windows, and those of keyed streams that compare elements or keep a state."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import windrow.builder
from tests.support.failing import Number, UnluckyError, checked, is_bad
from windrow import DataStream, KeyedStream, OutputTag, Pipeline, WatermarkStrategy, WindowedStream, from_source
from windrow import aggregates as agg
from windrow.builder.stage import Stage
from windrow.errors import InvalidArgumentError, PlanError, UserFunctionError
from windrow.evictors import CountEvictor
from windrow.failures import Failed, OnError, Retry
from windrow.functions import AggregateFunction, ExponentialBackoffDelayRetryStrategy, FixedDelayRetryStrategy
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.triggers import after_count, after_watermark
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner, PipelineResult
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: calls of every kind, and their results.

FAILED = OutputTag[Failed[Number | None]]("failed")
NUMBERS = [Number("ab"[at % 2], at, at * 7 % 30) for at in range(60)]
GOOD = [number for number in NUMBERS if not is_bad(number)]


def keyed(numbers: list[Number]) -> KeyedStream[Number, str]:
    strategy = WatermarkStrategy[Number].for_monotonous_timestamps()
    source = from_source(CollectionSource(numbers, batch_size=9)).returns(Number)
    return source.assign_timestamps_and_watermarks(strategy, lambda n: n.at).key_by(lambda n: n.key)


def run(*streams: DataStream[Any]) -> tuple[list[list[Any]], PipelineResult]:
    sinks = [CollectSink[Any]() for _ in streams]
    ends = [stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True)]
    result = LocalRunner().run(Pipeline("ready", *ends))
    return [result.collected(sink) for sink in sinks], result


def selected(number: Number) -> int:
    return checked(number).value


class Neither:
    """Is neither equal to another value nor not."""

    __hash__ = None  # type: ignore[assignment]  # as of an array

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array")


Windows = WindowedStream[Number, str, TimeWindow]
OF_WINDOWS: dict[str, Callable[[Windows, OnError[Number | None]], DataStream[Any]]] = {
    "sum": lambda windows, policy: windows.sum(selected, on_error=policy),
    "min": lambda windows, policy: windows.min(selected, with_key=True, on_error=policy),
    "max": lambda windows, policy: windows.max(selected, on_error=policy),
    "min_by": lambda windows, policy: windows.min_by(selected, on_error=policy),
    "max_by": lambda windows, policy: windows.max_by(selected, on_error=policy),
}


@pytest.mark.parametrize("call", OF_WINDOWS)
def test_an_element_that_fails_is_in_no_window(call: str) -> None:
    def made(numbers: list[Number], policy: OnError[Number | None]) -> DataStream[Any]:
        windows = keyed(numbers).window(TumblingEventTimeWindows.of(timedelta(milliseconds=20)))
        return OF_WINDOWS[call](windows, policy)

    (expected,), _ = run(made(GOOD, "fail"))
    failing = made(NUMBERS, FAILED)
    (results, failed), _ = run(failing, failing.get_side_output(FAILED))
    assert expected
    assert results == expected
    assert sorted(each.element for each in failed) == sorted(filter(is_bad, NUMBERS))
    (results,), result = run(made(NUMBERS, "drop"))
    assert (results, result.counter("failed_records_dropped")) == (expected, len(NUMBERS) - len(GOOD))
    with pytest.raises(UserFunctionError):
        run(made(NUMBERS, "fail"))


def test_windows_without_keys_have_the_same_calls() -> None:
    windows = from_source(CollectionSource([1, 0, 2])).returns(int).count_window_all(2)
    (results,), _ = run(windows.sum(lambda number: 2 // number, on_error="drop"))
    assert results == [3]


Keyed = KeyedStream[Any, int]


def of_window(call: str) -> Callable[[Keyed, OutputTag[Any]], DataStream[Any]]:
    return lambda keyed, tag: getattr(keyed.count_window(9, fire_at_end=True), call)(itself, on_error=tag)


def of_key(call: str) -> Callable[[Keyed, OutputTag[Any]], DataStream[Any]]:
    return lambda keyed, tag: getattr(keyed, call)(itself, on_error=tag)


def aggregated(aggregate: AggregateFunction[Any, Any, Any]) -> Callable[[Keyed, OutputTag[Any]], DataStream[Any]]:
    return lambda keyed, tag: keyed.count_window(9, fire_at_end=True).aggregate(aggregate, on_error=tag)


def itself(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    ("call", "values"),
    [
        *[(of(call), ({}, 1, 2)) for call in OF_WINDOWS for of in (of_window, of_key)],
        *[(of("sum"), ("a text", 1, 2)) for of in (of_window, of_key)],
        (of_window("sum"), (1, Decimal(1), 2)),
        *[(aggregated(call(itself)), ("a text", 1, 2)) for call in (agg.mean, agg.variance)],
        (aggregated(agg.top_k(5, itself)), ({}, 1, 2)),
        (aggregated(agg.count_distinct(itself)), (1, {}, 2)),
        (lambda keyed, tag: keyed.on_change(itself, on_error=tag), ((1,), Neither(), (1,))),
    ],
)
def test_a_value_that_cannot_be_added_or_compared_is_a_failure_of_its_element(
    call: Callable[[Keyed, OutputTag[Any]], DataStream[Any]], values: tuple[Any, ...]
) -> None:
    def results_of(values: list[Any]) -> list[list[Any]]:
        tag = OutputTag[Failed[Any]]("failed")
        stream = call(from_source(CollectionSource(values)).key_by(lambda value: 0), tag)
        return run(stream, stream.get_side_output(tag))[0]

    fit = [value for value in values if type(value) is type(values[-1])]
    expected, _ = results_of(fit)
    results, failed = results_of([*values])
    assert expected
    assert results == expected
    assert [type(each.element) for each in failed] == [
        type(value) for value in values if type(value) is not type(values[-1])
    ]


def test_a_sum_beyond_64_bits_is_a_failure_of_its_window() -> None:
    numbers = keyed([Number("a", 1, 2**62), Number("a", 2, 2**62), Number("b", 3, 7)])
    sums = numbers.window(TumblingEventTimeWindows.of(timedelta(milliseconds=20))).sum(
        lambda n: n.value, on_error=FAILED
    )
    (results, failed), _ = run(sums, sums.get_side_output(FAILED))
    assert results == [7]
    assert [each.element for each in failed] == [None]
    assert re.match(r"AggregateOverflowError: .* \(key 'a', TimeWindow\(start=0, end=20\)\)$", failed[0].error)


def test_the_first_value_of_a_rolling_sum_may_be_half_of_too_much() -> None:
    keyed = from_source(CollectionSource([timedelta.max])).key_by(lambda value: 0)
    assert run(keyed.sum(itself, on_error="drop"))[0] == [[(0, timedelta.max)]]


def test_windows_that_cannot_leave_an_element_out_refuse_the_policy() -> None:
    windows = keyed(NUMBERS).window(TumblingEventTimeWindows.of(timedelta(milliseconds=20)))
    with pytest.raises(PlanError, match="fold all elements anew"):
        run(windows.evictor(CountEvictor.of(2)).sum(selected, on_error="drop"))
    with pytest.raises(PlanError, match="fire panes"):
        run(windows.trigger(after_watermark(early=after_count(1))).discarding().max(selected, on_error="drop"))


# Calls of keyed streams


def summed(state: int, number: Number) -> tuple[int, int]:
    return state + number.value, state + selected(number)


def listed(state: list[int], number: Number) -> tuple[list[int] | None, list[int]]:
    state.append(number.value)  # a call that fails leaves the list as it was
    if is_bad(number):
        raise UnluckyError("the number")
    return (None if len(state) == 4 else state), [*state]


OF_KEYS: dict[str, Callable[[KeyedStream[Number, str], OnError[Number]], DataStream[Any]]] = {
    "distinct": lambda keyed, policy: keyed.distinct(
        lambda number: selected(number) % 5, within=timedelta(milliseconds=9), on_error=policy
    ),
    "on_change": lambda keyed, policy: keyed.on_change(lambda number: selected(number) // 8, on_error=policy),
    "stateful_map": lambda keyed, policy: keyed.stateful_map(int, summed, on_error=policy),
    "stateful_flat_map": lambda keyed, policy: keyed.stateful_flat_map(list, listed, on_error=policy),
}


@pytest.mark.parametrize("call", OF_KEYS)
def test_an_element_that_fails_leaves_the_state_of_its_key_as_it_was(call: str) -> None:
    tag = OutputTag[Failed[Number]]("failed")
    (expected,), _ = run(OF_KEYS[call](keyed(GOOD), "fail"))
    failing = OF_KEYS[call](keyed(NUMBERS), tag)
    (results, failed), _ = run(failing, failing.get_side_output(tag))
    assert expected
    assert sorted(map(repr, results)) == sorted(map(repr, expected))
    assert sorted(each.element for each in failed) == sorted(filter(is_bad, NUMBERS))
    assert str(failing.get_side_output(OutputTag("failed")).element_type).endswith(
        "Failed[tests.support.failing.Number]"
    )
    (results,), result = run(OF_KEYS[call](keyed(NUMBERS), "drop"))
    assert sorted(map(repr, results)) == sorted(map(repr, expected))
    assert result.counter("failed_records_dropped") == len(NUMBERS) - len(GOOD)


def test_a_further_try_of_a_stateful_function_begins_with_the_state_before() -> None:
    tries: list[int] = []

    def flaky(state: list[int], number: Number) -> tuple[list[int], int]:
        state.append(number.value)
        tries.append(len(state))
        if len(tries) == 2:
            raise OSError("not yet")
        return state, len(state)

    again = Retry[Number](FixedDelayRetryStrategy(2, timedelta(0)))
    (results,), _ = run(keyed([Number("a", 1, 1), Number("a", 2, 2)]).stateful_map(list, flaky, on_error=again))
    assert (results, tries) == ([1, 2], [1, 2, 2])


def test_state_goes_on_from_a_checkpoint() -> None:
    source = PushSource(Number)
    by_key = from_source(source).key_by(lambda number: number.key)
    harness = StreamHarness(by_key.stateful_flat_map(list, listed, on_error="drop"), source)
    for at, value in ((1, 1), (2, 5), (3, 2)):
        harness.process_element(Number("a", at, value), at)
        harness.snapshot_restore()
    assert is_bad(Number("a", 2, 5))
    assert harness.take_values() == [1, 1, 2]
    assert harness.counter("failed_records_dropped") == 1


# The page


PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "failures.md").read_text()
_OF_ELEMENTS = ("Callable", "Function", "Condition", "Pattern")
_ONCE = {"apply_transform", "pipe"}  # the functions of these are called when the plan is made


def calls() -> Iterator[tuple[str, Any, bool]]:
    """The public calls of streams that take a user's function: the name, the call, and whether it has ``on_error``."""
    for module in pkgutil.iter_modules(windrow.builder.__path__, "windrow.builder."):
        for class_ in vars(import_module(module.name)).values():
            if not (inspect.isclass(class_) and issubclass(class_, Stage)):
                continue
            for name in dir(class_):
                call = getattr(class_, name)
                if name.startswith("_") or name in _ONCE or not inspect.isfunction(call):
                    continue
                parameters = inspect.signature(call).parameters
                takes = [
                    each for each in parameters.values() if any(map(str(each.annotation).__contains__, _OF_ELEMENTS))
                ]
                if takes:
                    yield f"{class_.__name__}.{name}", call, "on_error" in parameters


def first_cells(heading: str) -> set[str]:
    """The calls that the first column of the table below a heading names."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_the_page_says_of_each_call_whether_it_has_a_policy() -> None:
    found = [*calls()]
    assert len(found) > 100
    having, lacking = first_cells("Which steps have it"), first_cells("Which have none")
    for name, _, has_policy in found:
        assert name.split(".")[1] in (having if has_policy else lacking), name
    named = {name.split(".")[1] for name, _, _ in found}
    assert having | lacking <= named | {"sink_to", "count", "first", "group_into_batches"}


LACKING = {name: call for name, call, has_policy in calls() if not has_policy}


@pytest.mark.parametrize("name", LACKING)
def test_calls_without_a_policy_say_what_to_write_instead(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="has no on_error") as caught:
        LACKING[name](None, on_error="drop")
    assert caught.value.hint
    assert __file__ in str(caught.value)


@pytest.mark.parametrize("call", ["first", "group_into_batches"])
def test_calls_without_a_function_of_the_users_have_no_policy(call: str) -> None:
    with pytest.raises(InvalidArgumentError, match="no function of yours"):
        getattr(keyed(NUMBERS), call)(on_error="drop")
    counting: Any = keyed(NUMBERS).count_window(2).count
    with pytest.raises(InvalidArgumentError, match="no function of yours"):
        counting(on_error="drop")


# Errors of retries name the line of the program


# Any: what mypy refuses.
RETRIES: dict[str, Callable[[Any], object]] = {
    "no strategy": Retry,
    "no policy": lambda three: Retry(FixedDelayRetryStrategy(three), then="again"),  # type: ignore[arg-type]
    "judges results": lambda three: Retry(FixedDelayRetryStrategy(three, retry_result=bool)),
    "no attempts": lambda three: FixedDelayRetryStrategy(three - 3),
    "before now": lambda three: FixedDelayRetryStrategy(three, timedelta(-1)),
    "shrinking": lambda three: ExponentialBackoffDelayRetryStrategy(three, timedelta(1), timedelta(2), 0.5),
}


@pytest.mark.parametrize("what", RETRIES)
def test_errors_of_retries_name_the_line_of_the_program(what: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        RETRIES[what](3)
    assert str(caught.value.where).startswith(f"{__file__}:")
