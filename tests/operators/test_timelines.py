"""What windows do beyond the cases of tests/conformance, one rule at a time, with the time line above each test."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from tests.support.records import Event, key_of, millis
from windrow import DataStream, KeyedStream, OutputTag, from_source
from windrow.functions import ProcessWindowContext, ProcessWindowFunction
from windrow.state import ListStateDescriptor, ValueStateDescriptor
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import (
    CountTrigger,
    EventTimeTrigger,
    MergingTrigger,
    OnMergeContext,
    TriggerContext,
    TriggerResult,
)
from windrow.windows import (
    AssignerContext,
    EventTimeSessionWindows,
    GlobalWindow,
    Merge,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from windrow_runtime.testing import PushSource, StreamHarness

LATE = OutputTag("late", Event)
TUMBLING = TumblingEventTimeWindows.of(millis(10))


def keyed() -> tuple[PushSource[Event], KeyedStream[Event, str]]:
    source = PushSource(Event)
    return source, from_source(source).key_by(key_of)


def values(key: str, window: TimeWindow, events: Sequence[Event]) -> list[list[int]]:
    return [[event.value for event in events]]


class Feed:
    """Feeds a harness, and numbers the events from 1."""

    # Any: what the stream under test emits.
    def __init__(self, harness: StreamHarness[Event, Any]) -> None:
        self._harness = harness
        self._count = 0

    def __call__(self, *times: int, key: str = "a") -> None:
        for at in times:
            self._count += 1
            self._harness.process_element(Event(key, at, self._count), at)


#  event time   0....5....10
#  elements      1                      session [1, 6)
#  watermark           ^6               gone: lateness 0
#  elements          2                  [5, 10): a session of its own, not late by itself
#  elements       3                     [2, 7) touches [5, 10): joins it, though alone it would be late by now
#  watermark                 ^9
def test_a_session_that_is_gone_does_not_come_back() -> None:
    source, stream = keyed()
    with StreamHarness(stream.window(EventTimeSessionWindows.with_gap(millis(5))).apply(values), source) as harness:
        feed = Feed(harness)
        feed(1)
        harness.process_watermark(6)
        assert harness.take_values() == [[1]]
        feed(5, 2)
        harness.process_watermark(9)
        assert harness.take_values() == [[2, 3]]
        assert harness.counter("late_records_dropped") == 0


#  clock        0........10
#  elements      1  2                   without timestamps
#  clock                ^9              fires 1 2; the window is cleaned up
#  elements              3              the clock is in the next window
def test_processing_time_windows_follow_the_clock_alone() -> None:
    source, stream = keyed()
    windows = stream.window(TumblingProcessingTimeWindows.of(millis(10)))
    with StreamHarness(windows.apply(values), source) as harness:
        harness.set_processing_time(0)
        harness.process_element(Event("a", 0, 1))
        harness.set_processing_time(5)
        harness.process_element(Event("a", 0, 2), timestamp=-1000)
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.take_values() == []
        harness.set_processing_time(9)
        assert harness.take_values() == [[1, 2]]
        assert harness.processing_timers() == []
        harness.set_processing_time(12)
        harness.process_element(Event("a", 0, 3))
        assert [timer.time for timer in harness.processing_timers()] == [19]


#  arrivals     a1 a2 b1 a3 a4
#  size 2          ^        ^           a: 1 2, then 4 5; b waits
def test_count_windows_begin_anew() -> None:
    source, stream = keyed()
    counted: DataStream[list[int]] = stream.count_window(2).apply(_global_values)
    with StreamHarness(counted, source) as harness:
        feed = Feed(harness)
        feed(1, 2)
        feed(3, key="b")
        assert harness.take_values() == [[1, 2]]
        feed(4, 5)
        assert harness.take_values() == [[4, 5]]
        assert [window.key for window in harness.open_windows()] == ["b"]


#  arrivals     1 2 3 4 5 6 7
#  size 3, slide 2
#                 ^                     1 2        not yet three
#                     ^                 2 3 4
#                         ^             4 5 6
def test_sliding_count_windows_look_back() -> None:
    source, stream = keyed()
    counted: DataStream[list[int]] = stream.count_window(3, 2).apply(_global_values)
    with StreamHarness(counted, source) as harness:
        Feed(harness)(*range(7))
        assert harness.take_values() == [[1, 2], [2, 3, 4], [4, 5, 6]]


def test_count_windows_without_keys_take_all_elements() -> None:
    source = PushSource(Event)
    stream = from_source(source)
    tumbling = stream.count_window_all(2).apply(lambda window, events: [[event.value for event in events]])
    sliding = stream.count_window_all(2, 1).apply(lambda window, events: [[event.value for event in events]])
    with StreamHarness(tumbling, source, also=(sliding,)) as harness:
        feed = Feed(harness)
        feed(1, key="a")
        feed(2, key="b")
        feed(3, key="a")
        assert harness.take_values() == [[1, 2]]
        assert [fired.value for fired in harness.take(sliding)] == [[1], [1, 2], [2, 3]]


def _global_values(key: str, window: GlobalWindow, events: Sequence[Event]) -> list[list[int]]:
    return [[event.value for event in events]]


class Tally(ProcessWindowFunction[Event, tuple[int, int, list[int]], str, TimeWindow]):
    """Counts firings per window and per key, and remembers per key which windows are gone."""

    FIRINGS = ValueStateDescriptor[int]("firings")
    GONE = ListStateDescriptor[int]("gone")

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Event]
    ) -> Iterable[tuple[int, int, list[int]]]:
        of_window = context.window_state.get_state(self.FIRINGS)
        of_key = context.global_state.get_state(self.FIRINGS)
        of_window.update((of_window.value() or 0) + 1)
        of_key.update((of_key.value() or 0) + 1)
        yield of_window.value() or 0, of_key.value() or 0, context.global_state.get_state(self.GONE).get()

    def clear(self, context: ProcessWindowContext[TimeWindow]) -> None:
        # Per-window state is still there, and goes by itself afterwards.
        assert context.window_state.get_state(self.FIRINGS).value() is not None
        context.global_state.get_state(self.GONE).add(context.window.start)


#  event time   0........10.......20..24
#  elements      1         2            keys a and b apart
#  watermark            ^9              [0, 10): window 1, key 1
#  elements       3                     [0, 10) again: window 2, key 2
#  watermark                    ^19     [0, 10) is cleared before [10, 20) fires: window 1, key 3
def test_state_of_a_window_goes_and_state_of_a_key_stays() -> None:
    source, stream = keyed()
    tally = stream.window(TUMBLING).allowed_lateness(millis(5)).process(Tally())
    with StreamHarness(tally, source) as harness:
        feed = Feed(harness)
        feed(1, 12)
        feed(2, key="b")
        harness.process_watermark(9)
        assert harness.take_values() == [(1, 1, []), (1, 1, [])]
        feed(3)
        assert harness.take_values() == [(2, 2, [])]
        harness.snapshot_restore()
        harness.process_watermark(19)
        assert harness.take_values() == [(1, 3, [0])]
        harness.process_watermark(24)
        feed(33)
        harness.process_watermark(39)
        assert harness.take_values() == [(1, 4, [0, 10])]


#  event time   0        10       20
#  a              1                     the window of each key fires on the same watermark
#  b                       2
#  watermark                     ^19    in order of time: [0, 10) of a, then [10, 20) of b, then of c
#  c                         3
def test_windows_fire_in_order_of_time_on_one_watermark() -> None:
    source, stream = keyed()
    with StreamHarness(stream.window(TUMBLING).apply(values), source) as harness:
        feed = Feed(harness)
        feed(12, key="b")
        feed(1, key="a")
        feed(13, key="c")
        harness.process_watermark(19)
        assert [(fired.value, fired.timestamp) for fired in harness.take_output()] == [([2], 9), ([1], 19), ([3], 19)]


#  event time   0.2......10.12.....20      windows [0, 2), [10, 12), ...; lateness 5
#  watermark            ^9
#  element          5                      in no window, 5 + 5 > 9: out of the results, but not late
#  watermark             ^10
#  element          5                      late by its timestamp
def test_an_element_in_no_window_is_late_by_its_timestamp() -> None:
    source, stream = keyed()
    windows = stream.window(SlidingEventTimeWindows.of(millis(2), millis(10))).allowed_lateness(millis(5))
    with StreamHarness(windows.side_output_late_data(LATE).apply(values), source) as harness:
        feed = Feed(harness)
        harness.process_watermark(9)
        feed(5)
        assert harness.take_side_output(LATE) == []
        harness.process_watermark(10)
        feed(5)
        assert [late.value.value for late in harness.take_side_output(LATE)] == [2]
        assert harness.counter("late_records_dropped") == 0


class PurgesZero(MergingTrigger[Event, TimeWindow]):
    """Drops the contents when an event has the value 0."""

    def on_element(self, element: Event, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        return TriggerResult.PURGE if element.value == 0 else TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_merge(self, window: TimeWindow, context: OnMergeContext) -> None:
        pass


#  event time   0.........10........20
#  arrivals     0                          opens [0, 10), purged at once
#                                   1      opens [20, 30)
#               2                          into [0, 10) again: its contents are younger than those of [20, 30)
#                         3                bridges: what came first is combined first, 1 2 3
def test_contents_merge_in_the_order_in_which_they_began() -> None:
    source, stream = keyed()
    windows = stream.window(EventTimeSessionWindows.with_gap(millis(10))).trigger(PurgesZero())
    digits = windows.reduce(lambda a, b: Event(a.key, a.at, a.value * 10 + b.value))
    with StreamHarness(digits, source) as harness:
        for number, at in enumerate((0, 20, 0, 10)):
            harness.process_element(Event("a", at, number), at)
        harness.process_watermark(29)
        assert [event.value for event in harness.take_values()] == [123]


class Pairs(MergingWindowAssigner[Event, TimeWindow]):
    """Windows of 10 that merge two by two, as soon as an event with the value 0 is being added elsewhere."""

    def __init__(self) -> None:
        self._merging = False

    def assign_windows(self, element: Event, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        self._merging = element.value == 0
        return [TimeWindow(timestamp, timestamp + 10)]

    def merge_windows(self, windows: Collection[TimeWindow]) -> list[Merge[TimeWindow]]:
        first, *others = windows
        if not self._merging or len(others) < 2:
            return []
        return [Merge(first.cover(others[0]), [first, others[0]])]

    def default_trigger(self) -> EventTimeTrigger:
        return EventTimeTrigger.create()

    @property
    def is_event_time(self) -> bool:
        return True


#  event time   0....5....10...15...20      lateness 5
#  arrivals     1                           [0, 10)
#                    2                      [5, 15)
#                                   0       [20, 30): makes the other two merge into [0, 15)
#  watermark                        ^19     end 14 + lateness 5: the merged window goes, though no trigger set a timer
def test_windows_that_merge_without_the_new_element_are_cleaned_up() -> None:
    source, stream = keyed()
    windows = stream.window(Pairs()).trigger(CountTrigger.of(100)).allowed_lateness(millis(5))
    with StreamHarness(windows.apply(values), source) as harness:
        for number, at in ((1, 0), (2, 5), (0, 20)):
            harness.process_element(Event("a", at, number), at)
        assert [window.window for window in harness.open_windows()] == [TimeWindow(0, 15), TimeWindow(20, 30)]
        harness.process_watermark(18)
        assert len(harness.open_windows()) == 2
        harness.process_watermark(19)
        assert [window.window for window in harness.open_windows()] == [TimeWindow(20, 30)]
        assert {timer.window for timer in harness.event_timers()} == {TimeWindow(20, 30)}
