"""Classifies when windows fire panes, for the composable triggers that columns can follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from windrow.functions.with_pane import ResultWithPane
from windrow.panes import AccumulationMode, ClosingBehavior, OnTimeBehavior, TimestampCombiner
from windrow.plan import WindowNode
from windrow.triggers import Trigger
from windrow.triggers.composable import (
    AfterCount,
    AfterEndOfWindow,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DefaultTrigger,
    MergingAfterWatermark,
    MergingRepeatedly,
    Never,
    Repeatedly,
)
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.windows.geometry import SlicedWindows, Slices

# Any in this module: triggers of elements and windows of every type.

Condition: TypeAlias = AfterCount | AfterProcessingTime
"""What a window waits for, again and again, to fire the next pane."""


@dataclass(frozen=True, slots=True)
class Paned(SlicedWindows):
    """Windows that fire panes."""

    early: Condition | None  # before the end of a window; at all times where the end fires no pane. None: never
    late: Condition | None  # after the pane on time
    at_end: bool  # whether the end of a window fires a pane
    finishes: bool  # whether that pane is the last one: what comes later is dropped
    discards: bool
    retracts: bool
    always_on_time: bool  # whether a pane on time is fired where nothing is new
    always_closes: bool  # whether a closing pane is fired where nothing is new
    with_panes: bool  # whether results carry their pane info

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions that fire panes, beside the end of windows."""
        return tuple([each for each in (self.early, self.late) if each is not None])

    @property
    def accumulates(self) -> bool:
        return bool(self.conditions) and not self.discards

    @property
    def elements_let_panes_out(self) -> bool:
        """Returns whether an element that is on time may fire a pane by itself."""
        return isinstance(self.early, AfterCount) or (self.early is not None and not self.early.delay)

    @property
    def may_be_empty(self) -> bool:
        """Returns whether a pane may hold no element."""
        return self.discards and (self.always_on_time or self.always_closes)

    @property
    def may_close_filled(self) -> bool:
        """Returns whether a window may have a last pane when it is cleaned up after its end."""
        is_late = not (isinstance(self.late, AfterCount) and self.late.count == 1) and not self.finishes
        return bool(self.lateness) and (self.always_closes or is_late)


_REPEATED: Final = (Repeatedly, MergingRepeatedly)
_WITH_PARTS: Final = (AfterWatermark, MergingAfterWatermark)


def paned(node: WindowNode, slices: Slices) -> Paned:
    """Classifies when the windows of a step fire panes; declines a trigger that has to be asked at each element."""
    settings, trigger = node.panes, node.effective_trigger
    if node.evictor is not None:
        raise DeclinedError("an evictor sees each element")
    if settings.timestamp not in {None, TimestampCombiner.END_OF_WINDOW}:
        raise DeclinedError("the timestamps of results are those of elements")
    if slices.by_clock:
        raise DeclinedError("panes of windows in processing time are fired element by element")
    early, late, at_end, finishes = _parts(trigger)
    return Paned(
        slices,
        early,
        late,
        at_end,
        finishes,
        discards=settings.mode is AccumulationMode.DISCARDING,
        retracts=settings.mode is AccumulationMode.RETRACTING,
        always_on_time=settings.on_time is not OnTimeBehavior.FIRE_IF_NON_EMPTY,
        always_closes=settings.closing is ClosingBehavior.FIRE_ALWAYS,
        with_panes=isinstance(node.function.process, ResultWithPane),
    )


def _parts(trigger: Trigger[Any, Any]) -> tuple[Condition | None, Condition | None, bool, bool]:
    """The conditions early and late, whether the end of a window fires a pane, and whether that is the last one."""
    inner = trigger.inner if isinstance(trigger, Repeatedly) and type(trigger) in _REPEATED else None
    # Exact types: a class that is derived from one of these may do anything.
    if type(trigger) is AfterEndOfWindow:
        return None, None, True, True
    if type(trigger) is DefaultTrigger or type(inner) is AfterEndOfWindow:
        return None, AfterCount(1), True, False
    if isinstance(trigger, AfterWatermark) and type(trigger) in _WITH_PARTS:
        return _repeated(trigger.early), _repeated(trigger.late), True, trigger.late is None
    if type(trigger) is Never:
        return None, None, False, False
    if inner is not None and type(inner) in (AfterCount, AfterProcessingTime):
        return _repeated(inner), None, False, False
    raise _asked(trigger)


def _repeated(trigger: Trigger[Any, Any] | None) -> Condition | None:
    """The condition that a trigger waits for again and again; None: it never fires."""
    if isinstance(trigger, Repeatedly) and type(trigger) in _REPEATED:
        return _repeated(trigger.inner)
    if trigger is None or type(trigger) is Never:
        return None
    if type(trigger) is Always:
        return AfterCount(1)
    if isinstance(trigger, (AfterCount, AfterProcessingTime)) and type(trigger) in (AfterCount, AfterProcessingTime):
        return trigger
    raise _asked(trigger)


def _asked(trigger: Trigger[Any, Any]) -> DeclinedError:
    return DeclinedError(f"{trigger.describe()} is asked at each element")
