"""The harnesses of single parts: triggers, assigners and live windows."""

from __future__ import annotations

import pytest

from tests.support.records import millis
from windrow.triggers import (
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    TriggerResult,
    repeatedly,
)
from windrow.windows import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    TimeWindow,
)
from windrow_runtime.testing import LiveWindows, TriggerAnswer, TriggerHarness, assign_windows

FIRST, SECOND = TimeWindow(0, 10), TimeWindow(10, 20)


#  event time   0........10........20
#  watermark            ^9                 fires the first window
#  watermark                      ^19      fires the second
def test_a_trigger_answers_its_timers() -> None:
    harness = TriggerHarness(EventTimeTrigger.create())
    assert harness.process_element("x", 1, FIRST) is TriggerResult.CONTINUE
    assert harness.process_element("x", 11, SECOND) is TriggerResult.CONTINUE
    assert harness.event_timers == [(FIRST, 9), (SECOND, 19)]
    assert harness.process_watermark(9) == [TriggerAnswer(FIRST, TriggerResult.FIRE)]
    assert harness.process_watermark(9) == []
    assert harness.process_element("x", 1, FIRST) is TriggerResult.FIRE
    harness.clear(SECOND)
    assert harness.event_timers == []
    assert harness.process_watermark(19) == []


def test_a_trigger_may_be_called_without_a_timer() -> None:
    harness = TriggerHarness(EventTimeTrigger.create())
    assert harness.call_on_event_time(9, FIRST) is TriggerResult.FIRE
    assert harness.call_on_event_time(8, FIRST) is TriggerResult.CONTINUE


def test_the_clock_moves_apart_from_the_watermark() -> None:
    harness = TriggerHarness(ProcessingTimeTrigger.create())
    harness.process_element("x", None, FIRST)
    assert harness.process_watermark(100) == []
    assert harness.processing_timers == [(FIRST, 9)]
    assert harness.set_processing_time(9) == [TriggerAnswer(FIRST, TriggerResult.FIRE)]


def test_merging_moves_state_and_clears_what_merged_away() -> None:
    harness = TriggerHarness(CountTrigger.of(3))
    harness.process_element("x", 1, FIRST)
    harness.process_element("x", 11, SECOND)
    assert harness.state_windows == [FIRST, SECOND]
    into = FIRST.cover(SECOND)
    harness.merge([FIRST, SECOND], into)
    assert harness.state_windows == [into]
    assert harness.process_element("x", 5, into) is TriggerResult.FIRE


def test_a_trigger_that_cannot_merge_is_named() -> None:
    harness: TriggerHarness[str, TimeWindow] = TriggerHarness(DeltaTrigger.of(1, lambda a, b: 0))
    with pytest.raises(TypeError, match=r"^repeatedly\(.*\) cannot merge, because of DeltaTrigger\(1\)$"):
        TriggerHarness(repeatedly(DeltaTrigger.of(1, lambda a, b: 0.0))).merge([], TimeWindow(0, 1))
    with pytest.raises(TypeError, match=r"^DeltaTrigger\(1\) cannot merge$"):
        harness.merge([FIRST], SECOND)


def test_an_assigner_sees_element_timestamp_and_clock() -> None:
    dynamic: DynamicEventTimeSessionWindows[int] = EventTimeSessionWindows.with_dynamic_gap(millis)
    assert assign_windows(dynamic, 7, 100) == [TimeWindow(100, 107)]
    on_clock = ProcessingTimeSessionWindows.with_gap(millis(5))
    assert assign_windows(on_clock, 7, 100, processing_time=50) == [TimeWindow(50, 55)]


def test_live_windows_merge_as_they_are_added() -> None:
    live = LiveWindows(EventTimeSessionWindows.with_gap(millis(5)))
    assert live.add(TimeWindow(0, 5)) == (TimeWindow(0, 5), [])
    assert live.add(TimeWindow(20, 25)) == (TimeWindow(20, 25), [])
    window, (merged,) = live.add(TimeWindow(5, 10))
    assert (window, merged.into, merged.sources) == (TimeWindow(0, 10), TimeWindow(0, 10), [TimeWindow(0, 5)])
    assert live.windows == [TimeWindow(0, 10), TimeWindow(20, 25)]
    # A window inside a live one changes nothing.
    assert live.add(TimeWindow(1, 4)) == (TimeWindow(0, 10), [])
    live.retire(TimeWindow(0, 10))
    assert live.windows == [TimeWindow(20, 25)]
    with pytest.raises(ValueError, match="not in list"):
        live.retire(TimeWindow(0, 10))


def test_live_windows_go_on_from_those_that_are_there() -> None:
    live = LiveWindows(EventTimeSessionWindows.with_gap(millis(5)), [TimeWindow(0, 5), TimeWindow(7, 12)])
    window, (merged,) = live.add(TimeWindow(4, 9))
    assert window == TimeWindow(0, 12)
    assert merged.sources == [TimeWindow(0, 5), TimeWindow(7, 12)]
