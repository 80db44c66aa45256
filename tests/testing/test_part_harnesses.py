"""What the harnesses of single parts answer and refuse; tests/conformance drives triggers and assigners by them."""

from __future__ import annotations

import pytest

from tests.support.records import millis
from windrow.triggers import DeltaTrigger, EventTimeTrigger, TriggerResult, repeatedly
from windrow.windows import EventTimeSessionWindows, TimeWindow
from windrow_runtime.testing import LiveWindows, TriggerHarness

FIRST, SECOND = TimeWindow(0, 10), TimeWindow(10, 20)


def test_a_trigger_may_be_called_without_a_timer() -> None:
    harness = TriggerHarness(EventTimeTrigger.create())
    assert harness.call_on_event_time(9, FIRST) is TriggerResult.FIRE
    assert harness.call_on_event_time(8, FIRST) is TriggerResult.CONTINUE


def test_a_trigger_that_cannot_merge_is_named() -> None:
    trigger: DeltaTrigger[str] = DeltaTrigger.of(1, lambda a, b: 0.0)
    with pytest.raises(TypeError, match=r"^repeatedly\(.*\) cannot merge, because of DeltaTrigger\(1\)$"):
        TriggerHarness(repeatedly(trigger)).merge([], FIRST)
    with pytest.raises(TypeError, match=r"^DeltaTrigger\(1\) cannot merge$"):
        TriggerHarness(trigger).merge([FIRST], SECOND)


def test_a_window_that_is_not_live_cannot_be_retired() -> None:
    live = LiveWindows(EventTimeSessionWindows.with_gap(millis(5)), [TimeWindow(0, 5), TimeWindow(20, 25)])
    live.retire(TimeWindow(0, 5))
    assert live.windows == [TimeWindow(20, 25)]
    with pytest.raises(ValueError, match="not in list"):
        live.retire(TimeWindow(0, 5))
