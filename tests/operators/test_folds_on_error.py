"""An element for which a function of a reduce or an aggregate of windows raises is in none of its windows."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest

from tests.support.failing import Gathered, Number, UnluckyError, checked, is_bad
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, WindowedStream, from_source
from windrow import aggregates as agg
from windrow.errors import PlanError, UnsupportedOperationError, UserFunctionError
from windrow.evictors import CountEvictor
from windrow.failures import Failed, OnError, Retry
from windrow.functions import AggregateFunction, FixedDelayRetryStrategy, ProcessWindowContext, ProcessWindowFunction
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.triggers import CountTrigger, PurgingTrigger, after_count, after_watermark
from windrow.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from windrow_runtime.local import LocalRunner, PipelineResult
from windrow_runtime.operators.state.live_sessions import MANY_SESSIONS, LiveSessions
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: windows and results of every type.

FAILED = OutputTag[Failed[Number | None]]("failed")
LATE = OutputTag[Number]("late")
TUMBLING = TumblingEventTimeWindows.of(timedelta(milliseconds=20))
ASSIGNERS: list[WindowAssigner[Number, TimeWindow]] = [
    TUMBLING,
    SlidingEventTimeWindows.of(timedelta(milliseconds=30), timedelta(milliseconds=10)),
    EventTimeSessionWindows.with_gap(timedelta(milliseconds=7)),
    EventTimeSessionWindows.with_dynamic_gap(lambda number: timedelta(milliseconds=3 + number.value % 9)),
]


def stamped(numbers: Sequence[Number]) -> DataStream[Number]:
    strategy = WatermarkStrategy[Number].for_bounded_out_of_orderness(timedelta(milliseconds=10))
    source = from_source(CollectionSource(numbers, batch_size=10)).returns(Number)
    return source.assign_timestamps_and_watermarks(strategy, lambda number: number.at)


def windows_of(
    numbers: DataStream[Number], assigner: WindowAssigner[Number, TimeWindow] = TUMBLING
) -> WindowedStream[Number, str, Any]:
    keyed = numbers.key_by(lambda number: number.key)
    return keyed.window(assigner).allowed_lateness(timedelta(milliseconds=20)).side_output_late_data(LATE)


def run(*streams: DataStream[Any]) -> tuple[list[list[Any]], PipelineResult]:
    sinks = [CollectSink[Any]() for _ in streams]
    ends = [stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True)]
    result = LocalRunner().run(Pipeline("folds", *ends))
    return [result.collected(sink) for sink in sinks], result


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("counts", [False, True])
def test_an_element_that_fails_is_in_no_window(assigner: WindowAssigner[Number, TimeWindow], *, counts: bool) -> None:
    for seed in range(4):
        chance = random.Random(seed)
        numbers = [
            Number(chance.choice("ab"), at + chance.randrange(20), chance.randrange(100)) for at in range(0, 400, 2)
        ]

        def made(elements: DataStream[Number], on_error: OnError[Number | None]) -> DataStream[Any]:
            windows = windows_of(elements, assigner)
            if counts:
                windows = windows.trigger(PurgingTrigger.of(CountTrigger.of(2)), may_lose_data=True)
            return windows.aggregate(Gathered(), on_error=on_error)

        good = made(stamped(numbers).filter(lambda number: not is_bad(number)), "fail")
        failing = made(stamped(numbers), FAILED)
        (results,), _ = run(good)
        (results_too, failed, late), _ = run(failing, failing.get_side_output(FAILED), failing.get_side_output(LATE))
        assert results
        # The loop for sessions fires those of several keys that end at one time in another order.
        assert sorted(results_too) == sorted(results)
        bad = [number for number in numbers if is_bad(number) and number not in late]
        assert sorted(each.element for each in failed) == sorted(bad)
        assert {each.error for each in failed} == {f"UnluckyError: the number {each.value}..." for each in bad}
        (dropped,), result = run(made(stamped(numbers), "drop"))
        assert dropped == results_too
        assert result.counter("failed_records_dropped") == len(bad)


def test_a_reduce_has_a_policy_and_keeps_what_was_combined() -> None:
    numbers = [Number("a", 1, 1), Number("a", 2, 0), Number("a", 3, 2)]
    failed = OutputTag[Failed[Number]]("failed")
    windows = windows_of(stamped(numbers))
    step = windows.reduce(lambda a, b: Number(a.key, b.at, a.value + 4 // b.value), on_error=failed)
    (good, aside), _ = run(step, step.get_side_output(failed))
    assert good == [Number("a", 3, 3)]
    assert [each.element for each in aside] == [numbers[1]]
    assert str(step.get_side_output(OutputTag("failed")).element_type).endswith("Failed[tests.support.failing.Number]")


def test_a_declared_aggregate_has_a_policy() -> None:
    numbers = [Number("a", 1, 1), Number("a", 2, 0), Number("a", 3, 2)]
    step = windows_of(stamped(numbers)).aggregate(agg.sum(lambda number: 4 // number.value), on_error="drop")
    (good,), result = run(step)
    assert (good, result.counter("failed_records_dropped")) == ([6], 1)
    all_windows = stamped(numbers).window_all(TUMBLING)
    (good,), result = run(all_windows.aggregate(agg.sum(lambda number: 4 // number.value), on_error="drop"))
    assert (good, result.counter("failed_records_dropped")) == ([6], 1)


class Shows(ProcessWindowFunction[list[int], int, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[list[int]]) -> list[int]:
        (values,) = elements
        if len(values) == 1:
            values.clear()
            raise UnluckyError("too few")
        return [len(values)]


class Result(Gathered):
    def get_result(self, accumulator: list[int]) -> list[int]:
        if len(accumulator) == 1:
            accumulator.clear()
            raise UnluckyError("too few")
        return accumulator


@pytest.mark.parametrize("is_after", [False, True])
def test_a_firing_that_fails_has_no_element_and_the_window_goes_on(*, is_after: bool) -> None:
    # The trigger fires the window with one element, and with two.
    numbers = [Number("a", 1, 1), Number("a", 2, 2), Number("b", 30, 1)]
    windows = windows_of(stamped(numbers)).trigger(CountTrigger.of(1))
    step: DataStream[Any]
    if is_after:
        step = windows.aggregate(Gathered(), Shows(), on_error=FAILED)
    else:
        step = windows.aggregate(Result(), on_error=FAILED)
    (good, failed), _ = run(step, step.get_side_output(FAILED))
    assert good == ([2] if is_after else [[1, 2]])
    errors = [
        f"UnluckyError: too few (key '{key}', TimeWindow(start={start}, end={start + 20}))"
        for key, start in (("a", 0), ("b", 20))
    ]
    assert [(each.element, each.error) for each in failed] == [(None, error) for error in errors]


def test_an_element_is_tried_again_with_the_windows_as_they_were() -> None:
    tries: list[int] = []

    class Flaky(Gathered):
        def add(self, value: Number, accumulator: list[int]) -> list[int]:
            accumulator.append(value.value)
            tries.append(len(accumulator))
            if len(tries) in {2, 3}:
                raise OSError("not yet")
            return accumulator

    numbers = [Number("a", 1, 1), Number("a", 2, 2)]
    again = Retry(FixedDelayRetryStrategy(3, timedelta(0)))
    (good,), _ = run(windows_of(stamped(numbers)).aggregate(Flaky(), on_error=again))
    assert (good, tries) == ([[1, 2]], [1, 2, 2, 2])
    tries.clear()
    twice = Retry(FixedDelayRetryStrategy(2, timedelta(0)))
    with pytest.raises(UserFunctionError, match=r"element Number.*, 2 tries"):
        run(windows_of(stamped(numbers)).aggregate(Flaky(), on_error=twice))


def test_windows_go_on_from_a_checkpoint() -> None:
    source = PushSource(Number)
    windows = from_source(source).key_by(lambda number: number.key).window(TUMBLING)
    harness = StreamHarness(windows.aggregate(Gathered(), on_error="drop"), source)
    for at, value in ((1, 1), (2, 5), (3, 2)):
        harness.process_element(Number("a", at, value), at)
        harness.snapshot_restore()
    harness.process_watermark(20)
    assert harness.take_values() == [[1, 2]]
    assert harness.counter("failed_records_dropped") == 1


class MergingAsTheyLike(EventTimeSessionWindows):
    def merge_windows(self, windows: Any) -> Any:
        return super().merge_windows(windows)


class AssigningTwice(EventTimeSessionWindows):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return [TimeWindow(timestamp, timestamp + 2), TimeWindow(timestamp + 1, timestamp + 9)]


def test_windows_that_cannot_leave_an_element_out_are_refused() -> None:
    evicting = windows_of(stamped([])).evictor(CountEvictor.of(2))
    with pytest.raises(PlanError, match="fold all elements anew"):
        run(evicting.aggregate(Gathered(), on_error="drop"))
    keyed = stamped([]).key_by(lambda n: n.key)
    for assigner in (MergingAsTheyLike, AssigningTwice):
        with pytest.raises(PlanError, match="in a way of its own"):
            run(keyed.window(assigner(timedelta(milliseconds=7))).aggregate(Gathered(), on_error="drop"))


def test_the_reason_why_windows_have_no_policy_is_their_own() -> None:
    keyed = stamped([]).key_by(lambda n: n.key)
    with pytest.raises(PlanError, match=r"windows of the last 4 elements fold(.*\n)*.*leave the slide of count_window"):
        run(keyed.count_window(4, 2).aggregate(Gathered(), on_error="drop"))
    panes = keyed.window(TUMBLING).trigger(after_watermark(early=after_count(1)))
    with pytest.raises(PlanError, match=r"fire panes \(after_watermark\(early=after_count\(1\)\), discarding\)"):
        run(panes.discarding().aggregate(Gathered(), on_error="drop"))
    over_changes = panes.retracting().reduce(lambda a, b: a).window_all(TUMBLING)
    with pytest.raises(PlanError, match="windows that retract are upstream, and windows with on_error"):
        run(over_changes.aggregate(Gathered(), on_error="drop"))


class Refusing:
    def __init__(self) -> None:
        self.values: list[int] = []

    def __deepcopy__(self, memo: object) -> Refusing:
        raise ValueError("no copies")


class HeldIn(AggregateFunction[Number, Any, str]):
    """Keeps what ``make`` gives, whether windrow can copy it or not."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def create_accumulator(self) -> Any:
        return self.make()

    def add(self, value: Number, accumulator: Any) -> Any:
        checked(value)
        return accumulator

    def get_result(self, accumulator: Any) -> str:
        return type(accumulator).__name__


# None of them is an error of an element, which a policy would leave out.
@pytest.mark.parametrize("make", [hashlib.sha256, lambda: [MappingProxyType({"values": [1]})], Refusing])
def test_an_accumulator_that_cannot_be_copied_is_refused(make: Callable[[], Any]) -> None:
    windows = windows_of(stamped([Number("a", 1, 1), Number("a", 2, 2)]))
    with pytest.raises(
        UnsupportedOperationError, match="an accumulator that cannot be copied has no on_error"
    ) as caught:
        run(windows.aggregate(HeldIn(make), on_error="drop"))
    assert "folds.5.window" in str(caught.value)


def test_an_element_joins_those_that_it_touches_of_many_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(sessions: LiveSessions) -> Any:
        raise AssertionError("an element looks at all sessions of its key")

    monkeypatch.setattr(LiveSessions, "__iter__", all_of_them)
    chance = random.Random(3)
    numbers = [Number("a", chance.randrange(2_000), chance.randrange(100)) for _ in range(400)]
    strategy = WatermarkStrategy[Number].for_bounded_out_of_orderness(timedelta(hours=1))

    def made(on_error: OnError[Number | None], given: Sequence[Number]) -> DataStream[Any]:
        source = from_source(CollectionSource(given)).returns(Number)
        stream = source.assign_timestamps_and_watermarks(strategy, lambda number: number.at)
        sessions = stream.key_by(lambda n: n.key).window(EventTimeSessionWindows.with_gap(timedelta(milliseconds=7)))
        return sessions.aggregate(Gathered(), on_error=on_error)

    (good,), _ = run(made("fail", [number for number in numbers if not is_bad(number)]))
    (good_too,), result = run(made("drop", numbers))
    assert len(good) > 2 * MANY_SESSIONS
    assert good_too == good
    assert result.counter("failed_records_dropped") == sum(map(is_bad, numbers))
