"""Gives the windows of a step as columns compute them, from the spec of its node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from windrow.plan import WindowNode
from windrow.plan.changing import takes_changes
from windrow.windows.spec import (
    AlignedWindows,
    AtEnd,
    CalendarSpans,
    Counts,
    CumulativeSteps,
    Declined,
    GapWindows,
    Intervals,
    Panes,
)
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.windows.calendar_slices import CalendarSlices
from windrow_spark.columnar.windows.cumulative_slices import CumulativeSlices
from windrow_spark.columnar.windows.geometry import Slices

R_co = TypeVar("R_co", bound=Counts | Intervals | Panes, covariant=True)
"""The rule by which windows fire."""

_PANES: Final = "panes are fired element by element"


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of a step; in milliseconds."""

    gap: int
    lateness: int  # how long sessions are kept after their end; MAX_TIMESTAMP: for ever
    by_clock: bool = False  # whether they are sessions of processing time


@dataclass(frozen=True, slots=True)
class RuledWindows(Generic[R_co]):
    """Windows that get elements as :class:`Slices` do, but fire by a rule."""

    slices: Slices  # the windows that the elements are in
    rule: R_co

    @property
    def lateness(self) -> int:
        """How long windows are kept after their end."""
        return self.slices.lateness

    @property
    def by_clock(self) -> bool:
        """Returns whether they go by processing time."""
        return self.slices.by_clock


Windows: TypeAlias = Slices | Sessions | RuledWindows[Counts | Intervals | Panes]


def windows_of(node: WindowNode) -> Windows:
    """Returns the windows of a step; declined where an assigner, a trigger or an evictor has to see each element."""
    spec = node.spec
    _decline_changes(node)
    rule, shape, lateness = spec.column_rule, spec.shape, spec.lateness
    if isinstance(rule, Declined):
        raise DeclinedError(rule.why)
    if isinstance(shape, GapWindows):
        assert shape.gap is not None, "dynamic gaps are declined"
        return Sessions(shape.gap, lateness, spec.by_clock)
    by_clock = rule.by_clock if isinstance(rule, Intervals) else spec.by_clock
    purges = isinstance(rule, AtEnd) and rule.purges
    if isinstance(shape, AlignedWindows):
        slices: Slices = Slices(shape.size, shape.slide, shape.offset, lateness, by_clock, purges)
    elif isinstance(shape, CalendarSpans):
        slices = CalendarSlices(shape.units, shape.slide, 0, lateness, by_clock, purges, calendar=shape.calendar)
    elif isinstance(shape, CumulativeSteps):
        step = shape.step
        slices = CumulativeSlices(step, step, shape.offset, lateness, by_clock, purges, length=shape.max_size)
    else:
        slices = Slices(0, 1, 0, 0, by_clock)
    return slices if isinstance(rule, AtEnd) else RuledWindows(slices, rule)


def windows_fired_at_end(node: WindowNode) -> Slices | Sessions:
    """Returns the windows of a step if nothing but their end, and late elements, fire them; declines others."""
    spec = node.spec
    _decline_changes(node)
    why = _PANES if spec.fires_panes else spec.why_asked
    if why is not None:
        raise DeclinedError(why)
    windows = windows_of(node)
    assert isinstance(windows, (Slices, Sessions)), "the others have triggers that are asked at each element"
    return windows


def _decline_changes(node: WindowNode) -> None:
    if takes_changes(node):
        raise DeclinedError(_PANES if node.spec.fires_panes else "withdrawn elements are taken out again")


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
    is_timed = isinstance(windows, RuledWindows) and isinstance(windows.rule, Intervals)
    return may_be_late(windows) or (is_timed and not windows.by_clock)
