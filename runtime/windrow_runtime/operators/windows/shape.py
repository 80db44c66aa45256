"""Classifies the windows of a step: the loops over elements and the columns are made for some shapes of windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from windrow.aggregates.facts import FilledWindow
from windrow.panes import AccumulationMode, ClosingBehavior, PaneInfo, PaneTiming, TimestampCombiner
from windrow.plan import WindowNode
from windrow.plan.changing import takes_changes
from windrow.triggers import EndOfStreamTrigger, EventTimeTrigger, MergingPurgingTrigger, PurgingTrigger, Trigger
from windrow.triggers.composable import (
    AfterCount,
    AfterEndOfWindow,
    AfterWatermark,
    ComposableTrigger,
    DefaultTrigger,
    MergingAfterWatermark,
)
from windrow.windows import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from windrow_runtime.operators.errors import DeclinedError


@dataclass(frozen=True, slots=True)
class AlignedWindows:
    """Windows of one size that begin at the same times for every key, in milliseconds."""

    size: int
    slide: int  # that of tumbling windows is their size
    offset: int
    by_clock: bool = False  # whether they are windows of processing time

    def last_start(self, timestamp: int) -> int:
        """The start of the last window that begins at or before a timestamp."""
        return timestamp - (timestamp - self.offset) % self.slide


@dataclass(frozen=True, slots=True)
class GapWindows:
    """Sessions, with their gap in milliseconds; None: each element has a gap of its own."""

    gap: int | None
    by_clock: bool = False  # whether they are sessions in processing time


@dataclass(frozen=True, slots=True)
class WindowOfAllTime:
    """The global window, which no watermark ends."""


_TUMBLING: Final = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
_PURGING: Final = (PurgingTrigger, MergingPurgingTrigger)
_SLIDING: Final = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)

ONLY_PANE: Final = PaneInfo(PaneTiming.ON_TIME, 0, 0, True, True)
"""The pane of a window that fires once."""

_AT_THE_END: Final = (EventTimeTrigger, AfterEndOfWindow, DefaultTrigger)

WindowShape: TypeAlias = AlignedWindows | GapWindows | WindowOfAllTime


def fires_once(node: WindowNode) -> bool:
    """Returns whether each window of a step fires once, when the watermark passes it, and is cleaned up with that."""
    trigger = node.effective_trigger
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) and type(trigger) in _PURGING else trigger
    return _fires_at_end(node, inner) and not node.allowed_lateness


def lets_panes_out(node: WindowNode) -> bool:
    """Returns whether the operator of panes runs a step: where results differ from those by a trigger of Flink's."""
    return _without_panes(node) is None


def trigger_of(node: WindowNode) -> Trigger[Any, Any]:
    """The trigger that operators ask: one of Flink's where results are the same, whatever was set."""
    return _without_panes(node) or node.effective_trigger


def _without_panes(node: WindowNode) -> Trigger[Any, Any] | None:
    """The trigger of Flink's with which windows have the same results as with panes; None: there is none."""
    settings, trigger = node.panes, node.effective_trigger
    if not settings.describes_panes and not isinstance(trigger, ComposableTrigger):
        return trigger
    if node.evictor is not None or settings.timestamp not in {None, TimestampCombiner.END_OF_WINDOW}:
        return None
    if fires_once(node):
        return trigger if isinstance(trigger, PurgingTrigger) else EventTimeTrigger()
    if not _fires_at_end(node, trigger) or type(trigger) is AfterEndOfWindow:
        return None
    # What is late fires the window again. A function that may look at the pane has to find it.
    sees_panes = node.function.process is not None and not isinstance(node.function.process, FilledWindow)
    if sees_panes or settings.closing is ClosingBehavior.FIRE_ALWAYS or settings.mode is AccumulationMode.RETRACTING:
        return None
    return PurgingTrigger.of(EventTimeTrigger()) if settings.mode is AccumulationMode.DISCARDING else EventTimeTrigger()


def _fires_at_end(node: WindowNode, trigger: Trigger[Any, Any]) -> bool:
    """Returns whether a trigger fires windows when the watermark passes them, and not before."""
    if not node.assigner.is_event_time or isinstance(node.assigner, GlobalWindows):
        return False
    # Exact types: a class that is derived from one of these may do anything.
    if isinstance(trigger, AfterWatermark) and type(trigger) in (AfterWatermark, MergingAfterWatermark):
        return trigger.early is None and type(trigger.late) is AfterCount and trigger.late.count == 1
    return type(trigger) in _AT_THE_END


def decline_panes(node: WindowNode) -> None:
    """Raises DeclinedError if panes or withdrawals are for operators of their own."""
    if lets_panes_out(node):
        raise DeclinedError("panes are fired element by element")
    if takes_changes(node):
        raise DeclinedError("withdrawn elements are taken out again")


def shape_of(node: WindowNode) -> WindowShape | None:
    """Returns the shape of the windows of a step, if they fire once the watermark has passed them; None for others.

    Raises DeclinedError if an evictor or a trigger has to see each element.
    """
    trigger = trigger_of(node)
    if isinstance(trigger, PurgingTrigger) and type(trigger) in _PURGING and not node.allowed_lateness:
        # Without lateness a window is cleaned up when its end fires it.
        trigger = trigger.inner if type(trigger.inner) is EventTimeTrigger else trigger
    decline_panes(node)
    # Exact types: a class that is derived from one of these may do anything.
    if node.evictor is not None:
        raise DeclinedError("an evictor sees each element")
    if type(trigger) is not (EndOfStreamTrigger if type(node.assigner) is GlobalWindows else EventTimeTrigger):
        raise DeclinedError(f"{trigger.describe()} is asked at each element")
    shape = shape_assigned(node)
    return None if isinstance(shape, (AlignedWindows, GapWindows)) and shape.by_clock else shape


def shape_assigned(node: WindowNode) -> WindowShape | None:
    """Returns the shape of the windows of a step, without a look at what fires them; None for others."""
    assigner = node.assigner
    if type(assigner) is GlobalWindows:
        return WindowOfAllTime()
    if type(assigner) is EventTimeSessionWindows:
        return GapWindows(assigner.gap)
    if type(assigner) is ProcessingTimeSessionWindows:
        return GapWindows(assigner.gap, by_clock=True)
    if type(assigner) is DynamicEventTimeSessionWindows:
        return GapWindows(None)
    by_clock = not assigner.is_event_time
    if isinstance(assigner, _TUMBLING) and type(assigner) in _TUMBLING and assigner.stagger is WindowStagger.ALIGNED:
        return AlignedWindows(assigner.size, assigner.size, assigner.offset, by_clock)
    if isinstance(assigner, _SLIDING) and type(assigner) in _SLIDING:
        return AlignedWindows(assigner.size, assigner.slide, assigner.offset, by_clock)
    return None
