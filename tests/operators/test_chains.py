"""Steps behind steps, and which watermark each sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.operators.stories import collected
from tests.support.records import Event, key_of, millis
from windrow import OutputTag, WatermarkStrategy, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.sources import CollectionSource
from windrow.watermarks import WatermarkGenerator, WatermarkOutput
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.testing import PushSource, StreamHarness

LATE = OutputTag("late of all", Event)
SOURCE = PushSource(Event)
EVENTS = from_source(SOURCE)
IN_ORDER = WatermarkStrategy[Event].for_monotonous_timestamps()
TUMBLING = TumblingEventTimeWindows.of(millis(10))


def add(a: Event, b: Event) -> Event:
    return Event("sum", a.at, a.value + b.value)


def show(window: TimeWindow, events: Sequence[Event]) -> list[tuple[int, list[int]]]:
    return [(window.start, sorted(event.value for event in events))]


#  event time     0........10.......20
#  a              1 . 1
#  b              . 2 . 2
#  watermark              ^9          the first step fires a = 2 and b = 4, both with timestamp 9;
#                                     the second one takes them under the watermark before, and fires on the same one
def test_a_second_window_takes_what_timers_emitted_before_its_watermark_advances() -> None:
    sums = EVENTS.key_by(key_of).window(TUMBLING).reduce(add)
    totals = sums.window_all(TUMBLING).apply(show)
    with StreamHarness(totals, SOURCE, also=(sums,)) as harness:
        for event in (Event("a", 0, 1), Event("b", 1, 2), Event("a", 2, 1), Event("b", 3, 2)):
            harness.process_element(event, event.at)
        harness.process_watermark(8)
        assert harness.take(sums) == []
        harness.process_watermark(9)
        assert [(fired.value.value, fired.timestamp) for fired in harness.take(sums)] == [(2, 9), (4, 9)]
        assert [(fired.value, fired.timestamp) for fired in harness.take_output()] == [((0, [2, 4]), 9)]
        assert harness.counter("late_records_dropped") == 0


#  event time     0........10...15
#  a              1
#  watermark              ^9          both steps fire 1
#  a                2                 the first step is lenient: it fires 1 + 2 again, under watermark 9.
#                                     That record has timestamp 9 and comes behind the watermark: late downstream
def test_what_a_late_element_fires_is_late_downstream() -> None:
    sums = EVENTS.key_by(key_of).window(TUMBLING).allowed_lateness(millis(5)).reduce(add)
    totals = sums.window_all(TUMBLING).side_output_late_data(LATE).apply(show)
    with StreamHarness(totals, SOURCE, also=(sums,)) as harness:
        harness.process_element(Event("a", 0, 1), 0)
        harness.process_watermark(9)
        assert harness.take_values() == [(0, [1])]
        harness.process_element(Event("a", 2, 2), 2)
        assert [fired.value.value for fired in harness.take(sums)] == [1, 3]
        assert harness.take_values() == []
        assert [late.value.value for late in harness.take_side_output(LATE)] == [3]


#  batch          1        2        3
#  elements       0 5      10       25
#  watermark      none     4        9       24 behind the last, then the end
#                                   ^ batch 3 begins with watermark 9: [0, 10) fires, and so does the step behind it,
#                                     before the element at 25 is looked at
def test_batches_run_under_the_watermark_of_those_before() -> None:
    events = [Event("a", 0, 1), Event("a", 5, 2), Event("a", 10, 4), Event("a", 25, 8)]
    seen: list[tuple[int, list[int]]] = []
    sums = (
        from_source(CollectionSource([events[0:2], events[2:3], events[3:4]], batch_size=1))
        .flat_map(lambda batch: batch)
        .assign_timestamps_and_watermarks(IN_ORDER, lambda event: event.at)
        .map(lambda event: note(seen, event))
        .key_by(key_of)
        .window(TUMBLING)
        .reduce(add)
    )
    totals = sums.window_all(TUMBLING).apply(show).map(lambda fired: note_fired(seen, fired))
    assert collected(totals) == [(0, [3]), (10, [4]), (20, [8])]
    # Without the drain the last windows stay open.
    assert collected(totals, drain=False) == [(0, [3]), (10, [4])]
    assert seen[:5] == [(0, []), (5, []), (10, []), (25, []), (0, [3])]


def note(seen: list[tuple[int, list[int]]], event: Event) -> Event:
    seen.append((event.at, []))
    return event


def note_fired(seen: list[tuple[int, list[int]]], fired: tuple[int, list[int]]) -> tuple[int, list[int]]:
    seen.append(fired)
    return fired


class Punctuated(WatermarkGenerator[Event]):
    """A watermark with each marker, none in between."""

    def on_event(self, element: Event, timestamp: int, output: WatermarkOutput) -> None:
        if element.key == "marker":
            output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Markers are all there is."""


#  elements        a0   a5   marker9   a12
#  watermark                 9
def test_a_generator_of_the_users_makes_the_watermark() -> None:
    stream = (
        EVENTS.assign_timestamps_and_watermarks(WatermarkStrategy.for_generator(Punctuated), lambda event: event.at)
        .filter(lambda event: event.key != "marker")
        .key_by(key_of)
        .window(TUMBLING)
        .reduce(add)
    )
    with StreamHarness(stream, SOURCE) as harness:
        before = harness.current_watermark
        for event in (Event("a", 0, 1), Event("a", 5, 2)):
            harness.process_element(event)
            assert harness.emit_watermarks() == before
        harness.process_element(Event("marker", 9, 0))
        assert harness.emit_watermarks() == 9
        assert [event.value for event in harness.take_values()] == [3]


class SeesTheClock(KeyedProcessFunction[str, Event, tuple[str, int]]):
    """Tells the clock for each element and for a timer 5 ms behind it."""

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[tuple[str, int]]:
        context.timer_service.register_event_time_timer(value.at + 5)
        yield "element", context.timer_service.current_processing_time

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[tuple[str, int]]:
        yield "timer", context.timer_service.current_processing_time


#  clock          100     200     300     400 ...
#  event time     0       10      20
#  watermark      none    -1      9       19      the timer at 5 is due in the third batch, the one at 15 in the fourth
def test_a_batch_has_one_clock_for_elements_and_timers() -> None:
    seen = (
        from_source(CollectionSource([Event("a", at, 0) for at in (0, 10, 20)], batch_size=1))
        .assign_timestamps_and_watermarks(IN_ORDER, lambda event: event.at)
        .key_by(key_of)
        .process(SeesTheClock())
    )
    clock = iter(range(100, 10_000, 100))
    assert collected(seen, clock=lambda: next(clock))[:5] == [
        ("element", 100),
        ("element", 200),
        ("timer", 300),
        ("element", 300),
        ("timer", 400),
    ]
