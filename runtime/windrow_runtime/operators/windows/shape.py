"""Classifies the windows of a step: the loops over elements and the columns are made for some shapes of windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windrow.plan import WindowNode
from windrow.triggers import EndOfStreamTrigger, EventTimeTrigger
from windrow.windows import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowStagger,
)
from windrow_runtime.operators.errors import DeclinedError


@dataclass(frozen=True, slots=True)
class AlignedWindows:
    """Windows of one size in event time that begin at the same times for every key, in milliseconds."""

    size: int
    slide: int  # that of tumbling windows is their size
    offset: int

    def last_start(self, timestamp: int) -> int:
        """The start of the last window that begins at or before a timestamp."""
        return timestamp - (timestamp - self.offset) % self.slide


@dataclass(frozen=True, slots=True)
class GapWindows:
    """Sessions in event time, with their gap in milliseconds; None: each element has a gap of its own."""

    gap: int | None


@dataclass(frozen=True, slots=True)
class WindowOfAllTime:
    """The global window, which no watermark ends."""


WindowShape: TypeAlias = AlignedWindows | GapWindows | WindowOfAllTime


def shape_of(node: WindowNode) -> WindowShape | None:
    """Returns the shape of the windows of a step, if they fire once the watermark has passed them; None for others.

    Raises DeclinedError if an evictor or a trigger has to see each element.
    """
    trigger = node.effective_trigger
    # Exact types: a class that is derived from one of these may do anything.
    if node.evictor is not None:
        raise DeclinedError("an evictor sees each element")
    if type(trigger) is not (EndOfStreamTrigger if type(node.assigner) is GlobalWindows else EventTimeTrigger):
        raise DeclinedError(f"{trigger.describe()} is asked at each element")
    return shape_assigned(node)


def shape_assigned(node: WindowNode) -> WindowShape | None:
    """Returns the shape of the windows of a step, whatever fires them; None for others."""
    assigner = node.assigner
    if type(assigner) is GlobalWindows:
        return WindowOfAllTime()
    if type(assigner) is EventTimeSessionWindows:
        return GapWindows(assigner.gap)
    if type(assigner) is DynamicEventTimeSessionWindows:
        return GapWindows(None)
    if type(assigner) is TumblingEventTimeWindows and assigner.stagger is WindowStagger.ALIGNED:
        return AlignedWindows(assigner.size, assigner.size, assigner.offset)
    if type(assigner) is SlidingEventTimeWindows:
        return AlignedWindows(assigner.size, assigner.slide, assigner.offset)
    return None
