"""Triggers that compose and the panes that they fire, case by case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from tests.support.records import millis
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.aggregates import count
from windrow.aggregates import min as lowest
from windrow.aggregates import sum as total
from windrow.errors import InvalidArgumentError, PlanError, UnsupportedOperationError
from windrow.evictors import CountEvictor
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.panes import Change, ChangeKind, ClosingBehavior, OnTimeBehavior, PaneTiming, TimestampCombiner
from windrow.sinks import CollectSink
from windrow.state import ValueStateDescriptor
from windrow.triggers import (
    ComposableTrigger,
    CountTrigger,
    Finish,
    PartContext,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    Trigger,
    TriggerContext,
    TriggerResult,
    after_all,
    after_any,
    after_count,
    after_each,
    after_processing_time,
    after_watermark,
    default,
    never,
    or_finally,
    repeatedly,
)
from windrow.triggers.composable import AfterWatermark
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Window,
)
from windrow_runtime.testing import PushSource, StreamHarness

TENS = TumblingEventTimeWindows.of(timedelta(milliseconds=10))
GAPS = EventTimeSessionWindows.with_gap(timedelta(milliseconds=5))


W = TypeVar("W", bound=Window)


class Shown(ProcessWindowFunction[int, tuple[str, list[int]], str, W]):
    """Gives each pane with its timing."""

    def process(
        self, key: str, context: ProcessWindowContext[W], elements: Sequence[int]
    ) -> Iterable[tuple[str, list[int]]]:
        return [(context.pane.timing.name, list(elements))]


class Harness:
    """Pushes numbers that are their own timestamps."""

    def __init__(self, harness: StreamHarness[int, Any]) -> None:
        self.harness = harness

    def elements(self, *values: int, at: int | None = None) -> list[Any]:
        for value in values:
            self.harness.process_element(value, value if at is None else at)
        return self.harness.take_values()

    def watermark(self, time: int) -> list[Any]:
        self.harness.process_watermark(time)
        return self.harness.take_values()

    def clock(self, time: int) -> list[Any]:
        self.harness.set_processing_time(time)
        return self.harness.take_values()

    def end(self) -> list[Any]:
        return self.watermark(2**63 - 1)


def tens(trigger: Trigger[int, TimeWindow]) -> Harness:
    source = PushSource(int)
    stage = from_source(source).key_by(lambda value: "key").window(TENS).trigger(trigger, may_lose_data=True)
    return Harness(StreamHarness(stage.discarding().process(Shown()), source))


# One trigger after the other


def test_a_part_forgets_what_another_one_has_fired() -> None:
    # clock     0  1        5        6
    # elements  1  2        |        3  4  5
    # fires                 *              * by three new ones, not by the first of them
    run = tens(repeatedly(after_any(after_count(3), after_processing_time(millis(5)))))
    run.clock(0)
    assert run.elements(1) == []
    run.clock(1)
    assert run.elements(2) == []
    assert run.clock(5) == [("EARLY", [1, 2])]
    assert run.elements(3, 4) == []
    assert run.elements(5) == [("EARLY", [3, 4, 5])]


def test_or_finally_counts_on_while_its_main_trigger_fires() -> None:
    # elements  1  2  3  4  5  6
    # fires        *     *  *     each second one, until the fifth; the sixth comes too late
    run = tens(or_finally(repeatedly(after_count(2)), after_count(5)))
    assert run.elements(1, 2) == [("EARLY", [1, 2])]
    assert run.elements(3, 4) == [("EARLY", [3, 4])]
    assert run.elements(5) == [("EARLY", [5])]
    assert run.elements(6) == []
    assert run.harness.counter("closed_window_records_dropped") == 1
    assert run.end() == []


def test_after_all_waits_for_all_at_once() -> None:
    # clock     0        5
    # elements  1  2              3
    # fires              *        not again: both are finished
    run = tens(after_all(after_count(2), after_processing_time(millis(5))))
    run.clock(0)
    assert run.elements(1, 2) == []
    assert run.clock(5) == [("EARLY", [1, 2])]
    assert run.elements(3) == []


def test_after_each_goes_on_to_the_next() -> None:
    # elements  1  2  3  4  5
    # fires     *        *        first one, then three
    run = tens(after_each(after_count(1), after_count(3)))
    assert run.elements(1) == [("EARLY", [1])]
    assert run.elements(2, 3) == []
    assert run.elements(4) == [("EARLY", [2, 3, 4])]
    assert run.elements(5) == []


def test_a_session_that_grows_begins_anew() -> None:
    # watermark           8           13
    # elements   1   4    |   8       |   10
    # sessions  [1,    9) *           |             finished at 8
    #                         [1,  13) *            at 12 again, with all that is in it
    source = PushSource(int)
    stage = from_source(source).key_by(lambda value: "key").window(GAPS).trigger(after_watermark(), may_lose_data=True)
    run = Harness(StreamHarness(stage.allowed_lateness(millis(50)).accumulating().process(Shown()), source))
    assert run.elements(1, 4) == []
    assert run.watermark(8) == [("ON_TIME", [1, 4])]
    assert run.elements(8) == []
    assert run.watermark(13) == [("ON_TIME", [1, 4, 8])]
    # The end of what is [1, 13) is past, and the trigger was finished: nothing follows.
    assert run.elements(2) == []
    assert run.harness.counter("closed_window_records_dropped") == 1


def test_a_session_is_finished_where_both_that_merge_were() -> None:
    # watermark              30
    # elements   1     10     |   5
    # sessions  [1, 6)[10, 15)* *  [1, 15)   both were finished, and the end is past
    source = PushSource(int)
    stage = from_source(source).key_by(lambda value: "key").window(GAPS).trigger(after_watermark(), may_lose_data=True)
    run = Harness(StreamHarness(stage.allowed_lateness(millis(50)).accumulating().process(Shown()), source))
    run.elements(1, 10)
    assert run.watermark(30) == [("ON_TIME", [1]), ("ON_TIME", [10])]
    assert run.elements(5) == []
    # One of them had an early firing alone, so its elements have not come on time.
    run = Harness(StreamHarness(stage.allowed_lateness(millis(50)).accumulating().process(Shown()), source))
    run.elements(1)
    assert run.watermark(5) == [("ON_TIME", [1])]
    assert run.elements(10) == []
    run.watermark(13)
    assert run.elements(6) == []
    assert run.watermark(20) == [("ON_TIME", [1, 10, 6])]


# Timers of parts


class Sets(Trigger[int, TimeWindow]):
    """Fires at a time of its own."""

    def __init__(self, time: int) -> None:
        self.time = time

    def on_element(self, element: int, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        context.register_event_time_timer(self.time)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        assert time == self.time, "timers of others are not its own"
        return TriggerResult.FIRE


class TakesBack(Sets):
    """The same, until an even element comes."""

    def on_element(self, element: int, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        if element % 2 == 0:
            context.delete_event_time_timer(self.time)
            return TriggerResult.CONTINUE
        return super().on_element(element, timestamp, window, context)


def test_a_part_takes_back_its_own_timer_alone() -> None:
    # watermark            5
    # elements   1  2      |
    # timers     5, 5      | one of them is taken back by the second element
    run = tens(repeatedly(after_any(Sets(5), TakesBack(5))))
    assert run.elements(1, 2) == []
    assert run.watermark(5) == [("EARLY", [1, 2])]


def test_a_part_is_called_for_its_own_timers_alone() -> None:
    run = tens(repeatedly(after_any(Sets(5), Sets(7))))
    run.elements(1)
    assert run.watermark(5) == [("EARLY", [1])]
    run.elements(6)
    assert run.watermark(7) == [("EARLY", [6])]
    # No pane came on time, so the closing one is that.
    assert run.end() == [("ON_TIME", [])]


def test_a_timer_that_no_part_has_any_more_is_deleted() -> None:
    run = tens(repeatedly(after_any(TakesBack(5), after_count(9))))
    run.elements(1)
    assert 5 in [timer.time for timer in run.harness.event_timers()]
    run.elements(2)
    assert 5 not in [timer.time for timer in run.harness.event_timers()]


def test_nothing_is_left_of_a_window_that_is_over() -> None:
    run = tens(repeatedly(after_any(Sets(50), after_processing_time(millis(99)), CountTrigger.of(7))))
    run.elements(1, 2)
    assert run.end() == [("ON_TIME", [1, 2])]
    assert run.harness.event_timers() == run.harness.processing_timers() == []
    assert run.harness.open_windows() == []


# Triggers of Flink's kind


def test_a_trigger_that_purges_drops_the_contents_when_the_window_fires() -> None:
    source = PushSource(int)
    stage = from_source(source).key_by(lambda value: "key").window(TENS)
    trigger = repeatedly(after_any(PurgingTrigger.of(CountTrigger.of(2)), after_count(3)))
    run = Harness(StreamHarness(stage.trigger(trigger).accumulating().process(Shown()), source))
    assert run.elements(1, 2) == [("EARLY", [1, 2])]
    assert run.elements(3) == []
    assert run.elements(4) == [("EARLY", [3, 4])]


def test_a_trigger_that_composes_goes_into_one_of_flinks() -> None:
    source = PushSource(int)
    stage = from_source(source).key_by(lambda value: "key").window(TENS)
    trigger = PurgingTrigger.of(ProcessingTimeoutTrigger.of(repeatedly(after_count(2)), millis(5)))
    run = Harness(StreamHarness(stage.trigger(trigger).reduce(lambda one, other: one + other), source))
    run.clock(0)
    assert run.elements(1, 2) == [3]
    assert run.elements(3) == []
    assert run.clock(5) == [3]


def test_a_wrong_answer_of_a_part_is_refused() -> None:
    class Wrong(Trigger[int, TimeWindow]):
        def on_element(self, element: int, timestamp: int, window: TimeWindow, context: TriggerContext) -> Any:
            return True

    with pytest.raises(InvalidArgumentError, match="a trigger answers with a TriggerResult"):
        tens(repeatedly(Wrong())).elements(1)


# One of a user's own


class Rises(ComposableTrigger[int, Window]):
    """Ready when an element is higher than any before; never finished."""

    HIGHEST = ValueStateDescriptor("finished", int)  # as if it were the mark of a part that has finished
    RISEN = ValueStateDescriptor("risen", bool)

    @property
    def finish(self) -> Finish:
        return Finish.NEVER

    def observe(self, element: int, timestamp: int, window: Window, context: PartContext) -> None:
        highest = context.get_state(self.HIGHEST)
        before = highest.value()
        if before is None or element > before:
            highest.update(element)
            context.get_state(self.RISEN).update(True)

    def is_ready(self, window: Window, context: PartContext) -> bool:
        return context.get_state(self.RISEN).value() is True

    def on_fire(self, window: Window, context: PartContext) -> bool:
        context.get_state(self.RISEN).clear()
        return False


def test_a_trigger_of_ones_own_is_a_part_and_a_whole() -> None:
    assert tens(Rises()).elements(3, 1, 4, 2) == [("EARLY", [3]), ("EARLY", [1, 4])]
    both = after_all(Rises(), Rises())
    assert tens(both).elements(3, 1, 4, 2) == [("EARLY", [3]), ("EARLY", [1, 4])]


# Which panes come out


def stage_of(source: PushSource[int], late: int = 0) -> Any:
    # Any: the tests below go on with different stages.
    return from_source(source).key_by(lambda value: "key").window(TENS).allowed_lateness(millis(late))


def test_an_empty_pane_on_time_comes_unless_somebody_says_otherwise() -> None:
    always: list[Any] = [("ON_TIME", [])]
    for behavior, expected in ((None, always), (OnTimeBehavior.FIRE_IF_NON_EMPTY, [])):
        source = PushSource(int)
        stage = stage_of(source).trigger(after_watermark(early=after_count(1))).discarding()
        stage = stage if behavior is None else stage.on_time_behavior(behavior)
        run = Harness(StreamHarness(stage.process(Shown()), source))
        assert run.elements(1) == [("EARLY", [1])]
        assert run.end() == expected


def test_an_empty_last_pane_comes_if_somebody_says_so() -> None:
    last: list[Any] = [("LATE", [])]
    for behavior, expected in ((ClosingBehavior.FIRE_IF_NON_EMPTY, []), (ClosingBehavior.FIRE_ALWAYS, last)):
        source = PushSource(int)
        stage = stage_of(source, late=20).trigger(default()).discarding().closing_behavior(behavior)
        run = Harness(StreamHarness(stage.process(Shown()), source))
        run.elements(1)
        assert run.watermark(9) == [("ON_TIME", [1])]
        assert run.watermark(29) == expected


def test_what_a_trigger_has_not_output_comes_when_the_window_closes() -> None:
    source = PushSource(int)
    stage = from_source(source).key_by(lambda value: "key").window(GlobalWindows.create()).trigger(never())
    run = Harness(StreamHarness(stage.accumulating().process(Shown()), source))
    assert run.elements(1, 2) == []
    assert run.end() == [("ON_TIME", [1, 2])]


def test_windows_on_the_clock_are_over_by_the_clock() -> None:
    # clock     0        9 10
    # elements  1  2     |
    # fires        *     * empty, on time
    source = PushSource(int)
    assigner = TumblingProcessingTimeWindows.of(millis(10))
    stage = from_source(source).key_by(lambda value: "key").window(assigner).trigger(repeatedly(after_count(2)))
    run = Harness(StreamHarness(stage.discarding().process(Shown()), source))
    run.clock(0)
    assert run.elements(1, 2, 3) == [("EARLY", [1, 2])]
    assert run.clock(9) == [("ON_TIME", [3])]


def test_aggregates_of_an_empty_pane() -> None:
    source = PushSource(int)
    stage = stage_of(source).trigger(after_watermark(early=after_count(1))).discarding()
    for function, expected in ((count(), [1, 0]), (lowest(lambda value: value), [4, None])):
        run = Harness(StreamHarness(stage.aggregate(function), source))
        assert run.elements(4) + run.end() == expected
    run = Harness(StreamHarness(stage.reduce(max), source))
    assert run.elements(4) + run.end() == [4]


def test_results_carry_the_timestamp_that_was_asked_for() -> None:
    #  watermark      2
    #  elements       |  1  5  7      the first came behind the watermark
    for combiner, expected in (
        (TimestampCombiner.EARLIEST, 5),
        (TimestampCombiner.LATEST, 7),
        (TimestampCombiner.END_OF_WINDOW, 9),
    ):
        source = PushSource(int)
        with StreamHarness(stage_of(source).timestamp_combiner(combiner).reduce(max), source) as harness:
            harness.process_watermark(2)
            for value in (1, 5, 7):
                harness.process_element(value, value)
            harness.process_watermark(9)
            assert [result.timestamp for result in harness.take_output()] == [expected]


@pytest.mark.parametrize("mode", ["accumulating", "discarding"])
def test_a_pane_behind_the_end_is_late_if_all_that_is_new_in_it_is_late(mode: str) -> None:
    # watermark            9
    # elements  1  2       |  3  4      one window; the other one goes over its end with an element
    #           1  2  3    |  4  5
    # fires        *            *
    for early, late, expected in (((1, 2), (3, 4), "LATE"), ((1, 2, 3), (4, 5), "ON_TIME")):
        source = PushSource(int)
        stage = getattr(stage_of(source, late=50).trigger(repeatedly(after_count(2))), mode)()
        run = Harness(StreamHarness(stage.process(Shown()), source))
        assert run.elements(*early) == [("EARLY", [1, 2])]
        assert run.watermark(9) == []
        run.harness.snapshot_restore()
        found = run.elements(*late)
        assert [timing for timing, _ in found] == [expected]
        assert [timing for timing, _ in run.elements(6, 7, 8)] == ["LATE"] * (2 if early == (1, 2, 3) else 1)


def test_a_late_pane_is_late_where_the_empty_one_on_time_was_left_out() -> None:
    source = PushSource(int)
    stage = stage_of(source, late=50).trigger(after_watermark(early=after_count(1), late=after_count(1)))
    stage = stage.accumulating().on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY)
    run = Harness(StreamHarness(stage.process(Shown()), source))
    assert run.elements(1) == [("EARLY", [1])]
    assert run.watermark(9) == []
    assert run.elements(2) == [("LATE", [1, 2])]


def test_a_session_that_grows_by_a_late_element_behind_its_pane_on_time_is_late() -> None:
    source = PushSource(int)
    sessions = from_source(source).key_by(lambda value: "key").window(EventTimeSessionWindows.with_gap(millis(10)))
    stage = sessions.trigger(default()).allowed_lateness(millis(50)).accumulating()
    run = Harness(StreamHarness(stage.process(Shown()), source))
    run.elements(1)
    assert run.watermark(20) == [("ON_TIME", [1])]
    assert run.elements(3) == [("LATE", [1, 3])]


@pytest.mark.parametrize("combiner", TimestampCombiner)
def test_windows_behind_drop_results_with_timestamps_that_the_watermark_has_passed(combiner: TimestampCombiner) -> None:
    # watermark       7  9      the front window ends at 9, the one behind at 4
    # elements  1  3  |  |
    note = "results of step 3 may be late here, and are dropped then"
    for lateness, dropped in ((0, combiner is not TimestampCombiner.END_OF_WINDOW), (10, False)):
        source = PushSource(int)
        front = stage_of(source).timestamp_combiner(combiner).reduce(max)
        fives = front.key_by(lambda value: "key").window(TumblingEventTimeWindows.of(millis(5)))
        sums = fives.allowed_lateness(millis(lateness)).reduce(max)
        assert (note in Pipeline("plan", sums.sink_to(CollectSink[int]())).explain()) == dropped
        with StreamHarness(sums, source) as harness:
            for time in (1, 3):
                harness.process_element(time, time)
            for watermark in (7, 9, 100):
                harness.process_watermark(watermark)
            assert harness.take_values() == ([] if dropped else [3])
            assert harness.counter("late_records_dropped") == dropped


def test_results_that_get_timestamps_anew_are_not_said_to_be_late() -> None:
    front = stage_of(PushSource(int)).timestamp_combiner(TimestampCombiner.EARLIEST).reduce(max)
    anew = front.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), timestamp=int)
    for stream, said in ((front.map(abs).filter(bool), True), (anew, False)):
        behind = stream.window_all(TENS).reduce(max).sink_to(CollectSink[int]())
        assert ("may be late here" in Pipeline("plan", behind).explain()) == said


def test_the_pane_of_a_window_that_fires_once_is_known_everywhere() -> None:
    source = PushSource(int)
    run = Harness(StreamHarness(stage_of(source).process(Shown()), source))
    assert run.elements(1) + run.watermark(9) == [(PaneTiming.ON_TIME.name, [1])]


def test_panes_that_are_not_counted_are_an_error() -> None:
    source = PushSource(int)
    run = Harness(StreamHarness(stage_of(source).trigger(CountTrigger.of(1)).process(Shown()), source))
    with pytest.raises(UnsupportedOperationError, match=r"call accumulating\(\) or discarding\(\)"):
        run.elements(1)


# Changes


def test_a_pane_is_withdrawn_before_the_next_and_with_its_session() -> None:
    # watermark           6               20
    # elements   1        |  4     30
    # sessions  [1, 6)    |  [1, 9)
    source = PushSource(int)
    stage = from_source(source).key_by(lambda value: "key").window(GAPS).trigger(default())
    stream = stage.allowed_lateness(millis(50)).retracting().reduce(lambda one, other: one + other).changelog()
    run = Harness(StreamHarness(stream, source))
    run.elements(1)
    assert run.watermark(6) == [Change(ChangeKind.INSERT, 1)]
    assert run.elements(4) == []
    assert run.watermark(8) == [Change(ChangeKind.DELETE, 1), Change(ChangeKind.INSERT, 5)]
    assert run.elements(3) == [Change(ChangeKind.UPDATE_BEFORE, 5), Change(ChangeKind.UPDATE_AFTER, 8)]


def retracted(source: PushSource[int], late: int = 0) -> DataStream[int]:
    """Sums of sessions, refined at each element."""
    stage = from_source(source).key_by(lambda value: "key").window(GAPS).trigger(repeatedly(after_count(1)))
    return stage.allowed_lateness(millis(late)).retracting().reduce(lambda one, other: one + other)


def test_functions_see_values_and_changes_keep_their_kind() -> None:
    source = PushSource(int)
    stream = retracted(source).map(lambda value: value * 10).filter(lambda value: value > 20)
    log = stream.flat_map(lambda value: [value, value + 1]).changelog(lambda kind, value: f"{kind.value}{value}")
    run = Harness(StreamHarness(log, source))
    assert run.elements(1) == []
    assert run.elements(3) == ["+I40", "+I41"]
    assert run.elements(5) == ["-D40", "-D41", "+I90", "+I91"]


def test_a_window_from_which_everything_was_withdrawn_has_no_result() -> None:
    # elements       7         11
    # sessions      [7, 12) is in the second ten, as its last timestamp is 11;   [7, 16) as well
    source = PushSource(int)
    outer = retracted(source).window_all(TumblingEventTimeWindows.of(millis(4)))
    for stream in (outer.aggregate(total(lambda value: value)), outer.reduce(lambda one, other: one + other)):
        run = Harness(StreamHarness(stream, source))
        run.elements(7, 11)
        # The session of 7 alone ended in [8, 12), and was withdrawn there; the sum of both is in [12, 16).
        assert run.end() == [18]


def test_a_withdrawn_nan_is_taken_out_again() -> None:
    source = PushSource(int)
    means = stage_of(source).trigger(repeatedly(after_count(1))).retracting()
    first = means.aggregate(total(lambda value: math.nan if value == 1 else float(value)))
    again = first.window_all(TumblingEventTimeWindows.of(millis(10))).apply(lambda window, found: [sorted(found)])
    run = Harness(StreamHarness(again, source))
    run.elements(1)
    run.elements(3, 13)
    first_window, second = run.end()
    assert len(first_window) == 1, "the sum of the first element alone was withdrawn"
    assert math.isnan(first_window[0])
    assert second == [13.0]


class AlwaysReady(AfterWatermark[Any, Any]):
    """Does what no trigger of its base does."""

    def is_ready(self, window: Any, context: PartContext) -> bool:
        return True


def test_a_trigger_that_is_derived_from_one_of_windrow_is_asked() -> None:
    source = PushSource(int)
    stage = stage_of(source, late=5).trigger(AlwaysReady(late=after_count(1))).accumulating()
    run = Harness(StreamHarness(stage.reduce(lambda one, other: one + other), source))
    assert run.elements(1, 2) == [1, 3]


def test_late_withdrawals_go_to_the_side_output() -> None:
    late = OutputTag[int]("late")
    source = PushSource(int)
    outer = retracted(source, late=50).window_all(TumblingEventTimeWindows.of(millis(1))).side_output_late_data(late)
    sums = outer.aggregate(total(lambda value: value))
    log = sums.get_side_output(late).changelog(lambda kind, value: f"{kind.value}{value}")
    with StreamHarness(sums, source, also=(log,)) as harness:
        harness.process_element(1, 1)
        harness.process_watermark(5)
        harness.process_element(3, 3)
        assert [each.value for each in harness.take(log)] == ["-D1"]


# Refusals


def plan(stream: DataStream[Any]) -> str:
    with pytest.raises(PlanError) as caught:
        Pipeline("plan", stream.sink_to(CollectSink[Any]()))
    return str(caught.value)


def test_a_trigger_that_would_lose_elements_is_refused() -> None:
    early = stage_of(PushSource(int)).trigger(after_count(3)).reduce(max)
    assert "after_count(3) may be finished while the window is open" in plan(early)
    assert "repeatedly(after_count(3))" in plan(early)
    late = stage_of(PushSource(int), late=5).trigger(after_watermark()).reduce(max)
    assert "elements that arrive within the allowed lateness of 5 ms would be lost" in plan(late)
    for fine in (
        stage_of(PushSource(int), late=5).trigger(after_watermark(late=after_count(1))),
        stage_of(PushSource(int), late=5).trigger(default()),
        stage_of(PushSource(int)).trigger(after_watermark()),
        stage_of(PushSource(int)).trigger(after_all(after_count(3), after_watermark())),
        stage_of(PushSource(int)).trigger(after_count(3), may_lose_data=True),
        stage_of(PushSource(int)).trigger(or_finally(repeatedly(after_count(3)), never())),
    ):
        Pipeline("plan", fine.reduce(max).sink_to(CollectSink[int]()))


def test_a_trigger_whose_time_never_comes_is_refused() -> None:
    keyed = from_source(PushSource(int)).key_by(lambda value: "key")
    windows = keyed.window(TumblingProcessingTimeWindows.of(millis(10)))
    message = plan(windows.trigger(repeatedly(after_watermark())).reduce(max))
    assert "after_watermark() waits for the watermark" in message


def test_steps_that_would_take_a_withdrawal_for_a_result_are_refused() -> None:
    class Process(KeyedProcessFunction[str, int, int]):
        def process_element(self, value: int, context: KeyedProcessContext[str]) -> Iterable[int]:
            return [value]

    keyed = retracted(PushSource(int)).key_by(lambda value: "key")
    assert "would write withdrawals as results" in plan(retracted(PushSource(int)))
    assert "takes elements for good" in plan(keyed.process(Process()))
    assert "takes elements for good" in plan(keyed.reduce(max))
    assert "removes elements for good" in plan(keyed.window(TENS).evictor(CountEvictor.of(1)).reduce(max))
    assert "would write" in plan(retracted(PushSource(int)).union(from_source(PushSource(int))))


def test_an_argument_that_is_no_trigger_is_refused() -> None:
    wrong: Any = after_watermark
    text: Any = "at the end"
    kind: Any = CountTrigger
    calls: list[Callable[[], object]] = [lambda: after_any(wrong), lambda: repeatedly(text)]
    calls.append(lambda: or_finally(default(), text))
    for call in calls:
        with pytest.raises(InvalidArgumentError, match="a composite trigger is made of triggers"):
            call()
    parts: Any = [after_count(1), after_count(2)]
    pair: Any = tuple(parts)
    for several in (after_any, after_all, after_each):
        for given in (parts, pair):
            with pytest.raises(InvalidArgumentError) as caught:
                several(given)
            assert caught.value.hint == f"unpack it: {several.__name__}(*triggers)"
    for call, hint in (
        (lambda: repeatedly(parts), "after_any(*triggers) makes one trigger of several"),
        (lambda: after_watermark(early=parts), "after_any(*triggers) makes one trigger of several"),
        (lambda: repeatedly(wrong), "call it: after_watermark(...)"),
        (lambda: PurgingTrigger.of(kind), "an instance, not the class"),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            call()
        assert caught.value.hint == hint
    with pytest.raises(InvalidArgumentError, match="given:    None\n"):
        or_finally(default(), None)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgumentError, match="early must be a trigger"):
        after_watermark(early=text)
    with pytest.raises(InvalidArgumentError, match="after_any has no trigger"):
        after_any()


def test_windows_that_drop_what_they_have_output_are_refused_behind_withdrawals() -> None:
    one = TumblingEventTimeWindows.of(millis(100))
    behind = retracted(PushSource(int)).window_all(one)
    again = "because {} drops what they have output: where windows that retract upstream withdraw it, it would count"
    said = plan(behind.trigger(repeatedly(after_count(1))).discarding().aggregate(count()))
    assert again.format("discarding()") in said
    assert "accumulating() or retracting() keeps the elements; or let the windows fire once" in said
    purging = PurgingTrigger.of(CountTrigger.of(1))
    for trigger in (
        purging,
        repeatedly(purging),
        after_any(after_count(2), ProcessingTimeoutTrigger.of(purging, millis(1))),
    ):
        said = plan(behind.trigger(trigger, may_lose_data=True).aggregate(count()))
        assert again.format(trigger.describe()) in said
        assert "a trigger that does not purge keeps the elements" in said
    for fine in (behind, behind.discarding(), behind.trigger(repeatedly(after_count(1))).accumulating()):
        Pipeline("plan", fine.aggregate(count()).sink_to(CollectSink[int]()))
