"""Tells which windows may end, or wait at the end of the stream, with elements that their trigger has not fired."""

from __future__ import annotations

from typing import Any, Final

from windrow.panes.settings import PaneSettings
from windrow.triggers import (
    ComposableTrigger,
    ContinuousEventTimeTrigger,
    CountOrEndOfStreamTrigger,
    EndOfStreamTrigger,
    EventTimeoutTrigger,
    EventTimeTrigger,
    MergingEventTimeoutTrigger,
    MergingPurgingTrigger,
    PurgingTrigger,
    Trigger,
)
from windrow.windows.assigner import WindowAssigner
from windrow.windows.global_windows import GlobalWindows

__all__ = ["UNFIRED", "may_leave_unfired"]

UNFIRED: Final = "unfired_window_records_dropped"
"""The counter of elements that were in no firing of their window when it ended, or when the stream did."""

# Exact types: a class that is derived from one of these may do anything.
_AT_END_OF_WINDOW: Final = (EventTimeTrigger, ContinuousEventTimeTrigger)
_AT_TIMEOUT: Final = (EventTimeoutTrigger, MergingEventTimeoutTrigger)
_AT_END_OF_STREAM: Final = (EndOfStreamTrigger, ContinuousEventTimeTrigger, CountOrEndOfStreamTrigger)


# Any: triggers and assigners of elements of every type.
def may_leave_unfired(assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any], panes: PaneSettings) -> bool:
    """Returns whether windows may end, or the stream, with elements that no firing has output.

    Windows of processing time are not at their end when the stream is: their elements wait for a time that does not
    come. Other windows whose panes are counted output in a last pane what is left.
    """
    is_global = isinstance(assigner, GlobalWindows)
    if not is_global and not assigner.is_event_time:
        return True
    if panes.describes_panes or isinstance(trigger, ComposableTrigger):
        return False
    if isinstance(trigger, PurgingTrigger) and type(trigger) in (PurgingTrigger, MergingPurgingTrigger):
        trigger = trigger.inner
    if isinstance(trigger, EventTimeoutTrigger) and type(trigger) in _AT_TIMEOUT:
        # An element that the inner trigger does not fire waits for a timeout, or for the end of the window.
        return is_global and not trigger.should_clear_on_timeout
    if is_global:
        return type(trigger) not in _AT_END_OF_STREAM
    return type(trigger) not in _AT_END_OF_WINDOW
