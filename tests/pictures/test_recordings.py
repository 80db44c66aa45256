"""What recordings hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.pictures.pictured import (
    SECOND,
    add,
    clock,
    element,
    keyed_numbers,
    recorded_numbers,
    recording_of,
    seconds,
    sums,
    watermark,
)
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import InvalidArgumentError, WindrowError
from windrow.panes import ChangeKind, PaneInfo, PaneTiming
from windrow.sinks import CollectSink
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import after_count, after_each, after_watermark, repeatedly
from windrow.windows import EventTimeSessionWindows, GlobalWindow, GlobalWindows, TimeWindow
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_runtime.pictures import Moment, RecordedPane, RecordedWatermark, Recording
from windrow_runtime.testing import PushSource, StreamHarness


def shown(panes: Iterable[RecordedPane]) -> list[tuple[str, Any, tuple[Any, ...]]]:
    return [(pane.kind.value, tuple(pane.window), pane.values) for pane in panes]


def sums_recorded(*, restores: bool = False) -> Recording:
    return recorded_numbers(
        sums,
        *(element(1, 100), clock(5_000), element(2, 200), element(3, 300)),
        *[StreamHarness.snapshot_restore] * restores,
        *(watermark(999), element(5, 400), element(7, 1_400)),
    )


def test_elements_are_numbered_and_late_ones_are_told() -> None:
    elements = sums_recorded().of().elements
    assert [(e.number, e.key, e.value, e.timestamp) for e in elements] == [
        (1, "odd", 1, 100),
        (2, "even", 2, 200),
        (3, "odd", 3, 300),
        (4, "odd", 5, 400),
        (5, "odd", 7, 1_400),
    ]
    assert [element.is_late for element in elements] == [False, False, False, True, False]
    assert [element.is_dropped for element in elements] == [False, False, False, True, False]


def test_the_clock_is_unknown_until_it_is_set() -> None:
    recording = sums_recorded().of()
    assert [element.moment for element in recording.elements] == [
        Moment(order=1, clock=None),
        Moment(order=2, clock=5_000),
        Moment(order=3, clock=5_000),
        Moment(order=5, clock=5_000),
        Moment(order=6, clock=5_000),
    ]
    assert recording.watermarks == (RecordedWatermark(watermark=999, moment=Moment(order=4, clock=5_000)),)


def test_panes_come_with_the_watermark_that_fires_them() -> None:
    odd, even = sums_recorded().of().panes
    assert odd == RecordedPane(
        key="odd",
        window=TimeWindow(0, 1_000),
        moment=Moment(order=4, clock=5_000),
        values=(4,),
        pane=PaneInfo(PaneTiming.ON_TIME, 0, 0, True, True),
        kind=ChangeKind.INSERT,
    )
    assert (even.key, even.values) == ("even", (2,))


def test_a_recording_goes_on_behind_a_snapshot() -> None:
    assert sums_recorded(restores=True) == sums_recorded()


def test_elements_within_allowed_lateness_are_late_and_not_dropped() -> None:
    late = OutputTag("late", int)
    recording = recorded_numbers(
        lambda keyed: keyed.window(SECOND).allowed_lateness(seconds(1)).side_output_late_data(late).reduce(add),
        *(element(2, 0), watermark(1_500), element(4, 1), watermark(2_500), element(6, 2)),
    ).of()
    assert [(e.is_late, e.is_dropped) for e in recording.elements] == [(False, False), (True, False), (True, True)]
    assert [pane.values for pane in recording.panes] == [(2,), (6,)]


def test_an_element_behind_a_finished_trigger_is_dropped() -> None:
    once = after_count(1)
    recording = recorded_numbers(
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(once, may_lose_data=True).accumulating().reduce(add),
        *map(element, (2, 4, 3)),
    ).of()
    assert [each.is_dropped for each in recording.elements] == [False, True, False]
    assert [(pane.window, pane.values) for pane in recording.panes] == [(GlobalWindow(), (2,)), (GlobalWindow(), (3,))]


@pytest.mark.parametrize("restores", [False, True])
def test_a_withdrawal_has_the_window_that_it_takes_back_from(restores: bool) -> None:
    source, keyed = keyed_numbers()
    sessions = keyed.window(EventTimeSessionWindows.with_gap(seconds(1))).trigger(repeatedly(after_count(1)))
    steps = [element(1, 0), element(3, 2_000), element(5, 1_000), element(7, 500)]
    if restores:
        steps = [step for each in steps for step in (each, StreamHarness.snapshot_restore)]
    panes = recording_of(sessions.retracting().reduce(add).changelog(), source, *steps).of().panes
    assert shown(panes) == [
        ("+I", (0, 1_000), (1,)),
        ("+I", (2_000, 3_000), (3,)),
        ("-D", (0, 1_000), (1,)),
        ("-D", (2_000, 3_000), (3,)),
        ("+I", (0, 3_000), (9,)),
        ("-U", (0, 3_000), (9,)),
        ("+U", (0, 3_000), (16,)),
    ]
    # The second pane of a window that merged before is the one whose number a withdrawal has, too.
    assert [pane.pane.index for pane in panes if pane.pane is not None] == [0, 0, 0, 0, 0, 0, 1]


def test_a_pane_without_results_is_recorded() -> None:
    recording = recorded_numbers(
        lambda keyed: keyed.window(SECOND).apply(lambda key, window, elements: list[int]()),
        *(element(2, 0), watermark(999)),
    )
    assert [pane.values for pane in recording.of().panes] == [()]


def test_results_of_one_pane_stay_together() -> None:
    recording = recorded_numbers(
        lambda keyed: keyed.window(SECOND).apply(lambda key, window, elements: elements),
        *(element(2, 2), element(4, 4), element(3, 3), watermark(1_500)),
    )
    assert shown(recording.of().panes) == [("+I", (0, 1_000), (2, 4)), ("+I", (0, 1_000), (3,))]


def test_withdrawals_that_reach_a_second_step_are_told_from_elements() -> None:
    source, keyed = keyed_numbers()
    trigger = after_each(after_count(1), after_watermark())
    changing = keyed.window(SECOND).trigger(trigger, may_lose_data=True).retracting().reduce(add)
    totals = changing.key_by(lambda total: None).window(SECOND).reduce(add)
    recording = recording_of(totals, source, element(2, 0), element(4, 0), watermark(999))
    first, second = recording.steps
    assert [(e.kind.value, e.value) for e in recording.of(second).elements] == [("+I", 2), ("-U", 2), ("+U", 6)]
    assert [pane.values for pane in recording.of(second).panes] in ([], [(6,)])
    with pytest.raises(InvalidArgumentError, match="must be named"):
        recording.of()
    with pytest.raises(InvalidArgumentError, match="no such window step"):
        recording.of("window")
    assert recording.of(first).step == first


def test_the_runner_records_and_gives_the_same_results() -> None:
    sink = CollectSink[int]()
    strategy = WatermarkStrategy[int].for_bounded_out_of_orderness(seconds(1))
    totals = (
        from_collection([100, 1_200, 900, 5_000])
        .assign_timestamps_and_watermarks(strategy, timestamp=lambda number: number)
        .key_by(lambda number: "all")
        .window(SECOND)
        .reduce(add)
    )
    pipeline = Pipeline("sums", totals.sink_to(sink))
    result = LocalRunner(record=True).run(pipeline)
    assert result.collected(sink) == LocalRunner().run(pipeline).collected(sink) == [1_000, 1_200, 5_000]
    recording = result.recording.of()
    assert [pane.values for pane in recording.panes] == [(1_000,), (1_200,), (5_000,)]
    assert [move.watermark for move in recording.watermarks] == [3_999, MAX_TIMESTAMP]
    with pytest.raises(InvalidArgumentError, match=r"was not recorded(.|\n)*LocalRunner\(record=True\)"):
        _ = LocalRunner().run(pipeline).recording
    assert "faster forms are turned off" in "".join(map(str, LocalRunner(record=True).forms(pipeline).values()))


def test_a_key_without_a_hash_is_named_as_in_a_run_that_is_not_recorded() -> None:
    source = PushSource(int)
    # What a type checker refuses, users may do all the same.
    keyed = from_source(source).key_by(lambda number: sorted([number], key=abs))  # type: ignore[type-var]
    with pytest.raises(WindrowError, match="hash"):
        recording_of(keyed.window(SECOND).reduce(add), source, element(1, 1))


def test_nothing_is_recorded_unless_somebody_asks() -> None:
    source, keyed = keyed_numbers()
    with StreamHarness(sums(keyed), source) as harness, pytest.raises(InvalidArgumentError, match="was not recorded"):
        _ = harness.recording
    assert WindowOperator.observer is None


def test_a_join_shows_elements_of_both_streams_without_marks() -> None:
    letters, numbers = PushSource(str), PushSource(int)
    joined = from_source(letters).join(from_source(numbers)).where(lambda _: "all").equal_to(lambda _: "all")
    pairs = joined.window(SECOND).apply(lambda letter, number: f"{letter}{number}")
    steps = element("a", 100), element(1, 200, numbers), watermark(999), element(2, 300, numbers)
    recording = recording_of(pairs, letters, *steps).of()
    assert [(each.value, each.is_dropped) for each in recording.elements] == [("a", False), (1, False), (2, True)]
    assert shown(recording.panes) == [("+I", (0, 1_000), ("a1",))]
