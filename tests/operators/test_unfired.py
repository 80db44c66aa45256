"""Elements that no firing has output are counted when their window ends, or the stream does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.records import KeyAt, millis
from windrow import DataStream, KeyedStream, Pipeline, WatermarkStrategy, from_source
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
from windrow_runtime.testing import PushSource, StreamHarness

UNFIRED = "unfired_window_records_dropped"


def run(
    make: Callable[[KeyedStream[KeyAt, str]], DataStream[int]], count: int = 7, *, drain: bool = True
) -> tuple[list[int], int]:
    """The results over some elements a millisecond apart, and how many elements were counted as in none."""
    readings = [KeyAt("a", at) for at in range(count)]
    sink = CollectSink[int]()
    stream = from_source(CollectionSource(readings, KeyAt)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda reading: reading.at
    )
    pipeline = Pipeline("rest", make(stream.key_by(lambda reading: reading.key)).sink_to(sink))
    result = LocalRunner().run(pipeline, drain=drain)
    return result.collected(sink), result.counter(UNFIRED)


def test_count_windows_count_what_does_not_fill_one() -> None:
    assert run(lambda keyed: keyed.count_window(3).aggregate(agg.count())) == ([3, 3], 1)
    assert run(lambda keyed: keyed.count_window(3).aggregate(agg.count()), 6) == ([3, 3], 0)
    assert run(lambda keyed: keyed.count_window(4, 3).aggregate(agg.count())) == ([3, 4], 1)


def test_elements_that_go_on_waiting_behind_a_stop_are_not_counted() -> None:
    assert run(lambda keyed: keyed.count_window(3).aggregate(agg.count()), drain=False) == ([3, 3], 0)


def test_count_windows_give_the_rest_at_the_end_where_they_are_asked_to() -> None:
    assert run(lambda keyed: keyed.count_window(3, fire_at_end=True).aggregate(agg.count())) == ([3, 3, 1], 0)
    assert run(lambda keyed: keyed.count_window(3, fire_at_end=True).aggregate(agg.count()), 6) == ([3, 3], 0)
    assert run(lambda keyed: keyed.count_window(4, 3, fire_at_end=True).aggregate(agg.count())) == ([3, 4, 4], 0)
    with pytest.raises(InvalidArgumentError, match="fire_at_end must be a bool"):
        run(lambda keyed: keyed.count_window(3, fire_at_end=1).aggregate(agg.count()))  # type: ignore[arg-type]  # on purpose


def test_the_rest_of_streams_without_keys() -> None:
    sink = CollectSink[int]()
    stream = from_source(CollectionSource([1, 2, 3, 4, 5], int))
    result = LocalRunner().run(Pipeline("all", stream.count_window_all(2).reduce(lambda a, b: a + b).sink_to(sink)))
    assert (result.collected(sink), result.counter(UNFIRED)) == ([3, 7], 1)
    result = LocalRunner().run(
        Pipeline("all", stream.count_window_all(2, fire_at_end=True).reduce(lambda a, b: a + b).sink_to(sink))
    )
    assert (result.collected(sink), result.counter(UNFIRED)) == ([3, 7, 5], 0)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda k: k.window(GlobalWindows.create()).trigger(NeverTrigger.create()), ([], 7)),
        (lambda k: k.window(GlobalWindows.create()).trigger(CountTrigger.of(5)), ([5], 2)),
        (lambda k: k.window(GlobalWindows.create()).trigger(CountTrigger.of(5)).evictor(CountEvictor.of(2)), ([2], 2)),
        (lambda k: k.window(GlobalWindows.create()).trigger(DeltaTrigger.of(3.0, lambda a, b: b.at - a.at)), ([5], 2)),
        (lambda k: k.window(TumblingEventTimeWindows.of(millis(4))).trigger(CountTrigger.of(3)), ([3, 3], 1)),
        (lambda k: k.window(TumblingEventTimeWindows.of(millis(4))).trigger(CountTrigger.of(9)), ([], 7)),
        # In each window that an element is in it waits by itself.
        (lambda k: k.window(SlidingEventTimeWindows.of(millis(8), millis(4))).trigger(CountTrigger.of(9)), ([], 14)),
        (lambda k: k.window(EventTimeSessionWindows.with_gap(millis(5))).trigger(CountTrigger.of(5)), ([5], 2)),
        (
            lambda k: (
                k.window(TumblingEventTimeWindows.of(millis(4)))
                .trigger(CountTrigger.of(9))
                .allowed_lateness(timedelta.max)
            ),
            ([], 7),
        ),
        # Nothing is left by these.
        (
            lambda k: k.window(GlobalWindows.create()).trigger(
                PurgingTrigger.of(EventTimeoutTrigger.of(CountTrigger.of(5), millis(30)))
            ),
            ([5, 2], 0),
        ),
        (
            lambda k: k.window(TumblingEventTimeWindows.of(millis(4))).trigger(
                EventTimeoutTrigger.of(CountTrigger.of(3), millis(30))
            ),
            ([3, 3, 4], 0),
        ),
        (lambda k: k.window(TumblingEventTimeWindows.of(millis(4))), ([4, 3], 0)),
        (
            lambda k: k.window(TumblingEventTimeWindows.of(millis(4))).trigger(repeatedly(after_count(3))),
            ([3, 3, 4, 3], 0),
        ),
        (
            lambda k: k.window(GlobalWindows.create()).trigger(
                PurgingTrigger.of(ContinuousEventTimeTrigger.of(millis(4)))
            ),
            ([7], 0),
        ),
    ],
)
@pytest.mark.parametrize("keeps_elements", [False, True])
def test_windows_of_all_kinds(make: object, expected: tuple[list[int], int], keeps_elements: bool) -> None:
    def with_function(keyed: KeyedStream[KeyAt, str]) -> DataStream[int]:
        windows = make(keyed)  # type: ignore[operator]  # the stages of windows have no common base
        if keeps_elements:
            return windows.apply(lambda key, window, elements: [len(list(elements))])  # type: ignore[no-any-return]
        return windows.aggregate(agg.count())  # type: ignore[no-any-return]

    assert run(with_function) == expected


@pytest.mark.parametrize("clears", [True, False])
@pytest.mark.parametrize("purges", [True, False])
def test_what_comes_behind_a_timeout_waits_for_another_or_for_the_end_of_its_window(clears: bool, purges: bool) -> None:
    timeout = EventTimeoutTrigger.of(CountTrigger.of(9), millis(5), should_clear_on_timeout=clears)
    source = PushSource(int)
    keyed = from_source(source).key_by(lambda n: "a")
    for windows, counted in (
        (keyed.window(TumblingEventTimeWindows.of(millis(90))), 0),
        (keyed.window(GlobalWindows.create()), 0 if clears else 2),
    ):
        # Any: the two stages take other triggers.
        stage: Any = windows
        stream = stage.trigger(PurgingTrigger.of(timeout) if purges else timeout).reduce(lambda a, b: a + b)
        with StreamHarness(stream, source) as harness:
            for at, number in ((1, 1), (3, 2), (10, 4), (11, 8)):
                harness.process_watermark(at - 1)
                harness.process_element(number, timestamp=at)
            assert harness.take_values() == [3]
            harness.process_watermark(MAX_TIMESTAMP)
            assert harness.take_values() == ([] if counted else [12 if purges else 15])
            assert harness.counter(UNFIRED) == counted


def test_sessions_that_merge_add_up_what_waits_in_them() -> None:
    source = PushSource(int)
    windows = from_source(source).key_by(lambda n: "a").window(EventTimeSessionWindows.with_gap(millis(10)))
    stream = windows.trigger(CountTrigger.of(9)).reduce(lambda a, b: a + b)
    with StreamHarness(stream, source) as harness:
        for at in (0, 30, 15, 8, 22):  # the last two join all
            harness.process_element(1, timestamp=at)
            harness.snapshot_restore()
        harness.process_watermark(100)
        assert harness.counter(UNFIRED) == 5


def test_withdrawn_elements_wait_no_more() -> None:
    source = PushSource(int)
    sessions = from_source(source).key_by(lambda n: "a").window(EventTimeSessionWindows.with_gap(millis(10)))
    totals = sessions.trigger(repeatedly(after_count(1))).retracting().reduce(lambda a, b: a + b)
    stream = (
        totals.key_by(lambda n: "a").window(GlobalWindows.create()).trigger(CountTrigger.of(9)).aggregate(agg.count())
    )
    with StreamHarness(stream, source) as harness:
        for at in (0, 5, 7):
            harness.process_element(1, timestamp=at)
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.counter(UNFIRED) == 1  # +1, then -1 +2, then -2 +3


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda k: k.window(TumblingProcessingTimeWindows.of(millis(10))), ([2], 3)),
        (lambda k: k.window(SlidingProcessingTimeWindows.of(millis(10), millis(5))), ([2, 2], 6)),
        (lambda k: k.window(ProcessingTimeSessionWindows.with_gap(millis(10))), ([2], 3)),
        (lambda k: k.window(TumblingProcessingTimeWindows.of(millis(10))).trigger(CountTrigger.of(2)), ([2, 2], 1)),
        (lambda k: k.window(TumblingProcessingTimeWindows.of(millis(10))).trigger(CountTrigger.of(9)), ([], 5)),
        (
            lambda k: k.window(TumblingProcessingTimeWindows.of(millis(10))).trigger(repeatedly(after_count(2))),
            ([2, 2, 2], 1),
        ),
        (
            lambda k: k.window(TumblingProcessingTimeWindows.of(millis(10))).trigger(repeatedly(after_count(9))),
            ([2], 3),
        ),
        (lambda k: k.window(GlobalWindows.create()).trigger(ContinuousProcessingTimeTrigger.of(millis(10))), ([2], 3)),
        (
            lambda k: k.window(GlobalWindows.create()).trigger(
                PurgingTrigger.of(ContinuousProcessingTimeTrigger.of(millis(10)))
            ),
            ([2], 3),
        ),
        # The last pane of the window of all time comes with the end of the stream.
        (
            lambda k: k.window(GlobalWindows.create()).trigger(repeatedly(after_processing_time(millis(10)))),
            ([2, 5], 0),
        ),
        (
            lambda k: k.window(TumblingEventTimeWindows.of(millis(10))).trigger(
                # A timer for the end of a window, which the clock has passed: each element fires.
                ContinuousProcessingTimeTrigger.of(millis(10))
            ),
            ([2, 3, 4, 5], 0),
        ),
    ],
)
@pytest.mark.parametrize("keeps_elements", [False, True])
def test_what_waits_for_the_clock_when_the_stream_ends_is_counted(
    make: object, expected: tuple[list[int], int], keeps_elements: bool
) -> None:
    source = PushSource(int)
    windows = make(from_source(source).key_by(lambda number: number % 1))  # type: ignore[operator]  # no common base
    if keeps_elements:
        stream = windows.apply(lambda key, window, elements: [len(list(elements))])
    else:
        stream = windows.aggregate(agg.count())
    with StreamHarness(stream, source) as harness:
        harness.set_processing_time(0)
        for number in range(2):
            harness.process_element(number, timestamp=1)
        harness.set_processing_time(15)
        for number in range(3):
            harness.process_element(number, timestamp=1)
        harness.snapshot_restore()
        harness.process_watermark(MAX_TIMESTAMP)
        results = harness.take_values()
        assert (results, harness.counter(UNFIRED)) == expected


def test_what_is_withdrawn_from_panes_by_the_clock_waits_no_more() -> None:
    source = PushSource(int)
    totals = (
        from_source(source)
        .key_by(lambda n: "a")
        .window(EventTimeSessionWindows.with_gap(millis(10)))
        .trigger(repeatedly(after_count(1)))
        .retracting()
        .reduce(lambda a, b: a + b)
    )
    panes = totals.key_by(lambda n: "a").window(TumblingProcessingTimeWindows.of(timedelta(days=1)))
    with StreamHarness(panes.trigger(repeatedly(after_count(9))).aggregate(agg.count()), source) as harness:
        harness.set_processing_time(0)
        for at in (0, 5, 7):
            harness.process_element(1, timestamp=at)
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.counter(UNFIRED) == 1  # +1, then -1 +2, then -2 +3


def test_what_waits_is_due_at_the_end_of_the_stream() -> None:
    source = PushSource(int)
    stream = from_source(source).key_by(lambda n: n).count_window(3).reduce(lambda a, b: a + b)
    with StreamHarness(stream, source) as harness:
        harness.process_element(1)
        (state,) = [operator.state for operator in harness._execution.operators.values()]
        assert isinstance(state, OperatorState)
        assert state.earliest_event_timer() == MAX_TIMESTAMP


def test_explain_remarks_on_it() -> None:
    keyed = from_source(CollectionSource([1], int)).key_by(lambda n: n)

    def explained(stream: DataStream[int]) -> str:
        return Pipeline("p", stream.sink_to(CollectSink())).explain()

    remark = "elements that wait for a firing when the stream ends are dropped"
    assert remark in explained(keyed.count_window(3).reduce(lambda a, b: a + b))
    assert remark not in explained(keyed.count_window(3, fire_at_end=True).reduce(lambda a, b: a + b))
