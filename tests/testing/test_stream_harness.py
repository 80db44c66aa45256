"""The harness that drives a stream: what goes in, what can be asked, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest

from tests.support.records import Event, key_of, millis
from windrow import DataStream, OutputTag, WatermarkStrategy, from_collection, from_source
from windrow.errors import InvalidArgumentError, WindrowError
from windrow.evictors import TimestampedValue
from windrow.functions import ProcessContext, ProcessFunction
from windrow.time import MIN_TIMESTAMP
from windrow.triggers import CountTrigger
from windrow.windows import EventTimeSessionWindows, GlobalWindow, GlobalWindows, TimeWindow, TumblingEventTimeWindows
from windrow_runtime.testing import OpenWindow, PendingTimer, PushSource, StreamHarness, assign_windows

LATE = OutputTag("late", Event)


def add(a: Event, b: Event) -> Event:
    return Event(a.key, a.at, a.value + b.value)


def sums(source: PushSource[Event], name: str = "sums") -> DataStream[Event]:
    windows = from_source(source).key_by(key_of).window(TumblingEventTimeWindows.of(millis(10)))
    return windows.allowed_lateness(millis(5)).side_output_late_data(LATE).reduce(add, name=name)


def test_outputs_are_handed_out_once() -> None:
    source = PushSource(Event)
    with StreamHarness(sums(source), source) as harness:
        harness.process_element(Event("a", 1, 1), timestamp=1)
        harness.process_element(Event("a", 2, 2), timestamp=2)
        harness.process_watermark(9)
        assert harness.take_output() == [TimestampedValue(Event("a", 1, 3), 9)]
        assert harness.take_output() == []
        harness.process_element(Event("a", 3, 4), timestamp=3)
        assert harness.take_values() == [Event("a", 1, 7)]
        harness.process_watermark(14)
        harness.process_element(Event("a", 4, 8), timestamp=4)
        assert harness.take_side_output(LATE) == [TimestampedValue(Event("a", 4, 8), 4)]
        assert harness.take_side_output(LATE) == []


LARGE = OutputTag("large", int)


class Small(ProcessFunction[int, int]):
    """Puts large numbers out at a side output; the record that it returns is the number itself."""

    def process_element(self, value: int, context: ProcessContext) -> Iterable[int]:
        if value > 10:
            context.output(LARGE, value)
            return []
        return [value]


def small(source: PushSource[int]) -> DataStream[int]:
    return from_source(source).process(Small())


@pytest.mark.parametrize("explains", [True, False], ids=["explains", "fast"])
def test_side_outputs_of_steps_without_keys_are_seen(explains: bool) -> None:
    source = PushSource(int)
    with StreamHarness(small(source), source, explains=explains) as harness:
        harness.process_element(11, timestamp=5)
        harness.process_element(1)
        harness.process_element(12)
        assert harness.take_side_output(LARGE) == [TimestampedValue(11, 5), TimestampedValue(12, None)]
        assert harness.take_side_output(LARGE) == []
        assert harness.take_values() == [1]


def test_side_outputs_that_are_read_are_seen_as_well() -> None:
    source = PushSource(int)
    stream = small(source)
    large = stream.get_side_output(LARGE).map(lambda number: -number)
    with StreamHarness(stream, source, also=(large,)) as harness:
        harness.process_element(11)
        harness.snapshot_restore()
        harness.process_element(12)
        assert [element.value for element in harness.take(large)] == [-11, -12]
        assert [element.value for element in harness.take_side_output(LARGE)] == [11, 12]


def test_side_outputs_behind_keyed_steps_and_of_several_steps_are_seen_together() -> None:
    source = PushSource(int)
    doubled = small(source).key_by(lambda number: number % 2).reduce(lambda a, b: a + b).process(Small())
    with StreamHarness(doubled, source) as harness:
        for number in (11, 8, 6):
            harness.process_element(number)
        # 11 leaves at the first step; 14, the sum of 8 and 6, at the last one.
        assert sorted(element.value for element in harness.take_side_output(LARGE)) == [11, 14]


def test_what_times_out_is_seen() -> None:
    async def waiting(value: list[int]) -> list[int]:
        if len(value) > 1:
            await asyncio.Event().wait()
        return value

    slow = OutputTag("slow", list[int])
    source = PushSource(list[int])
    stream = from_source(source).map_async(waiting, capacity=2, timeout=millis(20), timed_out=slow)
    with StreamHarness(stream, source) as harness:
        harness.process_element([1])
        harness.process_element([2, 3], timestamp=4)
        assert harness.take_side_output(slow) == [TimestampedValue([2, 3], 4)]
        assert harness.take_values() == [[1]]


def test_what_a_reader_changes_stays_as_it_was_put_out() -> None:
    long = OutputTag("long", list[int])

    class Long(ProcessFunction[list[int], int]):
        def process_element(self, value: list[int], context: ProcessContext) -> None:
            context.output(long, value)

    def emptied(value: list[int]) -> int:
        value.clear()
        return 0

    source = PushSource(list[int])
    stream = from_source(source).process(Long())
    with StreamHarness(stream, source, also=(stream.get_side_output(long).map(emptied),)) as harness:
        harness.process_element([1, 2])
        assert [element.value for element in harness.take_side_output(long)] == [[1, 2]]


def test_time_stands_still_unless_it_is_moved_and_never_goes_back() -> None:
    source = PushSource(Event)
    with StreamHarness(sums(source), source) as harness:
        assert (harness.current_watermark, harness.current_processing_time) == (MIN_TIMESTAMP, MIN_TIMESTAMP)
        harness.process_watermark(9)
        harness.process_watermark(4)
        harness.set_processing_time(7)
        harness.set_processing_time(3)
        assert (harness.current_watermark, harness.current_processing_time) == (9, 7)


def test_open_windows_and_timers_are_told_by_step() -> None:
    source = PushSource(Event)
    stream = sums(source)
    step = "harness.3.sums"
    with StreamHarness(stream, source) as harness:
        harness.process_element(Event("a", 1, 1), timestamp=1)
        harness.process_element(Event("b", 25, 1), timestamp=25)
        first, second = TimeWindow(0, 10), TimeWindow(20, 30)
        assert harness.open_windows() == [OpenWindow(step, "a", first), OpenWindow(step, "b", second)]
        timers = [("a", first, 9), ("a", first, 14), ("b", second, 29), ("b", second, 34)]
        assert harness.event_timers() == [PendingTimer(step, *timer) for timer in timers]
        assert harness.processing_timers() == []


def test_without_keys_the_key_is_none() -> None:
    source = PushSource(Event)
    stream = from_source(source).window_all(GlobalWindows.create()).trigger(CountTrigger.of(2)).reduce(add)
    with StreamHarness(stream, source) as harness:
        harness.process_element(Event("a", 0, 1))
        assert harness.open_windows() == [OpenWindow("harness.2.window", None, GlobalWindow())]
        harness.process_element(Event("b", 0, 2))
        assert harness.take_values() == [Event("a", 0, 3)]


def test_a_snapshot_keeps_contents_timers_counters_and_outputs() -> None:
    source = PushSource(Event)
    windows = from_source(source).key_by(key_of).window(EventTimeSessionWindows.with_gap(millis(5)))
    stream = windows.reduce(add)
    with StreamHarness(stream, source) as harness:
        harness.process_element(Event("a", 1, 1), timestamp=1)
        harness.process_watermark(5)
        harness.process_element(Event("a", 0, 1), timestamp=0)
        harness.process_element(Event("a", 8, 2), timestamp=8)
        before = (harness.open_windows(), harness.event_timers(), harness.counter("late_records_dropped"))
        assert before[2] == 1
        harness.snapshot_restore()
        assert (harness.open_windows(), harness.event_timers(), harness.counter("late_records_dropped")) == before
        assert harness.take_values() == [Event("a", 1, 1)]
        # The restored step knows the watermark: this element is late, and that one joins.
        harness.process_element(Event("a", 0, 1), timestamp=0)
        assert harness.counter("late_records_dropped") == 2
        harness.process_element(Event("a", 10, 4), timestamp=10)
        harness.process_watermark(14)
        assert harness.take_values() == [Event("a", 8, 6)]


def test_several_sources_and_streams() -> None:
    left, right = PushSource(Event), PushSource[int]()
    lefts = from_source(left).map(lambda event: event.value)
    joined = lefts.union(from_source(right))
    with StreamHarness(joined, left, also=(lefts,)) as harness:
        harness.process_element(Event("a", 0, 1))
        harness.process_element(2, source=right)
        assert harness.take_values() == [1, 2]
        assert [element.value for element in harness.take(lefts)] == [1]
        with pytest.raises(InvalidArgumentError, match=r"expected: .*, or one of also="):
            harness.take(from_source(right))
        with pytest.raises(InvalidArgumentError, match="the source is not part of the stream") as caught:
            harness.process_element(Event("a", 0, 1), source=PushSource(Event))
        assert str(caught.value.expected).startswith("one that the stream reads, in harness.1.source, ")


def test_the_source_must_be_clear() -> None:
    left, right = PushSource(Event), PushSource(Event)
    both = from_source(left).union(from_source(right))
    with pytest.raises(InvalidArgumentError, match="must know which source to push into"):
        StreamHarness(both)
    with StreamHarness[Event, Event](from_source(left)) as harness:
        harness.process_element(Event("a", 0, 1))
        assert harness.take_values() == [Event("a", 0, 1)]


def test_a_source_of_the_program_may_be_pushed_into() -> None:
    stream = from_collection([1, 2]).map(lambda number: number * 2)
    with StreamHarness[int, int](stream) as harness:
        harness.process_element(5)
        assert harness.take_values() == [10]


def test_an_error_of_a_harness_names_the_line_of_the_test() -> None:
    source, other = PushSource(int), PushSource(int)
    stream = from_source(source)
    sums = stream.key_by(lambda number: "key").window(GlobalWindows.create()).trigger(CountTrigger.of(1)).reduce(max)
    harness, quiet = StreamHarness(sums, source), StreamHarness(sums, source, explains=False)
    calls: list[Callable[[], object]] = [
        lambda: StreamHarness(stream.union(from_source(other))),
        lambda: StreamHarness(stream, other),
        lambda: harness.process_element(1, source=other),
        lambda: harness.take(from_source(other)),
        lambda: harness.explain_window("key", GlobalWindow(), step="another"),
        lambda: quiet.explain_window("key", GlobalWindow()),
        lambda: harness.explain_window("key", "no window"),
        lambda: harness.explain_element(1, which=1),
        lambda: harness.recording,
        lambda: assign_windows(TumblingEventTimeWindows.of(timedelta(seconds=1)), 1),
    ]
    harness.process_element(1)
    for call in calls:
        with pytest.raises(WindrowError) as caught:
            call()
        assert str(caught.value.where) == f"{__file__}:{call.__code__.co_firstlineno}"


@pytest.mark.parametrize("restores", [False, True], ids=["", "restored"])
@pytest.mark.parametrize("follows_clock", [True, False], ids=["silence", "idleness"])
def test_elements_have_arrived_by_the_clock_at_which_they_were_pushed(follows_clock: bool, restores: bool) -> None:
    """Nobody asks for watermarks between the element and the move of the clock."""
    strategy: WatermarkStrategy[Event] = WatermarkStrategy.for_bounded_out_of_orderness(millis(5))
    strategy = strategy.with_silence(after=millis(30)) if follows_clock else strategy.with_idleness(millis(30))
    source, other = PushSource(Event), PushSource(Event)
    quiet, busy = (
        from_source(each, name=name).assign_timestamps_and_watermarks(given, timestamp=lambda event: event.at)
        for each, name, given in (
            (source, "quiet", strategy),
            (other, "busy", WatermarkStrategy[Event].for_monotonous_timestamps()),
        )
    )
    counts = quiet.union(busy).key_by(key_of).window(TumblingEventTimeWindows.of(millis(60))).count()
    with StreamHarness(counts, source) as harness:
        harness.set_processing_time(40)
        harness.process_element(Event("a", 40, 1))
        harness.process_element(Event("b", 75, 1), source=other)
        if restores:
            harness.snapshot_restore()
        harness.set_processing_time(80)
        assert harness.emit_watermarks() == 74
        assert harness.take_values() == [1]


def test_a_side_output_that_no_step_has_is_refused() -> None:
    source = PushSource(Event)
    with StreamHarness(sums(source), source) as harness:
        assert harness.take_side_output(OutputTag("late", Event)) == []
        with pytest.raises(InvalidArgumentError, match=r"OutputTag\('lat'(.|\n)*did you mean late\?"):
            harness.take_side_output(OutputTag("lat", Event))
        with pytest.raises(InvalidArgumentError, match=r"given: +late"):
            harness.take_side_output("late")  # type: ignore[arg-type]  # as users of other systems may


def test_a_restored_stream_knows_that_a_filtered_element_has_arrived() -> None:
    source = PushSource(int)
    strategy: WatermarkStrategy[int] = WatermarkStrategy.for_bounded_out_of_orderness(millis(0))
    stream = from_source(source).filter(lambda number: number >= 0)
    stamped = stream.assign_timestamps_and_watermarks(strategy.with_silence(after=millis(100)), timestamp=abs)
    with StreamHarness(stamped.key_by(abs).sum(abs), source) as harness:
        harness.set_processing_time(0)
        harness.process_element(1)
        harness.emit_watermarks()
        harness.set_processing_time(90)
        harness.process_element(-1)
        harness.snapshot_restore()
        moments = []
        for clock in (150, 189, 190):
            harness.set_processing_time(clock)
            moments.append(harness.emit_watermarks())
    assert moments == [0, 0, 189]
