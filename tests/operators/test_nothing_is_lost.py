"""A plan that is accepted without ``may_lose_data`` loses no element, and panes say which one is the last."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from tests.operators.stories import KEYED, NUMBERS, story
from tests.operators.test_trigger_laws import Assigner, Step, Trigger, assigners, played, steps, triggers
from tests.support.records import millis
from windrow import aggregates as agg
from windrow.errors import PlanError
from windrow.functions import with_pane
from windrow.panes import ClosingBehavior, OnTimeBehavior, PaneTiming
from windrow.triggers import (
    EventTimeTrigger,
    PurgingTrigger,
    after_all,
    after_any,
    after_count,
    after_each,
    after_watermark,
    always,
    default,
    never,
    or_finally,
    repeatedly,
)
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows
from windrow_runtime.testing import StreamHarness

TENS = TumblingEventTimeWindows.of(millis(10))
endings = st.one_of(triggers, st.sampled_from([always(), default(), after_watermark(early=after_count(2))]))
composites = st.one_of(triggers, st.builds(or_finally, st.just(repeatedly(after_count(3))), endings))


def lost(assigner: Assigner, late: int, trigger: Trigger, moves: Sequence[Step]) -> int:
    """How many of the elements are in no pane of windows that discard, and were not late."""
    stream = KEYED.window(assigner).trigger(trigger).allowed_lateness(millis(late)).discarding().aggregate(agg.count())
    with StreamHarness(stream, NUMBERS, explains=False) as harness:
        taken = sum(played(harness, moves))
        assert harness.counter("closed_window_records_dropped") == 0
        elements = sum(kind == "element" for kind, _ in moves)
        return elements - taken - harness.counter("late_records_dropped")


def test_plans_that_are_accepted_lose_nothing() -> None:
    accepted = drawn = 0

    @examples(100)
    @given(assigners, st.sampled_from([0, 7, 100]), composites, steps)
    def loses_nothing(assigner: Assigner, late: int, trigger: Trigger, moves: list[Step]) -> None:
        nonlocal accepted, drawn
        drawn += 1
        with suppress(PlanError):  # which refuses the others
            assert lost(assigner, late, trigger, moves) == 0
            accepted += 1

    loses_nothing()
    assert accepted > drawn // 10  # a check that refuses all plans would lose nothing either


@pytest.mark.parametrize(
    ("until", "late", "accepted"),
    [
        (after_watermark(early=after_count(2)), 0, False),
        (after_any(after_watermark(), always()), 0, False),
        (after_each(after_count(2), after_watermark()), 0, False),
        (repeatedly(after_count(2)), 0, False),
        (after_all(after_count(2), after_watermark()), 0, True),
        (after_each(after_watermark(), after_count(2)), 0, True),
        (PurgingTrigger.of(EventTimeTrigger.create()), 0, True),
        (default(), 0, True),
        (default(), 5, False),
        (repeatedly(after_watermark()), 5, False),
        (never(), 5, True),
        (repeatedly(never()), 5, True),
    ],
)
def test_the_last_trigger_ends_the_main_one_when_it_fires(until: Trigger, late: int, accepted: bool) -> None:
    trigger = or_finally(repeatedly(after_count(3)), until)
    moves = [("element", at) for at in range(7)]
    if accepted:
        assert lost(TENS, late, trigger, moves) == 0
    else:
        with pytest.raises(PlanError, match="would be lost"):
            lost(TENS, late, trigger, moves)


def test_what_waits_in_a_session_comes_out_where_it_meets_a_finished_one() -> None:
    #  gap 60   |0 0 0 finished|     |98 waits|    then 50 joins them
    sessions = KEYED.window(EventTimeSessionWindows.with_gap(millis(60))).trigger(after_count(3), may_lose_data=True)
    assert story(sessions.discarding().aggregate(agg.count()), "1/0 2/0 3/0 4/98 5/50 ^") == {"3/0": [3], "^": [2]}


def panes(
    trigger: Trigger,
    watermarks: Sequence[int],
    *,
    count: int = 2,
    on_time: OnTimeBehavior = OnTimeBehavior.FIRE_ALWAYS,
    closing: ClosingBehavior = ClosingBehavior.FIRE_IF_NON_EMPTY,
) -> list[tuple[PaneTiming, bool, int]]:
    """The timing of each pane of a window of ten with five of lateness, whether it is the last, and its count."""
    windows = KEYED.window(TENS)
    kept = windows.trigger(trigger).allowed_lateness(millis(5)).accumulating()
    stream = kept.on_time_behavior(on_time).closing_behavior(closing).aggregate(agg.count(), with_pane())
    with StreamHarness(stream, NUMBERS) as harness:
        for at in range(count):
            harness.process_element(1, timestamp=at)
        for watermark in watermarks:
            harness.process_watermark(watermark)
        results = harness.take_values()
        assert list(harness.open_windows()) == []
        return [(result.pane.timing, result.pane.is_last, result.value) for result in results]


EARLY, ON_TIME = PaneTiming.EARLY, PaneTiming.ON_TIME


@pytest.mark.parametrize("closing", list(ClosingBehavior))
def test_a_leap_over_end_and_clean_up_gives_one_pane_that_is_the_last(closing: ClosingBehavior) -> None:
    for trigger in (after_watermark(late=after_count(1)), default(), repeatedly(after_watermark())):
        assert panes(trigger, [100], closing=closing) == [(ON_TIME, True, 2)]
    assert panes(default(), [12, 100]) == [(ON_TIME, False, 2)]


def test_a_window_that_did_not_fire_on_time_closes_on_time() -> None:
    twice = repeatedly(after_count(2))
    for watermarks in ([100], [12, 100]):
        assert panes(twice, watermarks) == [(EARLY, False, 2), (ON_TIME, True, 2)]
        assert panes(twice, watermarks, count=3) == [(EARLY, False, 2), (ON_TIME, True, 3)]
        assert panes(never(), watermarks) == [(ON_TIME, True, 2)]
        assert panes(twice, watermarks, on_time=OnTimeBehavior.FIRE_IF_NON_EMPTY) == [(EARLY, False, 2)]
