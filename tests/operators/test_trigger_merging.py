"""The state of triggers follows windows that merge."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import Event, Highest, key_of, millis
from windrow import from_source
from windrow.errors import UserFunctionError
from windrow.functions import ProcessWindowContext, ProcessWindowFunction
from windrow.state import AggregatingStateDescriptor, ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from windrow.triggers import CountTrigger, MergingTrigger, OnMergeContext, TriggerContext, TriggerResult
from windrow.windows import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows, merge_time_windows
from windrow_runtime.testing import PushSource, StreamHarness, TriggerHarness

SOURCE = PushSource(Event)
KEYED = from_source(SOURCE).key_by(key_of)


# Any: a stage of windows, which goes on with triggers and functions.
def sessions(gap: int = 10) -> Any:
    return KEYED.window(EventTimeSessionWindows.with_gap(millis(gap)))


def first(a: Event, b: Event) -> Event:
    return a


class Remembering(MergingTrigger[Event, TimeWindow]):
    """Keeps what it saw in each kind of state that merges, and notes what it knows of the window after each element."""

    SEEN = ListStateDescriptor[int]("seen")
    TOTAL = ReducingStateDescriptor[int]("total", operator.add)
    HIGHEST = AggregatingStateDescriptor[int, int, int]("highest", Highest())

    def __init__(self) -> None:
        self.known: list[tuple[TimeWindow, list[int], int | None, int | None]] = []

    def on_element(self, element: Event, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        # A trigger inside this one has names of its own.
        for part in (context, context.nested("inner")):
            part.get_state(self.SEEN).add(element.value)
            if element.value % 2:
                # Windows that merge need not all have the state.
                part.get_state(self.TOTAL).add(element.value)
            part.get_state(self.HIGHEST).add(element.value)
        inner = context.nested("inner")
        assert sorted(inner.get_state(self.SEEN).get()) == sorted(context.get_state(self.SEEN).get())
        self.known.append(
            (
                window,
                sorted(context.get_state(self.SEEN).get()),
                context.get_state(self.TOTAL).get(),
                inner.get_state(self.HIGHEST).get(),
            )
        )
        return TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, context: OnMergeContext) -> None:
        for part in (context, context.nested("inner")):
            part.merge_partitioned_state(self.SEEN)
            part.merge_partitioned_state(self.TOTAL)
            part.merge_partitioned_state(self.HIGHEST)

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        for part in (context, context.nested("inner")):
            part.get_state(self.SEEN).clear()
            part.get_state(self.TOTAL).clear()
            part.get_state(self.HIGHEST).clear()


events = st.lists(st.builds(Event, st.just("a"), st.integers(0, 60), st.integers(0, 99)), min_size=1, max_size=16)


def session_of(events: list[Event], gap: int) -> tuple[TimeWindow, list[Event]]:
    """The session of the last event, and the events in it in order of arrival."""
    opened = [TimeWindow(event.at, event.at + gap) for event in events]
    window = opened[-1]
    for merge in merge_time_windows(opened):
        if opened[-1] in merge.sources:
            window = merge.result
    return window, [event for event in events if window.start <= event.at < window.end]


@given(events=events, gap=st.integers(1, 8))
def test_state_of_every_kind_merges(events: list[Event], gap: int) -> None:
    trigger = Remembering()
    stream = sessions(gap).trigger(trigger).reduce(first)
    with StreamHarness(stream, SOURCE, isolates_functions=False) as harness:
        for number, event in enumerate(events, start=1):
            harness.process_element(event, event.at)
            window, members = session_of(events[:number], gap)
            values = sorted(member.value for member in members)
            odd = [value for value in values if value % 2]
            assert trigger.known[-1] == (window, values, sum(odd) if odd else None, max(values))


@given(events=events, gap=st.integers(1, 8), every=st.integers(1, 5))
def test_counts_add_up(events: list[Event], gap: int, every: int) -> None:
    windows = sessions(gap).trigger(CountTrigger.of(every))
    stream = windows.reduce(lambda a, b: Event(a.key, a.at, a.value + b.value))
    # The model counts per element: a firing takes the counts of all elements of the session so far.
    counted: list[Event] = []
    with StreamHarness(stream, SOURCE, isolates_functions=False) as harness:
        for number, event in enumerate(events, start=1):
            harness.process_element(event, event.at)
            counted.append(event)
            _, members = session_of(events[:number], gap)
            waiting = [other for other in counted if any(other is member for member in members)]
            fires = len(waiting) >= every
            if fires:
                counted = [other for other in counted if not any(other is member for member in members)]
            expected = [sum(member.value for member in members)] if fires else []
            assert [result.value for result in harness.take_values()] == expected


@given(counts=st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_merged_state_moves_and_nothing_stays(counts: list[int]) -> None:
    harness = TriggerHarness(CountTrigger.of(100))
    windows = [TimeWindow(10 * number, 10 * number + 10) for number in range(len(counts))]
    for window, count in zip(windows, counts, strict=True):
        for _ in range(count):
            harness.process_element("element", None, window)
    into = TimeWindow(0, 10 * len(counts))
    if into in windows:
        return
    harness.merge(windows, into)
    assert harness.state_windows == ([into] if any(counts) else [])
    answers = [harness.process_element("element", None, into) for _ in range(100 - sum(counts))]
    assert answers == [TriggerResult.CONTINUE] * (99 - sum(counts)) + [TriggerResult.FIRE]


class Forgetful(MergingTrigger[Event, TimeWindow]):
    """Counts elements, does not merge the counts, and notes what it finds."""

    TOTAL = ReducingStateDescriptor[int]("total", operator.add)

    def __init__(self) -> None:
        self.found: list[tuple[str, TimeWindow, int | None]] = []

    def on_element(self, element: Event, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        total = context.get_state(self.TOTAL)
        self.found.append(("element", window, total.get()))
        total.add(1)
        return TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, context: OnMergeContext) -> None:
        self.found.append(("merge", window, context.get_state(self.TOTAL).get()))

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        self.found.append(("clear", window, context.get_state(self.TOTAL).get()))
        context.get_state(self.TOTAL).clear()


def test_state_that_a_trigger_does_not_merge_goes_with_its_window() -> None:
    #  gap 10   0   |0---10|
    #           5   |0--------15|     the count of the first window is not taken over
    #           3   |0--------15|     nothing merges
    trigger = Forgetful()
    with StreamHarness(sessions().trigger(trigger).reduce(first), SOURCE, isolates_functions=False) as harness:
        for moment in (0, 5, 3):
            harness.process_element(Event("a", moment, 1), moment)
    assert trigger.found == [
        ("element", TimeWindow(0, 10), None),
        ("merge", TimeWindow(0, 15), None),
        ("clear", TimeWindow(0, 10), 1),
        ("element", TimeWindow(0, 15), None),
        ("element", TimeWindow(0, 15), 1),
    ]


class Refusing(Forgetful):
    """Merges counts, but for the key whose window ends at 25."""

    def on_merge(self, window: TimeWindow, context: OnMergeContext) -> None:
        if window.end == 25:
            raise ValueError("no")
        context.merge_partitioned_state(self.TOTAL)


def test_a_merge_that_fails_leaves_its_state_to_no_other_key() -> None:
    trigger = Refusing()
    harness = StreamHarness(sessions().trigger(trigger).reduce(first), SOURCE, isolates_functions=False)
    harness.process_element(Event("bad", 10, 1), 10)
    with pytest.raises(UserFunctionError):
        harness.process_element(Event("bad", 15, 1), 15)
    for moment in (100, 105):
        harness.process_element(Event("good", moment, 1), moment)
    assert trigger.found[-1] == ("element", TimeWindow(100, 115), 1)


class Keeping(ProcessWindowFunction[Event, int, str, TimeWindow]):
    """Counts the windows of a key, and fails for one key behind that."""

    COUNT = ValueStateDescriptor("count", int)

    def process(self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Event]) -> Iterator[int]:
        count = context.global_state.get_state(self.COUNT)
        count.update((count.value() or 0) + 1)
        if key == "bad":
            raise ValueError("no")
        yield count.value() or 0


@pytest.mark.parametrize(
    "assigner",
    [EventTimeSessionWindows.with_gap(millis(10)), TumblingEventTimeWindows.of(millis(10))],
    ids=["sessions", "tumbling"],
)
def test_a_window_function_that_fails_leaves_its_state_to_no_other_key(assigner: Any) -> None:
    stream = KEYED.window(assigner).reduce(first, Keeping())
    harness = StreamHarness(stream, SOURCE, isolates_functions=False)
    harness.process_element(Event("bad", 1, 1), 1)
    with pytest.raises(UserFunctionError):
        harness.process_watermark(19)
    harness.process_element(Event("good", 21, 1), 21)
    harness.process_watermark(99)
    assert harness.take_values() == [1]
