"""Elements that no firing has output are counted when their window ends, or the stream does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.operators.stories import KEYED, NUMBERS, feed, story
from tests.support.records import add, millis
from windrow import DataStream, Pipeline, from_source
from windrow import aggregates as agg
from windrow.errors import InvalidArgumentError
from windrow.evictors import CountEvictor
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeoutTrigger,
    NeverTrigger,
    PurgingTrigger,
    after_count,
    after_processing_time,
    repeatedly,
)
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.testing import StreamHarness

# Any in this module: the stages of windows have no common base.

UNFIRED = "unfired_window_records_dropped"
NUMBERED = from_source(CollectionSource(range(7), int))
BY_KEY = NUMBERED.key_by(lambda _: "a")


def run(stream: DataStream[int], *, drain: bool = True) -> tuple[list[int], int]:
    """The results, and how many elements were counted as in none."""
    sink = CollectSink[int]()
    result = LocalRunner().run(Pipeline("rest", stream.sink_to(sink)), drain=drain)
    return result.collected(sink), result.counter(UNFIRED)


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (BY_KEY.count_window(3), ([3, 12], 1)),
        (BY_KEY.count_window(7), ([21], 0)),
        (BY_KEY.count_window(4, 3), ([3, 14], 1)),
        (BY_KEY.count_window(3, fire_at_end=True), ([3, 12, 6], 0)),
        (BY_KEY.count_window(7, fire_at_end=True), ([21], 0)),
        (BY_KEY.count_window(4, 3, fire_at_end=True), ([3, 14, 18], 0)),
        (NUMBERED.count_window_all(3), ([3, 12], 1)),
        (NUMBERED.count_window_all(3, fire_at_end=True), ([3, 12, 6], 0)),
    ],
)
def test_count_windows_count_or_give_what_does_not_fill_one(windows: Any, expected: tuple[list[int], int]) -> None:
    assert run(windows.reduce(add)) == expected


def test_elements_that_go_on_waiting_behind_a_stop_are_not_counted() -> None:
    assert run(BY_KEY.count_window(3).reduce(add), drain=False) == ([3, 12], 0)


def test_whether_the_rest_is_given_is_a_bool() -> None:
    with pytest.raises(InvalidArgumentError, match="fire_at_end must be a bool"):
        BY_KEY.count_window(3, fire_at_end=1)  # type: ignore[arg-type]  # on purpose


def counted(windows: Any, *, keeps_elements: bool) -> DataStream[int]:
    if keeps_elements:
        return windows.apply(lambda key, window, elements: [len(list(elements))])  # type: ignore[no-any-return]
    return windows.aggregate(agg.count())  # type: ignore[no-any-return]


ALL_TIME: Any = KEYED.window(GlobalWindows.create())
FOURS: Any = KEYED.window(TumblingEventTimeWindows.of(millis(4)))
NINE: Any = CountTrigger.of(9)


@pytest.mark.parametrize(
    ("windows", "results", "unfired"),
    [
        (ALL_TIME.trigger(NeverTrigger.create()), [], 7),
        (ALL_TIME.trigger(CountTrigger.of(5)), [5], 2),
        (ALL_TIME.trigger(CountTrigger.of(5)).evictor(CountEvictor.of(2)), [2], 2),
        (ALL_TIME.trigger(DeltaTrigger.of(3.0, lambda a, b: b - a)), [5], 2),
        (FOURS.trigger(CountTrigger.of(3)), [3, 3], 1),
        (FOURS.trigger(NINE), [], 7),
        # In each window that an element is in it waits by itself.
        (KEYED.window(SlidingEventTimeWindows.of(millis(8), millis(4))).trigger(NINE), [], 14),
        (KEYED.window(EventTimeSessionWindows.with_gap(millis(5))).trigger(CountTrigger.of(5)), [5], 2),
        (FOURS.trigger(NINE).allowed_lateness(timedelta.max), [], 7),
        # Nothing is left by these.
        (ALL_TIME.trigger(PurgingTrigger.of(EventTimeoutTrigger.of(CountTrigger.of(5), millis(30)))), [5, 2], 0),
        (FOURS.trigger(EventTimeoutTrigger.of(CountTrigger.of(3), millis(30))), [3, 3, 4], 0),
        (FOURS, [4, 3], 0),
        (FOURS.trigger(repeatedly(after_count(3))), [3, 3, 4, 3], 0),
        (ALL_TIME.trigger(PurgingTrigger.of(ContinuousEventTimeTrigger.of(millis(4)))), [7], 0),
    ],
)
@pytest.mark.parametrize("keeps_elements", [False, True])
def test_windows_of_all_kinds(windows: Any, results: list[int], unfired: int, keeps_elements: bool) -> None:
    with StreamHarness(counted(windows, keeps_elements=keeps_elements), NUMBERS) as harness:
        feed(harness, "0 1 2 3 4 5 6 ^")
        assert (harness.take_values(), harness.counter(UNFIRED)) == (results, unfired)


@pytest.mark.parametrize("clears", [True, False])
@pytest.mark.parametrize("purges", [True, False])
def test_what_comes_behind_a_timeout_waits_for_another_or_for_the_end_of_its_window(clears: bool, purges: bool) -> None:
    timeout = EventTimeoutTrigger.of(CountTrigger.of(9), millis(5), should_clear_on_timeout=clears)
    trigger = PurgingTrigger.of(timeout) if purges else timeout
    last = [12 if purges else 15]
    for windows, end in (
        (KEYED.window(TumblingEventTimeWindows.of(millis(90))), last),
        (ALL_TIME, last if clears else ["2 unfired"]),
    ):
        stream = windows.trigger(trigger).reduce(add)
        assert story(stream, "^0 1/1 ^2 2/3 ^9 4/10 ^10 8/11 ^") == {"^9": [3], "^": end}


def test_sessions_that_merge_add_up_what_waits_in_them() -> None:
    windows = KEYED.window(EventTimeSessionWindows.with_gap(millis(10))).trigger(CountTrigger.of(9))
    # The last two join all.
    assert story(windows.reduce(add), "0 30 15 8 22 ^100", restores=True) == {"^100": ["5 unfired"]}


CLOCK_TENS: Any = KEYED.window(TumblingProcessingTimeWindows.of(millis(10)))
EACH_TEN = ContinuousProcessingTimeTrigger.of(millis(10))


@pytest.mark.parametrize(
    ("windows", "results", "unfired"),
    [
        (CLOCK_TENS, [2], 3),
        (KEYED.window(SlidingProcessingTimeWindows.of(millis(10), millis(5))), [2, 2], 6),
        (KEYED.window(ProcessingTimeSessionWindows.with_gap(millis(10))), [2], 3),
        (CLOCK_TENS.trigger(CountTrigger.of(2)), [2, 2], 1),
        (CLOCK_TENS.trigger(NINE), [], 5),
        (CLOCK_TENS.trigger(repeatedly(after_count(2))), [2, 2, 2], 1),
        (CLOCK_TENS.trigger(repeatedly(after_count(9))), [2], 3),
        (ALL_TIME.trigger(EACH_TEN), [2], 3),
        (ALL_TIME.trigger(PurgingTrigger.of(EACH_TEN)), [2], 3),
        # The last pane of the window of all time comes with the end of the stream.
        (ALL_TIME.trigger(repeatedly(after_processing_time(millis(10)))), [2, 5], 0),
        # A timer for the end of a window, which the clock has passed: each element fires.
        (KEYED.window(TumblingEventTimeWindows.of(millis(10))).trigger(EACH_TEN), [2, 3, 4, 5], 0),
    ],
)
@pytest.mark.parametrize("keeps_elements", [False, True])
def test_what_waits_for_the_clock_when_the_stream_ends_is_counted(
    windows: Any, results: list[int], unfired: int, keeps_elements: bool
) -> None:
    with StreamHarness(counted(windows, keeps_elements=keeps_elements), NUMBERS) as harness:
        feed(harness, "@0 0/1 1/1 @15 0/1 1/1 2/1 | ^")
        assert (harness.take_values(), harness.counter(UNFIRED)) == (results, unfired)


def test_what_waits_is_due_at_the_end_of_the_stream() -> None:
    with StreamHarness(KEYED.count_window(3).reduce(add), NUMBERS) as harness:
        feed(harness, "1/")
        (state,) = [operator.state for operator in harness._execution.operators.values()]
        assert isinstance(state, OperatorState)
        assert state.earliest_event_timer() == MAX_TIMESTAMP


@pytest.mark.parametrize("fires", [False, True])
def test_explain_remarks_on_it(fires: bool) -> None:
    stream = BY_KEY.count_window(3, fire_at_end=fires).reduce(add)
    remark = "elements that wait for a firing when the stream ends are dropped"
    assert (remark in Pipeline("p", stream.sink_to(CollectSink())).explain()) == (not fires)
