"""Sessions are the connected components of their elements, in whatever order these arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from itertools import product
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import for_a_night
from tests.growth import assert_no_square
from tests.operators.stories import WithWindow
from tests.support.records import Event, Total, key_of, millis
from windrow import DataStream, Pipeline, WatermarkStrategy, aggregates, from_source
from windrow.builder.windowed import MergingWindowedStream
from windrow.evictors import CountEvictor
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import after_count, after_watermark
from windrow.windows import EventTimeSessionWindows, TimeWindow
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.state.live_sessions import LiveSessions
from windrow_runtime.operators.windows.merging import add_session, add_window
from windrow_runtime.testing import PushSource, StreamHarness

# Any: a session holds elements, or what they are combined to.
Session = tuple[str, TimeWindow, tuple[Any, ...]]
SOURCE = PushSource(Event)
KEYED = from_source(SOURCE).key_by(key_of)


def with_gap(gap: int) -> MergingWindowedStream[Event, str, TimeWindow]:
    return KEYED.window(EventTimeSessionWindows.with_gap(millis(gap)))


def gap_of(event: Event) -> timedelta:
    return millis(1 + event.value % 7)


def components(events: Sequence[Event], gaps: Sequence[int]) -> list[Session]:
    """The model: join whatever overlaps or touches until nothing does; contents in order of arrival."""
    sessions: list[tuple[str, TimeWindow, list[int]]] = []
    for arrival, (event, gap) in enumerate(zip(events, gaps, strict=True)):
        window = TimeWindow(event.at, event.at + gap)
        arrivals = [arrival]
        kept = []
        # The new window can only bridge sessions, so one pass finds all that it joins.
        for key, other, members in sessions:
            if key == event.key and window.intersects(other):
                arrivals += members
            else:
                kept.append((key, other, members))
        joined = [other for key, other, _ in sessions if key == event.key and window.intersects(other)]
        for other in joined:
            window = window.cover(other)
        sessions = [*kept, (event.key, window, arrivals)]
    return sorted((key, window, tuple(events[i] for i in sorted(members))) for key, window, members in sessions)


def outputs(stream: DataStream[Session], events: Iterable[Event]) -> list[Session]:
    with StreamHarness(stream, SOURCE) as harness:
        for event in events:
            harness.process_element(event, event.at)
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.open_windows() == []
        assert harness.event_timers() == []
        return sorted(harness.take_values())


# Timestamps near the ends of the range as well as around zero; few gaps, so that many sessions meet.
starts = st.sampled_from([0, 0, 0, -(2**62), 2**62])
events = st.lists(
    st.builds(
        lambda key, base, at, value: Event(key, base + at, value),
        st.sampled_from("ab"),
        starts,
        st.integers(-30, 30),
        st.integers(0, 99),
    ),
    max_size=16,
)


@given(events=events, gap=st.integers(1, 9))
def test_sessions_are_components_in_order_of_arrival(events: list[Event], gap: int) -> None:
    windows = with_gap(gap)
    expected = components(events, [gap] * len(events))
    assert outputs(windows.process(WithWindow()), events) == expected
    # An evictor that evicts nothing keeps the elements in another form.
    assert outputs(windows.evictor(CountEvictor.of(1000)).process(WithWindow()), events) == expected


@given(events=events)
def test_sessions_with_a_gap_per_element_are_components(events: list[Event]) -> None:
    windows = KEYED.window(EventTimeSessionWindows.with_dynamic_gap(gap_of))
    expected = components(events, [1 + event.value % 7 for event in events])
    assert outputs(windows.process(WithWindow()), events) == expected


@given(events=events, gap=st.integers(1, 9))
def test_incremental_sessions_have_the_same_bounds_and_totals(events: list[Event], gap: int) -> None:
    windows = with_gap(gap)
    expected = [
        (key, window, (sum(member.value for member in members),))
        for key, window, members in components(events, [gap] * len(events))
    ]
    assert outputs(windows.aggregate(Total(), WithWindow()), events) == expected
    reduced = windows.reduce(lambda a, b: Event(a.key, a.at, a.value + b.value), WithWindow())
    assert [(key, window, (total.value,)) for key, window, (total,) in outputs(reduced, events)] == expected


@given(events=events, gap=st.integers(1, 9), advances=st.lists(st.integers(0, 15), max_size=16))
def test_a_watermark_that_holds_changes_nothing(events: list[Event], gap: int, advances: list[int]) -> None:
    """Elements in order of time, each behind a watermark that promises no more than is true."""
    ordered = sorted(events, key=lambda event: event.at)
    windows = with_gap(gap)
    with StreamHarness(windows.process(WithWindow()), SOURCE) as harness:
        for number, event in enumerate(ordered):
            if number < len(advances):
                harness.process_watermark(event.at - 1 - advances[number])
            harness.process_element(event, event.at)
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.counter("late_records_dropped") == 0
        assert sorted(harness.take_values()) == components(ordered, [gap] * len(ordered))


@given(st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 9)), max_size=20))
def test_a_session_is_added_as_any_merging_window_is(spans: list[tuple[int, int]]) -> None:
    live: list[TimeWindow] = []
    reference: list[TimeWindow] = []
    for start, length in spans:
        window = TimeWindow(start, start + length)
        gap = EventTimeSessionWindows.with_gap(timedelta(milliseconds=1))
        assert add_session(live, window) == add_window(reference, window, gap)
        assert live == reference


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 9), st.booleans()), max_size=60))
def test_many_sessions_are_those_of_a_list(spans: list[tuple[int, int, bool]]) -> None:
    live: list[TimeWindow] = []
    many = LiveSessions(())
    for start, length, fires in spans:
        window = TimeWindow(start, start + length)
        assert add_session(many, window) == add_session(live, window)
        if fires:
            many.remove(live[0])
            del live[0]
        assert list(many) == live
        assert (len(many), window in many) == (len(live), window in live)


# Any: windows of one class or another.
SESSIONS_OF_A_KEY: dict[str, Callable[[Any], DataStream[int]]] = {
    "aggregate": lambda windows: windows.aggregate(aggregates.count()),
    "late": lambda windows: windows.allowed_lateness(millis(5)).aggregate(aggregates.count()),
    "elements": lambda windows: windows.apply(lambda key, window, elements: [len(elements)]),
    "panes": lambda windows: windows.trigger(after_watermark(early=after_count(1))).aggregate(aggregates.count()),
}


@pytest.mark.parametrize(
    ("name", "fast"),
    for_a_night(
        [*product(SESSIONS_OF_A_KEY, (True, False))],
        [("aggregate", True), ("late", False), ("elements", True), ("panes", False)],
    ),
)
def test_time_grows_with_the_sessions_of_a_key_and_not_with_their_square(name: str, fast: bool) -> None:
    def seconds(count: int) -> float:
        events = [Event("k", 1000 * number, number) for number in range(count)]
        stamped = from_source(CollectionSource(events)).assign_timestamps_and_watermarks(
            WatermarkStrategy.no_watermarks(), timestamp=lambda event: event.at
        )
        sink = CollectSink[int]()
        windows = stamped.key_by(key_of).window(EventTimeSessionWindows.with_gap(millis(500)))
        pipeline = Pipeline("sessions", SESSIONS_OF_A_KEY[name](windows).sink_to(sink))
        begin = process_time()
        collected = LocalRunner(fast=fast).run(pipeline).collected(sink)
        taken = process_time() - begin
        assert set(collected) == {1}
        assert len(collected) >= count
        return taken

    # 16 times as many took 250 times as long when each element was compared with all sessions.
    assert_no_square(seconds, few=400, times=16)
