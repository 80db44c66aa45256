"""A window function whose call fails changes nothing, and the window goes on."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any, get_args, get_origin

import pytest

from tests.support.failing import SEEN, Number, Seen, UnluckyError
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, WindowedStream, from_source
from windrow.errors import PlanError, UserFunctionError
from windrow.failures import Failed, OnError, Retry
from windrow.functions import FixedDelayRetryStrategy
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.triggers import CountTrigger, after_count, repeatedly
from windrow.windows import SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows, WindowAssigner
from windrow_runtime.local import LocalRunner, PipelineResult

# Any in this module: elements of every type.

FAILED = OutputTag[Failed[list[Number]]]("failed")
ASSIGNERS: list[WindowAssigner[Number, TimeWindow]] = [
    TumblingEventTimeWindows.of(timedelta(milliseconds=20)),
    SlidingEventTimeWindows.of(timedelta(milliseconds=30), timedelta(milliseconds=10)),
]


def windows_of(numbers: list[Number], assigner: WindowAssigner[Number, TimeWindow]) -> WindowedStream[Number, str, Any]:
    strategy = WatermarkStrategy[Number].for_bounded_out_of_orderness(timedelta(milliseconds=5))
    stamped = from_source(CollectionSource(numbers, batch_size=10)).returns(Number)
    keyed = stamped.assign_timestamps_and_watermarks(strategy, lambda number: number.at).key_by(lambda n: n.key)
    return keyed.window(assigner).allowed_lateness(timedelta(milliseconds=20))


def run(*streams: DataStream[Any]) -> tuple[list[list[Any]], PipelineResult]:
    sinks = [CollectSink[Any]() for _ in streams]
    ends = [stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True)]
    result = LocalRunner().run(Pipeline("windows", *ends))
    return [result.collected(sink) for sink in sinks], result


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("counts", [False, True])
def test_a_failed_window_changes_nothing(assigner: WindowAssigner[Number, TimeWindow], *, counts: bool) -> None:
    chance = random.Random(f"{assigner} {counts}")
    numbers = [Number(chance.choice("ab"), 2 * at + chance.randrange(20), chance.randrange(100)) for at in range(120)]

    def made(function: Seen, on_error: OnError[list[Number]]) -> DataStream[Any]:
        windows = windows_of(numbers, assigner)
        return (windows.trigger(CountTrigger.of(2)) if counts else windows).process(function, on_error=on_error)

    quiet, failing = made(Seen(raises=False), "fail"), made(Seen(raises=True), FAILED)
    (results, seen), _ = run(quiet, quiet.get_side_output(SEEN))
    (results_too, seen_too, failed), _ = run(failing, failing.get_side_output(SEEN), failing.get_side_output(FAILED))
    assert results
    assert (results_too, seen_too) == (results, seen)
    assert failed
    assert all(sum(number.value for number in each.element) % 3 == 0 for each in failed)
    assert all(each.error.startswith("UnluckyError: the window ") for each in failed)
    assert all(f"key '{each.element[0].key}', TimeWindow(" in each.error for each in failed)
    (dropped,), result = run(made(Seen(raises=True), "drop"))
    assert dropped == results
    assert result.counter("failed_records_dropped") == len(failed)


NUMBERS = [Number("a", 1, 1), Number("a", 2, 2)]


def test_a_plain_function_of_windows_has_a_policy() -> None:
    def first(key: str, window: TimeWindow, numbers: Any) -> list[int]:
        numbers.clear()  # the side output has them all the same
        raise UnluckyError(window.start)

    made = windows_of(NUMBERS, ASSIGNERS[0]).apply(first, on_error=FAILED)
    (good, failed), _ = run(made, made.get_side_output(FAILED))
    assert (good, [each.element for each in failed]) == ([], [NUMBERS])
    type_form = made.get_side_output(OutputTag("failed")).element_type
    assert (get_origin(type_form), get_args(type_form)) == (Failed, (list[Number],))


def test_windows_without_keys_have_a_policy() -> None:
    stamped = from_source(CollectionSource(NUMBERS)).returns(Number)
    strategy = WatermarkStrategy[Number].for_monotonous_timestamps()
    windows = stamped.assign_timestamps_and_watermarks(strategy, lambda n: n.at).window_all(ASSIGNERS[0])
    (good,), result = run(windows.apply(lambda window, numbers: [1 // (len(numbers) - 2)], on_error="drop"))
    assert (good, result.counter("failed_records_dropped")) == ([], 1)


def test_a_window_is_tried_again() -> None:
    tries: list[int] = []

    def flaky(key: str, window: TimeWindow, numbers: Any) -> list[int]:
        tries.append(len(numbers))
        numbers.pop()
        if len(tries) < 3:
            raise OSError("not yet")
        return [len(tries)]

    again = FixedDelayRetryStrategy(3, timedelta(0))
    (good,), _ = run(windows_of(NUMBERS, ASSIGNERS[0]).apply(flaky, on_error=Retry(again)))
    assert (good, tries) == ([3], [2, 2, 2])
    tries.clear()
    with pytest.raises(UserFunctionError, match=r"key 'a', window .*, 2 tries"):
        run(windows_of(NUMBERS, ASSIGNERS[0]).apply(flaky, on_error=Retry(FixedDelayRetryStrategy(2, timedelta(0)))))


def test_windows_whose_panes_refine_others_have_no_policy() -> None:
    windows = windows_of(NUMBERS, ASSIGNERS[0]).trigger(repeatedly(after_count(1))).accumulating()
    with pytest.raises(PlanError, match=r"windows that fire panes .* have no on_error"):
        run(windows.process(Seen(raises=True), on_error="drop"))


def test_other_calls_say_where_a_policy_goes() -> None:
    windows: Any = windows_of(NUMBERS, ASSIGNERS[0])
    with pytest.raises(AttributeError, match=r"process\(function, on_error=tag\)"):
        windows.on_error("drop")
    stream: Any = from_source(CollectionSource(NUMBERS))
    with pytest.raises(AttributeError, match=r"map\(function, on_error=tag\)"):
        stream.on_error("drop")
    with pytest.raises(AttributeError, match="on_error= of key_by"):
        stream.key_by(lambda number: number.key).on_error("drop")
