"""What windows do beyond the cases of tests/conformance, one rule at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest

from tests.operators.stories import KEYED, NUMBERS, feed, story
from tests.support.records import millis
from windrow import DataStream, from_source
from windrow.functions import ProcessWindowContext, ProcessWindowFunction
from windrow.state import ListStateDescriptor, ValueStateDescriptor
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
    Merge,
    MergingWindowAssigner,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from windrow_runtime.testing import StreamHarness

TENS = TumblingEventTimeWindows.of(millis(10))
ALL = from_source(NUMBERS)
BY_PARITY = ALL.key_by(lambda number: number % 2)


class Tally(ProcessWindowFunction[int, tuple[int, int, list[int]], int, TimeWindow]):
    """Counts firings per window and per key, and remembers per key which windows are gone."""

    FIRINGS = ValueStateDescriptor[int]("firings")
    GONE = ListStateDescriptor[int]("gone")

    def process(
        self, key: int, context: ProcessWindowContext[TimeWindow], elements: Sequence[int]
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


class PurgesZero(MergingTrigger[int, TimeWindow]):
    """Drops the contents when an element is 0."""

    def on_element(self, element: int, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        return TriggerResult.PURGE if element == 0 else TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_merge(self, window: TimeWindow, context: OnMergeContext) -> None:
        pass


class Pairs(MergingWindowAssigner[int, TimeWindow]):
    """Windows of 10 that merge two by two, as soon as a 0 is being added elsewhere."""

    def __init__(self) -> None:
        self._merging = False

    def assign_windows(self, element: int, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        self._merging = element == 0
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


def lists(windows: Any) -> DataStream[list[int]]:
    return windows.apply(lambda key, window, elements: [list(elements)])  # type: ignore[no-any-return]


def lists_of_all(windows: Any) -> DataStream[list[int]]:
    return windows.apply(lambda window, elements: [list(elements)])  # type: ignore[no-any-return]


# Any: results of every type.
STORIES: dict[str, tuple[DataStream[Any], str, dict[str, list[Any]]]] = {
    # 5 has a session of its own. 2 touches it, and joins it, though alone it would be late by now.
    "a session that is gone does not come back": (
        lists(KEYED.window(EventTimeSessionWindows.with_gap(millis(5)))),
        "1 ^6 5 2 ^9",
        {"^6": [[1]], "^9": [[5, 2]]},
    ),
    "windows on the clock need no timestamps and no watermark": (
        lists(KEYED.window(TumblingProcessingTimeWindows.of(millis(10)))),
        "@0 1/ @5 2 ^99 @9 @12 3/ @19",
        {"@9": [[1, 2]], "@19": [[3]]},
    ),
    "count windows of each key begin anew": (
        lists(BY_PARITY.count_window(2)),
        "1 3 2 5 7 ^",
        {"3": [[1, 3]], "7": [[5, 7]], "^": ["1 unfired"]},
    ),
    "sliding count windows look back": (
        lists(KEYED.count_window(3, 2)),
        "0 1 2 3 4 5 6",
        {"1": [[0, 1]], "3": [[1, 2, 3]], "5": [[3, 4, 5]]},
    ),
    "count windows without keys take all elements": (lists_of_all(ALL.count_window_all(2)), "1 2 3", {"2": [[1, 2]]}),
    "sliding count windows without keys take all elements": (
        lists_of_all(ALL.count_window_all(2, 1)),
        "1 2 3",
        {"1": [[1]], "2": [[1, 2]], "3": [[2, 3]]},
    ),
    "windows fire in order of time on one watermark": (
        lists(ALL.key_by(lambda number: number).window(TENS)),
        "12 1 13 ^19",
        {"^19": [[1], [12], [13]]},
    ),
    # The window from 0 is cleared at 19 before the window from 10 fires.
    "state of a window goes, and state of a key stays": (
        BY_PARITY.window(TENS).allowed_lateness(millis(5)).process(Tally()),
        "1 11 2 ^9 3 | ^19 ^24 33 ^39",
        {"^9": [(1, 1, []), (1, 1, [])], "3": [(2, 2, [])], "^19": [(1, 3, [0])], "^39": [(1, 4, [0, 10])]},
    ),
    # 0 opens [0, 10), and is purged at once. 1 opens [20, 30). The contents with 2 are younger. 3 bridges both.
    "contents merge in the order in which they began": (
        KEYED.window(EventTimeSessionWindows.with_gap(millis(10)))
        .trigger(PurgesZero())
        .reduce(lambda a, b: a * 10 + b),
        "0/0 1/20 2/0 3/10 ^29",
        {"^29": [123]},
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_comes_out_when(name: str) -> None:
    stream, moves, expected = STORIES[name]
    assert story(stream, moves) == expected


def test_windows_that_merge_without_the_new_element_are_cleaned_up() -> None:
    """0 makes the other two merge into [0, 15), for which no trigger sets a timer."""
    windows = KEYED.window(Pairs()).trigger(CountTrigger.of(100)).allowed_lateness(millis(5))
    with StreamHarness(lists(windows), NUMBERS) as harness:
        feed(harness, "1/0 2/5 0/20")
        assert [window.window for window in harness.open_windows()] == [TimeWindow(0, 15), TimeWindow(20, 30)]
        feed(harness, "^18")
        assert len(harness.open_windows()) == 2
        feed(harness, "^19")
        assert [window.window for window in harness.open_windows()] == [TimeWindow(20, 30)]
        assert {timer.window for timer in harness.event_timers()} == {TimeWindow(20, 30)}
