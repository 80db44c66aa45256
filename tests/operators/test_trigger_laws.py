"""The laws of triggers that compose, and of panes, over random triggers and streams."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from tests.operators.stories import KEYED, NUMBERS
from tests.support.records import add, millis
from windrow import DataStream, WindowedStream
from windrow.aggregates import sum as total
from windrow.functions import ProcessWindowContext, ProcessWindowFunction, with_pane
from windrow.panes import Change, ClosingBehavior, PaneInfo, PaneTiming
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import (
    CountTrigger,
    EventTimeTrigger,
    MergingComposableTrigger,
    MergingTrigger,
    PurgingTrigger,
    after_all,
    after_any,
    after_count,
    after_each,
    after_processing_time,
    after_watermark,
    always,
    default,
    never,
    or_finally,
    repeatedly,
)
from windrow.windows import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows, Window
from windrow_runtime.testing import StreamHarness

Trigger: TypeAlias = MergingTrigger[object, Window]
Composable: TypeAlias = MergingComposableTrigger[object, Window]
Step: TypeAlias = tuple[str, int]
Shown: TypeAlias = tuple[TimeWindow, PaneInfo, int]
Assigner: TypeAlias = TumblingEventTimeWindows | EventTimeSessionWindows
T = TypeVar("T")


leaves = st.one_of(
    st.integers(1, 4).map(after_count),
    st.just(after_watermark()),
    st.just(default()),
    st.just(never()),
    st.just(always()),
    st.builds(lambda delay: after_processing_time(millis(delay)), st.integers(0, 9)),
    st.builds(lambda period: after_processing_time(aligned_to=millis(period)), st.integers(1, 9)),
)
once = st.one_of(leaves, st.integers(1, 3).map(CountTrigger.of), st.just(EventTimeTrigger.create()))


def combined(inner: st.SearchStrategy[Trigger]) -> st.SearchStrategy[Trigger]:
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        some.map(lambda triggers: after_any(*triggers)),
        some.map(lambda triggers: after_all(*triggers)),
        some.map(lambda triggers: after_each(*triggers)),
        inner.map(repeatedly),
        st.builds(or_finally, inner, inner),
        st.builds(lambda early, late: after_watermark(early=early, late=late), inner, st.none() | inner),
    )


triggers = st.recursive(once, combined, max_leaves=4)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("element"), st.integers(0, 40)),
        st.tuples(st.just("element"), st.integers(0, 40)),
        st.tuples(st.just("watermark"), st.integers(0, 45)),
        st.tuples(st.just("clock"), st.integers(0, 60)),
        st.tuples(st.just("restore"), st.just(0)),
    ),
    max_size=25,
)

assigners = st.sampled_from([TumblingEventTimeWindows.of(millis(10)), EventTimeSessionWindows.with_gap(millis(5))])
lateness = st.sampled_from([0, 7, 100])


class _Shown(ProcessWindowFunction[int, Shown, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[int]) -> Iterable[Shown]:
        return [(context.window, context.pane, sum(elements))]


def played(harness: StreamHarness[int, T], moves: Sequence[Step]) -> list[T]:
    """What comes out; each element is a power of two, so that a sum says which elements are in it."""
    found: list[T] = []
    harness.set_processing_time(0)
    for number, (kind, value) in enumerate([*moves, ("watermark", MAX_TIMESTAMP)]):
        if kind == "element":
            harness.process_element(1 << number, value)
        elif kind == "watermark":
            harness.process_watermark(value)
        elif kind == "clock":
            harness.set_processing_time(value)
        else:
            harness.snapshot_restore()
        found += harness.take_values()
    return found


def results(stream: DataStream[T], moves: Sequence[Step]) -> list[T]:
    with StreamHarness(stream, NUMBERS) as harness:
        return played(harness, moves)


def run(stage: WindowedStream[int, str, TimeWindow], moves: Sequence[Step]) -> list[Change[Shown]]:
    return results(stage.process(_Shown()).changelog(), moves)


def windows(assigner: Assigner, late: int, trigger: Trigger) -> WindowedStream[int, str, TimeWindow]:
    return KEYED.window(assigner).trigger(trigger, may_lose_data=True).allowed_lateness(millis(late))


def accumulated(assigner: Assigner, late: int, trigger: Trigger, moves: Sequence[Step]) -> list[Change[Shown]]:
    return run(windows(assigner, late, trigger).accumulating(), moves)


@examples(25)
@given(assigners, lateness, triggers, triggers, triggers, steps)
def test_after_each_is_associative(
    assigner: Assigner, late: int, one: Trigger, two: Trigger, three: Trigger, moves: list[Step]
) -> None:
    left = accumulated(assigner, late, after_each(after_each(one, two), three), moves)
    assert left == accumulated(assigner, late, after_each(one, after_each(two, three)), moves)
    assert left == accumulated(assigner, late, after_each(one, two, three), moves)


@examples(25)
@given(assigners, lateness, triggers, triggers, steps)
def test_nothing_comes_after_what_repeats(
    assigner: Assigner, late: int, one: Trigger, two: Trigger, moves: list[Step]
) -> None:
    assert accumulated(assigner, late, after_each(repeatedly(one), two), moves) == accumulated(
        assigner, late, repeatedly(one), moves
    )


@examples(25)
@given(assigners, lateness, triggers, steps)
def test_repeating_twice_is_repeating(assigner: Assigner, late: int, one: Trigger, moves: list[Step]) -> None:
    assert accumulated(assigner, late, repeatedly(repeatedly(one)), moves) == accumulated(
        assigner, late, repeatedly(one), moves
    )


@examples(30)
@given(assigners, lateness, triggers, steps)
def test_a_snapshot_between_any_two_steps_changes_nothing(
    assigner: Assigner, late: int, trigger: Trigger, moves: list[Step]
) -> None:
    often = [each for move in moves for each in (move, ("restore", 0))]
    # Elements are numbered by their place, so each step has a place of the same number.
    still = [each for move in moves for each in (move, ("clock", 0))]
    assert accumulated(assigner, late, trigger, often) == accumulated(assigner, late, trigger, still)


def by_window(changes: Iterable[Change[Shown]]) -> dict[TimeWindow, int]:
    found: Counter[TimeWindow] = Counter()
    for change in changes:
        window, _, value = change.value
        found[window] += -value if change.kind.is_withdrawal else value
    return {window: value for window, value in found.items() if value}


@examples(40)
@given(assigners, lateness, triggers, steps)
def test_modes_agree_in_the_end(assigner: Assigner, late: int, trigger: Trigger, moves: list[Step]) -> None:
    """A retracting stream sums up to the last accumulating pane of each window, and to all discarding ones."""
    repeated = repeatedly(trigger)
    retracting = run(windows(assigner, late, repeated).retracting(), moves)
    discarding = run(windows(assigner, late, repeated).discarding(), moves)
    last: dict[TimeWindow, int] = {}
    for change in accumulated(assigner, late, repeated, moves):
        window, _, value = change.value
        last[window] = value
    summed = by_window(retracting)
    assert sum(summed.values()) == sum(by_window(discarding).values())
    assert all(last[window] == value for window, value in summed.items())
    if isinstance(assigner, TumblingEventTimeWindows):
        assert summed == {window: value for window, value in last.items() if value} == by_window(discarding)


@examples(30)
@given(assigners, lateness, triggers, steps)
def test_the_panes_of_a_window_are_counted_and_nothing_is_lost(
    assigner: Assigner, late: int, trigger: Trigger, moves: list[Step]
) -> None:
    stage = windows(assigner, late, repeatedly(trigger)).accumulating()
    found = run(stage.closing_behavior(ClosingBehavior.FIRE_ALWAYS), moves)
    panes: defaultdict[TimeWindow, list[PaneInfo]] = defaultdict(list)
    for change in found:
        window, pane, _ = change.value
        if pane.index == 0:
            # A session may be merged away, and another of the same bounds come to be.
            panes[window] = []
        panes[window].append(pane)
    for some in panes.values():
        assert [pane.index for pane in some] == list(range(len(some)))
        assert [pane.is_first for pane in some] == [True] + [False] * (len(some) - 1)
        assert not any(pane.is_last for pane in some[:-1])
        timings = [pane.timing for pane in some]
        assert sorted(timings, key=list(PaneTiming).index) == timings
        assert timings.count(PaneTiming.ON_TIME) <= 1
        numbered = [pane.nonspeculative_index for pane in some if pane.timing is not PaneTiming.EARLY]
        assert numbered == list(range(len(numbered)))
    if isinstance(assigner, TumblingEventTimeWindows):
        # Each window that had an element ends with a last pane.
        assert all(some[-1].is_last for some in panes.values())


@examples(20)
@given(assigners, steps, st.sampled_from([after_watermark(), default(), PurgingTrigger.of(EventTimeTrigger.create())]))
def test_windows_that_fire_once_do_so_by_any_name(assigner: Assigner, moves: list[Step], trigger: Trigger) -> None:
    assert accumulated(assigner, 0, trigger, moves) == accumulated(assigner, 0, EventTimeTrigger.create(), moves)
    assert {change.value[1].timing for change in accumulated(assigner, 0, trigger, moves)} <= {PaneTiming.ON_TIME}


@examples(30)
@given(
    assigners,
    lateness,
    steps,
    st.sampled_from([default(), after_watermark(late=after_count(1)), EventTimeTrigger.create()]),
    st.booleans(),
)
def test_windows_that_fire_at_their_end_need_no_panes(
    assigner: Assigner, late: int, moves: list[Step], trigger: Trigger, discards: bool
) -> None:
    """A step whose results Flink's triggers give as well is run by them: with a look at the panes it is not."""
    stage = windows(assigner, late, trigger)
    stage = stage.discarding() if discards else stage.accumulating()
    plain = results(stage.reduce(add), moves)
    paned = stage.reduce(add, with_pane()).map(lambda result: result.value)
    assert plain == results(paned, moves)


@examples(25)
@given(lateness, triggers, steps, st.sampled_from(["accumulating", "discarding", "retracting"]))
def test_windows_behind_retracting_ones_take_withdrawn_elements_out(
    late: int, trigger: Trigger, moves: list[Step], mode: str
) -> None:
    """Sums of sums, by a function that takes out and by one that computes anew, are the sums of what is left."""

    def outer(stream: DataStream[Shown]) -> DataStream[int]:
        stage = stream.map(lambda shown: shown[2]).key_by(lambda value: 0)
        return stage.window(TumblingEventTimeWindows.of(millis(1000))).aggregate(total(lambda value: value))

    def anew(stream: DataStream[Shown]) -> DataStream[int]:
        stage = stream.map(lambda shown: shown[2]).key_by(lambda value: 0)
        return stage.window(TumblingEventTimeWindows.of(millis(1000))).reduce(add)

    assigner = EventTimeSessionWindows.with_gap(millis(5))
    inner = windows(assigner, late, repeatedly(trigger)).retracting().process(_Shown())
    # The outer window must not be over before the end, or it would drop withdrawals as late.
    taken = [results(build(inner), moves) for build in (outer, anew)]
    assert taken[0] == taken[1]
    discarded = run(windows(assigner, late, repeatedly(trigger)).discarding(), moves)
    expected = sum(by_window(discarded).values())
    assert sum(taken[0]) == expected
    assert len(taken[0]) == (1 if expected else 0)
