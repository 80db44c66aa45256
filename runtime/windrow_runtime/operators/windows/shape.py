"""Classifies the windows of a step: the loops over elements and the columns are made for some shapes of windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from windrow.plan import WindowNode
from windrow.triggers import EndOfStreamTrigger, EventTimeTrigger, MergingPurgingTrigger, PurgingTrigger
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

WindowShape: TypeAlias = AlignedWindows | GapWindows | WindowOfAllTime


def shape_of(node: WindowNode) -> WindowShape | None:
    """Returns the shape of the windows of a step, if they fire once the watermark has passed them; None for others.

    Raises DeclinedError if an evictor or a trigger has to see each element.
    """
    trigger = node.effective_trigger
    if isinstance(trigger, PurgingTrigger) and type(trigger) in _PURGING and not node.allowed_lateness:
        # Without lateness a window is cleaned up when its end fires it.
        trigger = trigger.inner if type(trigger.inner) is EventTimeTrigger else trigger
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
