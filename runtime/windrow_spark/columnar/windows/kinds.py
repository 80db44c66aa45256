"""Classifies how the windows of a step fire on columns: at their end, at intervals, by counting, or as panes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any, TypeAlias

from windrow.evictors import CountEvictor
from windrow.plan import WindowNode
from windrow.plan.changing import takes_changes
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    MergingPurgingTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.windows.shape import (
    AlignedWindows,
    GapWindows,
    WindowOfAllTime,
    WindowShape,
    decline_panes,
    lets_panes_out,
    shape_assigned,
    shape_of,
    trigger_of,
)
from windrow_spark.columnar.windows.geometry import FARTHEST, SlicedWindows, Slices
from windrow_spark.columnar.windows.pane_rules import Paned, paned

# Any in this module: triggers of elements and windows of every type.


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of a step; in milliseconds."""

    gap: int
    lateness: int  # how long sessions are kept after their end; MAX_TIMESTAMP: for ever
    by_clock: bool = False  # whether they are sessions of processing time


@dataclass(frozen=True, slots=True)
class Counted(SlicedWindows):
    """Windows that fire whenever a fixed number of elements has come to them; those of all time make count windows."""

    every: int  # how many elements come to a window between two firings
    size: int | None  # how many of its last elements a firing takes; None: all

    @property
    def run_length(self) -> int:
        """The number of elements that are aggregated together: firings begin and end where such runs do."""
        return self.every if self.size is None else gcd(self.every, self.size)

    @property
    def runs_each(self) -> int:
        """The number of runs that a firing takes; one that takes all elements has them in one."""
        return 1 if self.size is None else self.size // self.run_length

    @property
    def accumulates(self) -> bool:
        return self.size is None


@dataclass(frozen=True, slots=True)
class Timed(SlicedWindows):
    """Windows that fire at their end, and at every interval before it."""

    interval: int | None  # in milliseconds; None: they fire at their end alone
    purges: bool  # whether a firing drops the contents


Windows: TypeAlias = Slices | Sessions | Counted | Timed | Paned


def assigned_slices(windows: Windows) -> Slices | None:
    """The windows that elements are assigned to; None: sessions."""
    if isinstance(windows, Sessions):
        return None
    return windows if isinstance(windows, Slices) else windows.slices


def may_be_late(windows: Windows) -> bool:
    """Returns whether elements are late by their timestamps."""
    slices = assigned_slices(windows)
    return not (windows.by_clock or (slices is not None and slices.is_global))


def needs_timestamps(windows: Windows) -> bool:
    """Returns whether the timestamps of elements decide which windows they are in, or when these fire."""
    return may_be_late(windows) or (isinstance(windows, Timed) and not windows.slices.by_clock)


def windows_of(node: WindowNode) -> Windows:
    """Classifies the windows of a step; declines an assigner, a trigger or an evictor that has to see each element."""
    if lets_panes_out(node) and not takes_changes(node):
        slices = _assigned(node, shape_assigned(node))
        if isinstance(slices, Sessions):
            raise DeclinedError("sessions fire panes, and may merge at each element")
        return paned(node, slices)
    decline_panes(node)
    trigger = trigger_of(node)
    purges = type(trigger) in (PurgingTrigger, MergingPurgingTrigger)
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) and purges else trigger
    # Exact types: a class that is derived from one of these may do anything.
    if type(inner) is CountTrigger and (node.evictor is None or type(node.evictor) is CountEvictor):
        return _counted(node, inner.max_count, purges=purges)
    if node.evictor is None and type(inner) in _TIMED:
        return _timed(node, inner, purges=purges)
    if node.evictor is None and type(inner) is EventTimeTrigger and purges and node.allowed_lateness:
        windows = _assigned(node, shape_assigned(node))
        if isinstance(windows, Slices) and not (windows.is_global or windows.by_clock):
            return replace(windows, purges=True)
    return _assigned(node, shape_of(node))


_TIMED = (ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger, ProcessingTimeTrigger)


def _counted(node: WindowNode, every: int, *, purges: bool) -> Counted:
    slices = _assigned(node, shape_assigned(node))
    if isinstance(slices, Sessions):
        raise DeclinedError("sessions that count their elements may merge at each of them")
    size = every if purges else None
    if node.evictor is not None:
        assert isinstance(node.evictor, CountEvictor), "no other one is counted"
        size = node.evictor.max_count
        if node.evictor.do_evict_after:
            # What is left after a firing is there at the next one, with the elements that came since.
            size += every
        size = min(size, every) if purges else size
        if not size:
            raise DeclinedError("the evictor leaves no element")
    return Counted(slices, every, size)


def _timed(node: WindowNode, trigger: Trigger[Any, Any], *, purges: bool) -> Timed | Sessions:
    slices = _assigned(node, shape_assigned(node))
    if isinstance(slices, Sessions):
        if slices.by_clock and isinstance(trigger, ProcessingTimeTrigger):
            # Such sessions are cleaned up when their end fires them.
            return slices
        raise DeclinedError(f"{trigger.describe()} is asked where sessions merge")
    continuous = (ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger)
    interval = trigger.interval if isinstance(trigger, continuous) else None
    by_clock = trigger.uses_processing_time
    if slices.is_global and interval is not None:
        return Timed(replace(slices, by_clock=by_clock), interval, purges)
    if slices.is_global or slices.by_clock != by_clock:
        raise DeclinedError(f"{trigger.describe()} goes by another time than the windows")
    if interval is not None and slices.windows_each > 1:
        if slices.lateness:
            raise DeclinedError("a late element fires some of its windows at once, and others at intervals")
        # The timer for the end is set with the first element, and that of an interval at the firing before.
        if (slices.offset + slices.size - 1) % gcd(slices.slide, interval) == 0:
            raise DeclinedError("windows that slide may end when others fire at intervals")
    return Timed(slices, interval, purges)


def _assigned(node: WindowNode, shape: WindowShape | None) -> Slices | Sessions:
    """The windows that elements are assigned to."""
    lateness = node.allowed_lateness or 0
    if isinstance(shape, WindowOfAllTime):
        return Slices(0, 1, 0, 0)
    if isinstance(shape, GapWindows) and shape.gap is not None:
        if shape.gap > FARTHEST:
            raise DeclinedError("the gap is too long for columns")
        return Sessions(shape.gap, lateness, shape.by_clock)
    if not isinstance(shape, AlignedWindows):
        raise DeclinedError(f"{node.assigner.describe()} has no form on columns")
    if shape.slide > shape.size:
        # Whether an element between two windows is late depends on its own timestamp.
        raise DeclinedError("there are gaps between windows")
    if shape.size > FARTHEST:
        raise DeclinedError("windows are too large for columns")
    return Slices(shape.size, shape.slide, shape.offset, lateness, shape.by_clock)
