"""Classifies the windows of a step, for all engines: their shape, what fires them, and how columns may run them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any, Final, TypeAlias

from windrow.aggregates.facts import FilledWindow
from windrow.evictors import CountEvictor, Evictor
from windrow.functions import ProcessWindowFunction
from windrow.functions.plain import sees_cleanups
from windrow.functions.with_pane import ResultWithPane
from windrow.panes import AccumulationMode, ClosingBehavior, OnTimeBehavior, TimestampCombiner
from windrow.panes.settings import PaneSettings
from windrow.triggers import (
    ComposableTrigger,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountOrEndOfStreamTrigger,
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeoutTrigger,
    EventTimeTrigger,
    Finish,
    MergingEventTimeoutTrigger,
    MergingProcessingTimeoutTrigger,
    MergingPurgingTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    StateCleaningCountTrigger,
    Trigger,
)
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
from windrow.triggers.trigger import with_parts
from windrow.windows import (
    CalendarWindows,
    CumulativeEventTimeWindows,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from windrow.windows.calendar_cuts import Calendar

# Any throughout this module: triggers of elements and windows of every type.

UNFIRED: Final = "unfired_window_records_dropped"
"""The counter of elements that were in no firing of their window when it ended, or when the stream did."""

FARTHEST: Final = 1 << 61
"""Timestamps and sizes up to here, in milliseconds, can be added without leaving 64 bits: 73 million years."""


@dataclass(frozen=True, slots=True)
class AlignedWindows:
    """Windows of one size that begin at the same times for every key, in milliseconds."""

    size: int
    slide: int  # that of tumbling windows is their size
    offset: int

    @property
    def overlaps(self) -> bool:
        """Whether a timestamp may be in several windows."""
        return self.slide < self.size

    def last_start(self, timestamp: int) -> int:
        """The start of the last window that begins at or before a timestamp."""
        return timestamp - (timestamp - self.offset) % self.slide


@dataclass(frozen=True, slots=True)
class CalendarSpans:
    """Windows of units of a calendar, such as days of a time zone, which begin at the same times for every key."""

    calendar: Calendar
    units: int  # how many units a window has
    slide: int  # how many units after one window the next one begins

    @property
    def overlaps(self) -> bool:
        """Whether a timestamp may be in several windows."""
        return self.slide < self.units


@dataclass(frozen=True, slots=True)
class CumulativeSteps:
    """Windows that begin together and grow by a step, at the same times for every key, in milliseconds."""

    max_size: int
    step: int
    offset: int

    @property
    def overlaps(self) -> bool:
        """Whether a timestamp may be in several windows."""
        return self.step < self.max_size


@dataclass(frozen=True, slots=True)
class GapWindows:
    """Sessions, with their gap in milliseconds; None: each element has a gap of its own."""

    gap: int | None


@dataclass(frozen=True, slots=True)
class WindowOfAllTime:
    """The global window, which no watermark ends."""


WindowShape: TypeAlias = AlignedWindows | CalendarSpans | CumulativeSteps | GapWindows | WindowOfAllTime

Condition: TypeAlias = AfterCount | AfterProcessingTime
"""What a window waits for, again and again, to fire the next pane."""


@dataclass(frozen=True, slots=True)
class AtEnd:
    """Windows fire when the watermark passes them, and then for each element that is late and allowed."""

    purges: bool = False  # whether their end drops what they hold; a late element then fires them with itself alone


@dataclass(frozen=True, slots=True)
class Counts:
    """Windows fire whenever a fixed number of elements has come to them; those of all time make count windows."""

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
        """Whether one batch may fire a window several times, each time with all elements up to then."""
        return self.size is None


@dataclass(frozen=True, slots=True)
class Intervals:
    """Windows fire at their end, and at every interval before it."""

    interval: int | None  # in milliseconds; None: they fire at their end alone
    purges: bool  # whether a firing drops the contents
    by_clock: bool  # whether processing time fires them

    @property
    def accumulates(self) -> bool:
        """Whether one batch may fire a window several times, each time with all elements up to then."""
        return False


@dataclass(frozen=True, slots=True)
class Panes:
    """Windows fire panes."""

    early: Condition | None  # before the end of a window; at all times where the end fires no pane. None: never
    late: Condition | None  # after the on-time pane; None: never
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
        """Whether one batch may fire a window several times, each time with all elements up to then."""
        return bool(self.conditions) and not self.discards

    @property
    def elements_fire_panes(self) -> bool:
        """Whether an element that is on time may fire a pane by itself."""
        return isinstance(self.early, AfterCount) or (self.early is not None and not self.early.delay)

    @property
    def may_be_empty(self) -> bool:
        """Whether a pane may hold no element."""
        return self.discards and (self.always_on_time or self.always_closes)

    @property
    def may_close_filled(self) -> bool:
        """Whether a window that is kept after its end may have a last pane when it is cleaned up."""
        return self.always_closes or not (self.finishes or (isinstance(self.late, AfterCount) and self.late.count == 1))


FiringRule: TypeAlias = AtEnd | Counts | Intervals | Panes


@dataclass(frozen=True, slots=True)
class Declined:
    """Says why columns cannot run windows, in a few words for ``explain()``."""

    why: str


# Columns and fast loops ask for exact types: a class that is derived from one of these may do anything.
_TUMBLING: Final = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
_SLIDING: Final = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)
_SESSIONS: Final = (EventTimeSessionWindows, ProcessingTimeSessionWindows)
_PURGING: Final = (PurgingTrigger, MergingPurgingTrigger)
_AT_THE_END: Final = (EventTimeTrigger, AfterEndOfWindow, DefaultTrigger)
_CONTINUOUS: Final = (ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger)
_FIRING_OFTEN: Final = (CountTrigger, CountOrEndOfStreamTrigger, DeltaTrigger, *_CONTINUOUS)
_FIRING_ONCE: Final = (EndOfStreamTrigger, NeverTrigger)
_AT_TIMEOUT: Final = (EventTimeoutTrigger, MergingEventTimeoutTrigger)
_AT_TIMEOUT_OF_CLOCK: Final = (ProcessingTimeoutTrigger, MergingProcessingTimeoutTrigger)
_REPEATED: Final = (Repeatedly, MergingRepeatedly)
_WITH_PARTS: Final = (AfterWatermark, MergingAfterWatermark)
_FIRING_ALL_AT_END_OF_WINDOW: Final = (EventTimeTrigger, ContinuousEventTimeTrigger)
_FIRING_ALL_AT_END_OF_STREAM: Final = (EndOfStreamTrigger, ContinuousEventTimeTrigger, CountOrEndOfStreamTrigger)


@dataclass(frozen=True, eq=False)
class WindowSpec:
    """The windows of a step, and what fires them.

    Attributes:
        assigner: Assigns elements to windows.
        trigger: The trigger that was set, or that of the assigner.
        evictor: Removes elements; None, they stay.
        panes: What the calls about panes have set.
        lateness: How long windows are kept after their end, in milliseconds.
        process: The function of the window; None where there is none.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    evictor: Evictor[Any, Any] | None
    panes: PaneSettings
    lateness: int
    process: ProcessWindowFunction[Any, Any, Any, Any] | None

    @cached_property
    def shape(self) -> WindowShape | None:
        """The shape of the windows; None for others."""
        assigner = self.assigner
        if type(assigner) is GlobalWindows:
            return WindowOfAllTime()
        if isinstance(assigner, _SESSIONS) and type(assigner) in _SESSIONS:
            return GapWindows(assigner.gap)
        if type(assigner) is DynamicEventTimeSessionWindows:
            return GapWindows(None)
        if isinstance(assigner, _TUMBLING) and type(assigner) in _TUMBLING:
            is_aligned = assigner.stagger is WindowStagger.ALIGNED
            return AlignedWindows(assigner.size, assigner.size, assigner.offset) if is_aligned else None
        if isinstance(assigner, _SLIDING) and type(assigner) in _SLIDING:
            return AlignedWindows(assigner.size, assigner.slide, assigner.offset)
        if type(assigner) is CalendarWindows:
            return CalendarSpans(assigner.calendar, assigner.units, assigner.slide_units)
        if type(assigner) is CumulativeEventTimeWindows:
            return CumulativeSteps(assigner.max_size, assigner.step, assigner.offset)
        return None

    @property
    def is_global(self) -> bool:
        """Whether there is one window, which no time ends."""
        return isinstance(self.assigner, GlobalWindows)

    @property
    def by_clock(self) -> bool:
        """Whether windows end in processing time."""
        return not (self.assigner.is_event_time or self.is_global)

    @cached_property
    def fires_once(self) -> bool:
        """Whether each window fires once, when the watermark passes it, and is cleaned up with that."""
        return not self.lateness and self._fires_at_end(_inside(self.trigger))

    @property
    def distinct_bounds(self) -> frozenset[str]:
        """The facts of a window of which each tells all windows of a key apart; none where the shape is not known."""
        shape = self.shape
        if isinstance(shape, CumulativeSteps):
            return frozenset({"window_end"})
        if isinstance(shape, CalendarSpans) and shape.slide < shape.units and shape.calendar.leaves_out_units:
            return frozenset(
                {"window_start"}
            )  # windows that end with a day that does not exist end with the one before
        return frozenset({"window_start", "window_end"})

    @property
    def fires_panes(self) -> bool:
        """Whether results differ from those by a trigger of Flink's: the operator of panes runs the step."""
        return self._plain_trigger is None

    @property
    def asked_trigger(self) -> Trigger[Any, Any]:
        """The trigger that operators ask: one of Flink's where results are the same, whatever was set."""
        return self._plain_trigger or self.trigger

    @property
    def may_leave_unfired(self) -> bool:
        """Whether windows may end, or wait at the end of the stream, with elements that no firing has output.

        Windows of processing time are not at their end when the stream is: their elements wait for a time that does
        not come. Other windows whose panes are counted output in a last pane what is left.
        """
        if self.by_clock:
            return True
        if self._describes_panes:
            return False
        trigger = _inside(self.trigger)
        if isinstance(trigger, EventTimeoutTrigger) and type(trigger) in _AT_TIMEOUT:
            # An element that the inner trigger does not fire waits for a timeout, or for the end of the window.
            return self.is_global and not trigger.should_clear_on_timeout
        while isinstance(trigger, ProcessingTimeoutTrigger) and type(trigger) in _AT_TIMEOUT_OF_CLOCK:
            trigger = _inside(trigger.inner)  # a timer of the inner trigger makes it fire
        firing_all = _FIRING_ALL_AT_END_OF_STREAM if self.is_global else _FIRING_ALL_AT_END_OF_WINDOW
        return type(trigger) not in firing_all

    @property
    def repeats_elements(self) -> bool:
        """Whether a window may fire several panes, each with the elements of the ones before."""
        trigger = self.trigger
        if self.panes.mode not in {None, AccumulationMode.ACCUMULATING} or self.evictor is not None:
            return False
        if any(isinstance(part, PurgingTrigger) for part in with_parts(trigger)):
            return False
        if isinstance(trigger, ComposableTrigger):
            return _fires_early(trigger) or (bool(self.lateness) and trigger.finish is Finish.NEVER)
        if isinstance(trigger, (EventTimeoutTrigger, ProcessingTimeoutTrigger)):
            return not trigger.should_clear_on_timeout
        return type(trigger) in _FIRING_OFTEN or (type(trigger) is EventTimeTrigger and bool(self.lateness))

    @property
    def leaves_results(self) -> bool:
        """Whether a window may fire again, and then leaves the result of the firing before without withdrawing it.

        A trigger of a user's may fire at any time.
        """
        trigger = _inside(self.trigger)
        if self.panes.mode is AccumulationMode.RETRACTING or self.fires_once:
            return False
        if isinstance(trigger, ComposableTrigger):
            return _fires_early(trigger) or (bool(self.lateness) and trigger.finish is Finish.NEVER)
        return type(trigger) not in _FIRING_ONCE

    @property
    def drops_what_fired(self) -> bool:
        """Whether windows drop elements that they have output, and take others afterwards."""
        trigger = self.trigger
        purges = any(isinstance(part, (PurgingTrigger, StateCleaningCountTrigger)) for part in with_parts(trigger))
        if not purges and self.panes.mode is not AccumulationMode.DISCARDING:
            return False
        inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
        return bool(self.lateness) or not isinstance(inner, _AT_THE_END)

    @property
    def why_asked(self) -> str | None:
        """Says why the general operator runs the windows element by element; None: nothing but their end fires them."""
        trigger = self.asked_trigger
        if not self.lateness and type(_inside(trigger)) is EventTimeTrigger:
            # Without lateness a window is cleaned up when its end fires it.
            trigger = _inside(trigger)
        if self.evictor is not None:
            return "an evictor sees each element"
        at_end = EndOfStreamTrigger if type(self.assigner) is GlobalWindows else EventTimeTrigger
        if type(trigger) is not at_end:
            return _asked(trigger).why
        if self.lateness and self.process is not None and sees_cleanups(self.process):
            # It may see which of two timers of one time came first: a clean-up, or the end of another window.
            return "clear of the function runs between the firings of other windows"
        return None

    @cached_property
    def column_rule(self) -> FiringRule | Declined:
        """The rule by which columns fire the windows, or why they cannot."""
        trigger, evictor = _inside(self.asked_trigger), self.evictor
        if isinstance(self.shape, CumulativeSteps) and (self.fires_panes or type(trigger) is not EventTimeTrigger):
            return Declined("windows that begin together are fired by more than their ends")
        if self.fires_panes:
            return self._declined_shape or self._panes
        purges = trigger is not self.asked_trigger
        if type(trigger) is CountTrigger and (evictor is None or type(evictor) is CountEvictor):
            return self._declined_shape or self._counts(trigger.max_count, purges=purges)
        if evictor is None and type(trigger) in (*_CONTINUOUS, ProcessingTimeTrigger):
            return self._declined_shape or self._intervals(trigger, purges=purges)
        if evictor is None and type(trigger) is EventTimeTrigger and purges and self.lateness:
            if self._declined_shape is not None:
                return self._declined_shape
            if isinstance(self.shape, (AlignedWindows, CalendarSpans, CumulativeSteps)) and not self.by_clock:
                return AtEnd(purges=True)
        if self.why_asked is not None:
            return Declined(self.why_asked)
        return self._no_form if self.by_clock else self._declined_shape or AtEnd()

    # What these properties are computed from

    @property
    def _describes_panes(self) -> bool:
        return self.panes.describes_panes or isinstance(self.trigger, ComposableTrigger)

    @cached_property
    def _plain_trigger(self) -> Trigger[Any, Any] | None:
        """The trigger of Flink's with which windows have the same results as with panes; None: there is none."""
        settings, trigger = self.panes, self.trigger
        if not self._describes_panes:
            return trigger
        if self.evictor is not None or settings.timestamp not in {None, TimestampCombiner.END_OF_WINDOW}:
            return None
        if self.fires_once:
            return trigger if isinstance(trigger, PurgingTrigger) else EventTimeTrigger()
        if not self._fires_at_end(trigger) or type(trigger) is AfterEndOfWindow:
            return None
        # What is late fires the window again. A function that may look at the pane has to find it.
        sees_panes = self.process is not None and not isinstance(self.process, FilledWindow)
        if sees_panes or settings.closing is ClosingBehavior.FIRE_ALWAYS:
            return None
        if settings.mode is AccumulationMode.RETRACTING:
            return None
        discards = settings.mode is AccumulationMode.DISCARDING
        return PurgingTrigger.of(EventTimeTrigger()) if discards else EventTimeTrigger()

    def _fires_at_end(self, trigger: Trigger[Any, Any]) -> bool:
        """Returns whether a trigger fires windows when the watermark passes them, and not before."""
        if not self.assigner.is_event_time or self.is_global:
            return False
        if isinstance(trigger, AfterWatermark) and type(trigger) in _WITH_PARTS:
            return trigger.early is None and type(trigger.late) is AfterCount and trigger.late.count == 1
        return type(trigger) in _AT_THE_END

    @property
    def _no_form(self) -> Declined:
        return Declined(f"{self.assigner.describe()} has no form on columns")

    @property
    def _declined_shape(self) -> Declined | None:
        """Says why columns cannot assign elements to windows of the shape; None: they can."""
        shape = self.shape
        if shape is None or (isinstance(shape, GapWindows) and shape.gap is None):
            return self._no_form
        if isinstance(shape, GapWindows):
            return Declined("the gap is too long for columns") if (shape.gap or 0) > FARTHEST else None
        if isinstance(shape, CalendarSpans) and shape.slide < shape.units and shape.calendar.leaves_out_units:
            return Declined("windows end together where the zone left out a day")
        if isinstance(shape, (WindowOfAllTime, CalendarSpans)):
            return None
        if isinstance(shape, CumulativeSteps):
            return Declined("windows are too large for columns") if shape.max_size > FARTHEST else None
        if shape.slide > shape.size:
            # Whether an element between two windows is late depends on its own timestamp.
            return Declined("there are gaps between windows")
        return Declined("windows are too large for columns") if shape.size > FARTHEST else None

    def _counts(self, every: int, *, purges: bool) -> Counts | Declined:
        if isinstance(self.shape, GapWindows):
            return Declined("sessions that count their elements may merge at each of them")
        size = every if purges else None
        if isinstance(self.evictor, CountEvictor):
            size = self.evictor.max_count
            if self.evictor.do_evict_after:
                # What is left after a firing is there at the next one, with the elements that came since.
                size += every
            size = min(size, every) if purges else size
            if not size:
                return Declined("the evictor leaves no element")
        return Counts(every, size)

    def _intervals(self, trigger: Trigger[Any, Any], *, purges: bool) -> AtEnd | Intervals | Declined:
        shape, by_clock = self.shape, trigger.uses_processing_time
        if isinstance(shape, GapWindows):
            if self.by_clock and isinstance(trigger, ProcessingTimeTrigger):
                # Such sessions are cleaned up when their end fires them.
                return AtEnd()
            return Declined(f"{trigger.describe()} is asked where sessions merge")
        interval = trigger.interval if isinstance(trigger, _CONTINUOUS) else None
        rule = Intervals(interval, purges, by_clock)
        if isinstance(shape, WindowOfAllTime) and interval is not None:
            return rule
        if not isinstance(shape, (AlignedWindows, CalendarSpans)) or self.by_clock != by_clock:
            return Declined(f"{trigger.describe()} goes by another time than the windows")
        if isinstance(shape, CalendarSpans):
            is_sliding = interval is not None and shape.slide < shape.units
            return Declined("windows that slide may end when others fire at intervals") if is_sliding else rule
        if interval is not None and shape.slide < shape.size:
            if self.lateness:
                return Declined("a late element fires some of its windows at once, and others at intervals")
            # The timer for the end is set with the first element, and that of an interval at the firing before.
            if (shape.offset + shape.size - 1) % gcd(shape.slide, interval) == 0:
                return Declined("windows that slide may end when others fire at intervals")
        return rule

    @property
    def _panes(self) -> Panes | Declined:
        settings = self.panes
        if isinstance(self.shape, GapWindows):
            return Declined("sessions fire panes, and may merge at each element")
        if self.evictor is not None:
            return Declined("an evictor sees each element")
        if settings.timestamp not in {None, TimestampCombiner.END_OF_WINDOW}:
            return Declined("the timestamps of results are those of elements")
        if self.by_clock:
            return Declined("panes of windows in processing time are fired element by element")
        times = _pane_times(self.trigger)
        if isinstance(times, Declined):
            return times
        return Panes(
            *times,
            discards=settings.mode is AccumulationMode.DISCARDING,
            retracts=settings.mode is AccumulationMode.RETRACTING,
            always_on_time=settings.on_time is not OnTimeBehavior.FIRE_IF_NON_EMPTY,
            always_closes=settings.closing is ClosingBehavior.FIRE_ALWAYS,
            with_panes=isinstance(self.process, ResultWithPane),
        )


def _fires_early(trigger: ComposableTrigger[Any, Any]) -> bool:
    """Returns whether a trigger may fire while the window is open, and go on."""
    return trigger.earliest_firing is Finish.ANY_TIME and trigger.finish is not Finish.ANY_TIME


def _inside(trigger: Trigger[Any, Any]) -> Trigger[Any, Any]:
    """The trigger inside of a purging one; another trigger is itself."""
    return trigger.inner if isinstance(trigger, PurgingTrigger) and type(trigger) in _PURGING else trigger


def _pane_times(trigger: Trigger[Any, Any]) -> tuple[Condition | None, Condition | None, bool, bool] | Declined:
    """The conditions early and late, whether the end of a window fires a pane, and whether that is the last one."""
    inner = trigger.inner if isinstance(trigger, Repeatedly) and type(trigger) in _REPEATED else None
    if type(trigger) is AfterEndOfWindow:
        return None, None, True, True
    if type(trigger) is DefaultTrigger or type(inner) is AfterEndOfWindow:
        return None, AfterCount(1), True, False
    if isinstance(trigger, AfterWatermark) and type(trigger) in _WITH_PARTS:
        early, late = _repeated(trigger.early), _repeated(trigger.late)
        if isinstance(early, Declined):
            return early
        return late if isinstance(late, Declined) else (early, late, True, trigger.late is None)
    if type(trigger) is Never:
        return None, None, False, False
    if isinstance(inner, (AfterCount, AfterProcessingTime)) and type(inner) in (AfterCount, AfterProcessingTime):
        return inner, None, False, False
    return _asked(trigger)


def _repeated(trigger: Trigger[Any, Any] | None) -> Condition | Declined | None:
    """The condition that a trigger waits for again and again; None: it never fires."""
    if isinstance(trigger, Repeatedly) and type(trigger) in _REPEATED:
        return _repeated(trigger.inner)
    if trigger is None or type(trigger) is Never:
        return None
    if type(trigger) is Always:
        return AfterCount(1)
    if isinstance(trigger, (AfterCount, AfterProcessingTime)) and type(trigger) in (AfterCount, AfterProcessingTime):
        return trigger
    return _asked(trigger)


def _asked(trigger: Trigger[Any, Any]) -> Declined:
    return Declined(f"{trigger.describe()} is asked at each element")
