"""Timeouts in event time, also against a model that knows all elements of a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from tests.support.records import millis
from windrow import from_source
from windrow.errors import InvalidArgumentError
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeoutTrigger,
    EventTimeTrigger,
    MergingTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    after_any,
    after_count,
    after_watermark,
    repeatedly,
)
from windrow.windows import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows, Window
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: assigners and triggers go with windows of several kinds.

Move: TypeAlias = tuple[int, int] | int
"""An element with its timestamp, or a watermark."""

Panes: TypeAlias = list[tuple[int, list[int]]]
"""The elements of each pane, with the watermark at which it came."""

TENS = TumblingEventTimeWindows.of(millis(10))
SESSIONS = EventTimeSessionWindows.with_gap(millis(10))


def ran(trigger: Any, moves: Sequence[Move], assigner: Any = None, *, late: int = 0) -> Panes:
    """What comes out, up to the end of the stream."""
    source = PushSource(int)
    stage: Any = from_source(source).key_by(lambda value: "key").window(assigner or GlobalWindows.create())
    stage = stage.allowed_lateness(millis(late)) if late else stage
    found: Panes = []
    with StreamHarness(stage.trigger(trigger).apply(lambda key, window, values: [list(values)]), source) as harness:
        watermark = -1
        for move in [*moves, MAX_TIMESTAMP]:
            if isinstance(move, tuple):
                harness.process_element(*move)
            else:
                watermark = move
                harness.process_watermark(watermark)
            harness.snapshot_restore()
            found += [(watermark, sorted(pane)) for pane in harness.take_values()]
    return found


def timeout(
    inner: MergingTrigger[int, Window], after: int, *, resets: bool = False, clears: bool = True, purges: bool = True
) -> Trigger[int, Window]:
    trigger = EventTimeoutTrigger.of(inner, millis(after), resets, clears)
    return PurgingTrigger.of(trigger) if purges else trigger


def test_a_timeout_that_is_kept_comes_once() -> None:
    kept = timeout(CountTrigger.of(3), 5, clears=False)
    assert ran(kept, [(1, 2), 7, (2, 1), (3, 8), 20, (4, 21), 26]) == [(7, [1]), (7, [2, 3]), (26, [4])]


@pytest.mark.parametrize("resets", [False, True])
def test_a_timeout_that_is_kept_fires_at_the_end_once_more_and_not_at_the_clean_up(resets: bool) -> None:
    moves: Sequence[Move] = [(1, 0), 5, (2, 0), 8, 9, 20, 39, 40]
    kept = timeout(CountTrigger.of(9), 5, resets=resets, clears=False, purges=False)
    assert ran(kept, moves, TENS, late=30) == [(5, [1]), (9, [1, 2])]
    assert ran(kept, moves, TENS) == [(5, [1]), (9, [1, 2])]
    # Where the timeout is behind the end, and where it is at the clean-up.
    for after in (50, 39):
        kept = timeout(CountTrigger.of(9), after, resets=resets, clears=False, purges=False)
        assert ran(kept, moves, TENS, late=30) == [(9, [1, 2])]


@pytest.mark.parametrize("resets", [False, True])
def test_a_late_element_fires_at_once_where_the_timeout_is_kept(resets: bool) -> None:
    moves: Sequence[Move] = [(1, 3), 9, (2, 1), (3, 5), 39]
    assert ran(timeout(CountTrigger.of(9), 50, resets=resets, clears=False), moves, TENS, late=30) == [
        (9, [1]),
        (9, [2]),
        (9, [3]),
    ]


def test_a_timeout_that_is_kept_does_not_come_again_where_sessions_merge() -> None:
    moves: Sequence[Move] = [(1, 0), 6, (2, 8), 7, 9, (3, 12), 13, 20, 21, 50]
    kept = timeout(CountTrigger.of(9), 5, clears=False, purges=False)
    assert ran(kept, moves, SESSIONS) == [(6, [1]), (21, [1, 2, 3])]
    # A timeout behind the end of a session that has fired is one to come where the session goes on.
    kept = timeout(CountTrigger.of(9), 15, clears=False, purges=False)
    assert ran(kept, [(1, 0), 9, (2, 8), 14, 15, 16, 17], SESSIONS, late=9) == [(9, [1]), (15, [1, 2]), (17, [1, 2])]


def test_what_a_window_waits_for_whose_timeout_is_over_and_kept() -> None:
    source = PushSource(int)
    trigger = EventTimeoutTrigger.of(CountTrigger.of(9), millis(5), should_clear_on_timeout=False)
    stage = from_source(source).key_by(lambda value: "key").window(TENS).trigger(trigger)
    with StreamHarness(stage.reduce(max), source) as harness:
        harness.process_element(1, 0)
        harness.process_watermark(7)
        words = harness.explain_window("key", harness.open_windows()[0].window).trigger
        assert "ms): waits for the watermark to reach 9; it is 7\n" in words


@pytest.mark.parametrize("clears", [False, True])
def test_a_timeout_of_the_clock_does_not_come_again_where_sessions_merge(clears: bool) -> None:
    source = PushSource(int)
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(9), millis(5), should_clear_on_timeout=clears)
    stage = from_source(source).key_by(lambda value: "key").window(SESSIONS).trigger(trigger)
    with StreamHarness(stage.apply(lambda key, window, values: [list(values)]), source) as harness:
        panes: list[tuple[int, list[int]]] = []
        for clock in range(0, 20, 2):
            harness.set_processing_time(clock)
            if clock in (0, 6, 8):
                harness.process_element(clock, clock)
            harness.snapshot_restore()
            panes += [(clock, pane) for pane in harness.take_values()]
        assert panes == ([(6, [0]), (12, [0, 6, 8])] if clears else [(6, [0])])
        if not clears:
            words = harness.explain_window("key", harness.open_windows()[0].window).trigger
            assert words.splitlines()[0] == "ProcessingTimeoutTrigger(CountTrigger(9), 5 ms): has timed out"
        harness.process_watermark(40)
        assert harness.take_values() == [[0, 6, 8]]


def test_the_clock_takes_no_timer_from_a_timeout_that_is_kept() -> None:
    """Both timeouts in event time are at 23, and the clock clears the inner one."""
    source = PushSource(int)
    inner = ProcessingTimeoutTrigger.of(EventTimeoutTrigger.of(CountTrigger.of(9), millis(20)), millis(5))
    trigger = EventTimeoutTrigger.of(inner, millis(20), should_clear_on_timeout=False)
    stage = from_source(source).key_by(lambda value: "key").window(GlobalWindows.create()).trigger(trigger)
    with StreamHarness(stage.apply(lambda key, window, values: [list(values)]), source) as harness:
        harness.set_processing_time(0)
        harness.process_element(1, 3)
        harness.set_processing_time(5)
        assert harness.take_values() == [[1]]
        harness.process_watermark(23)
        assert harness.take_values() == [[1]]


def test_a_timer_of_the_inner_trigger_stays_where_the_timeout_moves_on() -> None:
    """Both have set one for 9."""
    trigger = timeout(EventTimeTrigger.create(), 5, resets=True, clears=False, purges=False)
    assert ran(trigger, [(1, 4), (2, 6), 8, 9, 10, 11], TENS, late=50)[0] == (9, [1, 2])
    every = ContinuousEventTimeTrigger.of(millis(10))
    moves: Sequence[Move] = [(1, 4), (2, 6), 9, 10, 11, 15]
    assert ran(timeout(every, 6, resets=True, clears=False, purges=False), moves)[:2] == [(10, [1, 2]), (15, [1, 2])]


@pytest.mark.parametrize("resets", [False, True])
def test_sessions_that_merge_wait_for_the_first_element_or_the_last_one(resets: bool) -> None:
    # The session from 0 to 19 is one when 9 comes; it ends at 29.
    moves: Sequence[Move] = [(1, 0), (2, 19), (3, 9), 14, 15, 28, 29, 33, 34]
    assert ran(timeout(CountTrigger.of(9), 15, resets=resets), moves, SESSIONS) == [(28 if resets else 15, [1, 2, 3])]


def test_it_is_a_part_of_triggers_that_compose_and_goes_around_them() -> None:
    part = repeatedly(after_any(EventTimeoutTrigger.of(CountTrigger.of(9), millis(3)), after_count(3)))
    moves: Sequence[Move] = [(1, 1), 3, 4, (2, 5), (3, 5), (4, 6), (5, 8), 9]
    assert ran(part, moves, TENS) == [(4, [1]), (4, [1, 2, 3, 4]), (9, [1, 2, 3, 4, 5])]
    around = timeout(repeatedly(after_any(after_count(3), after_watermark())), 3)
    assert ran(around, moves, TENS) == [(4, [1]), (4, [2, 3, 4]), (9, [5])]


moves = st.lists(st.one_of(st.tuples(st.just(1), st.integers(0, 40)), st.integers(0, 45)), max_size=20)


@given(moves, st.sampled_from([10, MAX_TIMESTAMP]), st.integers(1, 4), st.integers(1, 15), st.booleans())
def test_it_does_what_it_says(given: list[Move], size: int, count: int, after: int, resets: bool) -> None:
    """The model fires a window when it has enough elements, or when the watermark has reached its timeout."""
    expected: Panes = []
    held: dict[int, list[tuple[int, int]]] = {}
    watermark = -1

    def fire(start: int) -> None:
        expected.append((watermark, [number for number, _ in held.pop(start)]))

    def due(start: int) -> int:
        times = [at for _, at in held[start]]
        return min((max(times) if resets else min(times)) + after, start + size - 1)

    numbered: list[Move] = []
    for number, move in enumerate(given):
        if isinstance(move, tuple):
            at = move[1]
            start = at // size * size
            numbered.append((number, at))
            if start + size - 1 + 20 > watermark or size == MAX_TIMESTAMP:
                held.setdefault(start, []).append((number, at))
                if len(held[start]) == count or due(start) <= watermark:
                    fire(start)
        else:
            watermark = max(watermark, move)
            numbered.append(watermark)
            for start in sorted(held, key=due):
                if due(start) <= watermark:
                    fire(start)
    watermark = MAX_TIMESTAMP
    for start in sorted(held, key=due):
        fire(start)
    trigger = timeout(CountTrigger.of(count), after, resets=resets)
    assigner, late = (TENS, 20) if size == 10 else (GlobalWindows.create(), 0)
    assert sorted(ran(trigger, numbered, assigner, late=late)) == sorted(expected)


few_moves = st.lists(st.one_of(st.tuples(st.just(1), st.integers(0, 19)), st.integers(0, 25)), min_size=3, max_size=9)


@examples(70)
@given(few_moves, st.sampled_from([TENS, SESSIONS]), st.integers(2, 9), st.integers(1, 15), st.booleans())
def test_a_timeout_that_is_kept_loses_nothing(
    given: list[Move], assigner: Any, count: int, after: int, resets: bool
) -> None:
    """Each element comes out once: at the end of its window at the latest, and at once if it comes behind that."""
    ends: list[int] = []
    latest: list[int] = []  # the watermark at which each element comes out at the latest
    numbered: list[Move] = []
    watermark = -1
    for move in given:
        if isinstance(move, tuple):
            at = move[1]
            numbered.append((len(ends), at))
            ends.append(at // 10 * 10 + 9)
            latest.append(watermark if ends[-1] <= watermark else MAX_TIMESTAMP)
        else:
            watermark = max(watermark, move)
            numbered.append(watermark)
            latest = [
                min(time, watermark) if end <= watermark else time for end, time in zip(ends, latest, strict=True)
            ]
    panes = ran(timeout(CountTrigger.of(count), after, resets=resets, clears=False), numbered, assigner, late=100)
    came = sorted((number, at) for at, pane in panes for number in pane)
    assert [number for number, _ in came] == list(range(len(ends)))
    if assigner is TENS:
        assert all(at <= latest[number] for number, at in came)


def test_it_merges_and_goes_by_the_clock_where_the_inner_trigger_does() -> None:
    assert isinstance(EventTimeoutTrigger.of(CountTrigger.of(1), millis(1)), MergingTrigger)
    assert not isinstance(EventTimeoutTrigger.of(DeltaTrigger.of(1, max), millis(1)), MergingTrigger)
    assert not EventTimeoutTrigger.of(CountTrigger.of(1), millis(1)).uses_processing_time
    assert EventTimeoutTrigger.of(ProcessingTimeTrigger.create(), millis(1)).uses_processing_time
    with pytest.raises(InvalidArgumentError, match="the timeout of a trigger"):
        EventTimeoutTrigger.of(CountTrigger.of(1), millis(0))
    with pytest.raises(InvalidArgumentError, match="a trigger goes around another one"):
        EventTimeoutTrigger.of(CountTrigger, millis(1))  # type: ignore[call-overload]  # what is tested
