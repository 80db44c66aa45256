"""Keeps a journal of a step of windows: what came into each window, and what fired it, when and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

from windrow.failures import ErrorPolicy
from windrow.functions.marked import without_mark
from windrow.panes import ChangeKind, PaneInfo
from windrow.plan import Step, WindowNode
from windrow.triggers import TriggerResult
from windrow.windows import MergingWindowAssigner
from windrow_runtime.local.event_recorder import EventRecorder, StepRecorder
from windrow_runtime.operators.changes import kind_of, value_of
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.recording import (
    RecordedElement,
    RecordedPane,
    RecordedWatermark,
    Recording,
    StepRecording,
)
from windrow_runtime.operators.state.model import WindowEntry
from windrow_runtime.operators.windows.general import WindowOperator

# Any in this module: elements and windows of every type.


class Cause(Enum):
    """What made a step ask the trigger of a window."""

    ELEMENT = "an element"
    EVENT_TIMER = "a timer that waited for the watermark"
    PROCESSING_TIMER = "a timer that waited for the clock"


@dataclass(frozen=True)
class Moment:
    """A moment of a step, as it takes an element or a timer.

    Attributes:
        cause: What it takes.
        timer: The time of the timer, in milliseconds; None for an element.
        element: The number of the last element that has come to the step, from 1; that of the element, if it takes one.
        watermark: The watermark.
        clock: The clock.
        closes: Whether the timer is the one at which the window is cleaned up.
    """

    cause: Cause
    timer: int | None
    element: int
    watermark: int
    clock: int
    closes: bool = False


@dataclass(frozen=True)
class Firing:
    """One evaluation of a window.

    Attributes:
        at: When it fired.
        answer: What the trigger answered; None for what is fired at the cleanup of the window without it.
        trigger: The state of the trigger in words, just before the window fired.
        pane: The pane, where panes are counted.
        results: How many results were emitted.
        withdrawn: How many earlier results were withdrawn.
        purged: Whether the contents of the window were dropped after it.
        finished: Whether the trigger was finished with it.
        failed: The error policy that took the firing, since its function raised; None: it did not.
        failures: How many calls of its function raised: more than one only for the pairs of a join.
    """

    at: Moment
    answer: TriggerResult | None
    trigger: str
    pane: PaneInfo | None
    results: int
    withdrawn: int
    purged: bool
    finished: bool
    failed: ErrorPolicy | None = None
    failures: int = 0


@dataclass(frozen=True)
class Silence:
    """A moment at which a trigger would have fired a window, but nothing was to be output."""

    at: Moment
    is_empty: bool  # else nothing was new


@dataclass(frozen=True)
class Purge:
    """A moment at which a trigger dropped the contents of a window without firing it."""

    at: Moment


@dataclass(frozen=True)
class Late:
    """An element that came too late for a window, or after the trigger of the window had finished."""

    at: Moment
    was_finished: bool


@dataclass(frozen=True)
class Merger:
    """A merge of windows: that of the window itself into another, or of others into it."""

    at: Moment
    into: Any
    sources: tuple[Any, ...]


@dataclass(frozen=True)
class Cleanup:
    """The end of a window: its contents and the state of its trigger were dropped."""

    at: Moment


Event: TypeAlias = Firing | Silence | Purge | Late | Merger | Cleanup


@dataclass
class Life:
    """What happened to one window of one key."""

    events: list[Event] = field(default_factory=list)
    elements_taken: int = 0
    elements: int = 0  # how many of these it holds
    fresh: int = 0  # how many of these since it fired last


class Outcome(Enum):
    """What became of an element in one of its windows."""

    JOINED = "joined"
    """The window took it."""

    LATE = "late"
    """The watermark had passed the window, and the lateness allowed for it."""

    FINISHED = "finished"
    """The trigger of the window had finished, so the element was dropped."""


@dataclass(frozen=True)
class Placement:
    """A window to which an element was assigned, and what became of the element in it.

    Attributes:
        assigned: The window that the assigner gave.
        window: The window that this became by merging; else the same.
        outcome: Whether the window took the element.
    """

    assigned: Any
    window: Any
    outcome: Outcome


class Fate(Enum):
    """The outcome of an element in all of its windows together."""

    TAKEN = "taken"
    """At least one of its windows took it."""

    DROPPED_LATE = "dropped as late"
    """It was late for all of its windows, and was counted in ``late_records_dropped``."""

    SIDE_OUTPUT = "sent to the side output of late elements"
    """It was late for all of its windows, and went where the stream sends such elements."""

    DROPPED_FINISHED = "dropped, as triggers had finished"
    """The trigger of each window that it was in time for had finished."""

    NOWHERE = "in no window"
    """No window took it, yet it was not late by its own timestamp."""

    FAILED = "failed"
    """A function of the step raised an error for it, and the run ended."""

    LEFT_OUT = "left out"
    """A function of the step raised an error for it, and the error policy of the step took it."""


_DROPPED: Final = (Fate.DROPPED_LATE, Fate.SIDE_OUTPUT, Fate.DROPPED_FINISHED)


@dataclass
class Arrival:
    """An element that came to a step.

    Attributes:
        at: When it came.
        element: The element, with its key and timestamp.
        pushed: The element that a test had pushed, of which it came; ``NOTHING`` if timers upstream emitted it.
        placements: Its windows.
        fate: What became of it.
        late_tag: The name of the side output that it went to as late; None for none.
        failed: The error policy that took it; None: it did not fail.
    """

    at: Moment
    element: RecordedElement
    pushed: Any
    placements: list[Placement] = field(default_factory=list)
    fate: Fate = Fate.FAILED  # until the step has taken it
    late_tag: str | None = None
    failed: ErrorPolicy | None = None


_Shown: TypeAlias = list[tuple[Any, PaneInfo | None]]
"""The window and the pane of each result that the next pane of a window withdraws."""


class Journal(StepRecorder):
    """What happened at one step of windows: the elements that came, the lives of its windows, and their panes.

    With ``explains`` it has the state of the trigger in words for each firing, which takes long.
    """

    def __init__(self, step: Step, node: WindowNode, *, explains: bool) -> None:
        super().__init__(step)
        self._explains = explains
        self._assigner = node.assigner
        self.arrivals: list[Arrival] = []
        self.lives: dict[Hashable, dict[Any, Life]] = defaultdict(dict)
        self._watermarks: list[RecordedWatermark] = []
        self._panes: list[RecordedPane] = []
        # By key and window, its own results, and those of windows that merged into it. The operator withdraws in a
        # fixed order; the same order here finds the window of each withdrawal.
        self._shown: dict[tuple[Hashable, Any], tuple[_Shown, _Shown]] = {}
        self._placement: Placement | None = None  # that of the element in the window that was assigned last
        self._pane: PaneInfo | None = None
        self._is_fired = False
        self._failed: ErrorPolicy | None = None  # what took the firing, if its function raised
        self._failures = 0
        self._emitted: list[tuple[ChangeKind, Any, PaneInfo | None, tuple[Any, ...]]] = []

    def watch(self, operator: KeyedOperator) -> None:
        assert isinstance(operator, WindowOperator)
        self.operator = operator
        super().watch(operator)

    def life(self, key: Hashable, window: Any) -> Life:
        """The life of a window, for events to be added; it begins if there is none."""
        return self.lives[key].setdefault(window, Life())

    @property
    def recording(self) -> StepRecording:
        """What was recorded so far."""
        return StepRecording(
            step=self.step.id,
            name=self.step.node.describe(),
            is_event_time=self._assigner.is_event_time,
            is_merging=isinstance(self._assigner, MergingWindowAssigner),
            elements=tuple(arrival.element for arrival in self.arrivals),
            watermarks=tuple(self._watermarks),
            panes=tuple(self._panes),
        )

    # Elements

    def arrived(self, key: Hashable, value: Any, timestamp: int | None, *, for_all_keys: bool = False) -> None:
        self._begin()
        number = len(self.arrivals) + 1
        element = RecordedElement(
            number=number,
            key=key,
            value=own(without_mark(value_of(value))),  # a function of the user's may change it
            timestamp=timestamp,
            moment=self._moment,
            is_late=timestamp is not None and timestamp <= self.operator.current_watermark,
            is_dropped=False,
            kind=kind_of(value),
        )
        self._at = self._moment_of(Cause.ELEMENT, None, number)
        self.arrivals.append(Arrival(self._at, element, self.pushed))
        self._placement = None
        self._is_fired, self._failed, self._failures = False, None, 0

    def assigned(self, window: Any) -> None:
        self._place()
        self._placement = Placement(window, window, Outcome.LATE)

    def became(self, window: Any) -> None:
        assert self._placement is not None
        self._placement = replace(self._placement, window=window)

    def placed(self, *, refused: bool) -> None:
        assert self._placement is not None
        if refused:
            self._placement = replace(self._placement, outcome=Outcome.FINISHED)
            return
        self._placement = replace(self._placement, outcome=Outcome.JOINED)
        element = self.arrivals[-1].element
        life = self.life(element.key, self._placement.window)
        life.elements_taken += 1
        life.elements += -1 if element.kind.is_withdrawal else 1
        life.fresh += 1

    def _place(self) -> None:
        """Notes what became of the element in the window that was assigned last."""
        placement, arrival = self._placement, self.arrivals[-1]
        if placement is None:
            return
        arrival.placements.append(placement)
        key, window, into = arrival.element.key, placement.assigned, placement.window
        if window != into:
            events = self.life(key, window).events
            if not (events and isinstance(events[-1], Merger) and events[-1].at == self._at):
                events.append(Merger(self._at, into, (window,)))
        if placement.outcome is not Outcome.JOINED:
            self.life(key, into).events.append(Late(self._at, placement.outcome is Outcome.FINISHED))

    def failed(self, policy: ErrorPolicy) -> None:
        if self._is_fired:
            self._failed = policy
            self._failures += 1
            return
        arrival = self.arrivals[-1]
        arrival.fate, arrival.failed = Fate.LEFT_OUT, policy

    def dropped(self, tag: str | None) -> None:
        arrival = self.arrivals[-1]
        arrival.late_tag, arrival.fate = tag, Fate.DROPPED_LATE if tag is None else Fate.SIDE_OUTPUT

    def processed(self) -> None:
        self._place()
        arrival = self.arrivals[-1]
        if arrival.fate is Fate.FAILED:
            outcomes = {placement.outcome for placement in arrival.placements}
            in_time = Fate.DROPPED_FINISHED if Outcome.FINISHED in outcomes else Fate.NOWHERE
            arrival.fate = Fate.TAKEN if Outcome.JOINED in outcomes else in_time
        arrival.element = replace(arrival.element, is_dropped=arrival.fate in _DROPPED)

    def merged(self, key: Hashable, sources: Sequence[Any], into: Any) -> None:
        merger, result = Merger(self._at, into, tuple(sources)), self.life(key, into)
        result.events.append(merger)
        shown: tuple[_Shown, _Shown] = [], []
        for source in sources:
            life = self.life(key, source)
            if life is not result:
                life.events.append(merger)
                result.elements_taken += life.elements_taken
                result.elements, result.fresh = result.elements + life.elements, result.fresh + life.fresh
                life.elements = life.fresh = 0
            own_results, absorbed = self._shown.pop((key, source), ([], []))
            shown[source != into].extend(own_results)
            shown[True].extend(absorbed)
        self._shown[key, into] = shown

    # Time

    def time_passed(self, until: int, *, event_time: bool) -> None:
        if not event_time:
            self._set_clock()
            return
        self._begin()
        self._watermarks.append(RecordedWatermark(watermark=until, moment=self._moment))

    def timer_due(self, time: int, key: Hashable, namespace: Any, *, event_time: bool) -> None:
        cause = Cause.EVENT_TIMER if event_time else Cause.PROCESSING_TIMER
        closes = self.operator.closing_timer(namespace) == (event_time, time)
        self._at = self._moment_of(cause, time, len(self.arrivals), closes=closes)

    def _moment_of(self, cause: Cause, timer: int | None, element: int, *, closes: bool = False) -> Moment:
        operator = self.operator
        return Moment(cause, timer, element, operator.current_watermark, operator.current_processing_time, closes)

    # Firing

    def asked(self, key: Hashable, window: Any, entry: WindowEntry) -> None:
        self._window, self._before = (key, window), own(entry.trigger_state) if self._explains else None
        self._pane, self._is_fired, self._failed, self._failures, self._emitted = None, False, None, 0, []

    def fired(self, pane: PaneInfo | None) -> None:
        self._pane, self._is_fired = pane, True

    def emitted(self, value: Any) -> None:
        kind, (_, window), pane = kind_of(value), self._window, self._pane
        if kind.is_withdrawal:
            own_results, absorbed = self._shown.get(self._window, ([], []))
            # The results of merged windows are withdrawn first, and never as a part of an update.
            shown = absorbed if kind is ChangeKind.DELETE and absorbed else own_results
            window, pane = shown.pop(0) if shown else (window, None)
        self._emitted.append((kind, window, pane, (own(value_of(value)),)))

    def answered(self, answer: TriggerResult | None, *, held: bool, purged: bool, finished: bool = False) -> None:
        at, life = self._at, self.life(*self._window)
        results = [(window, pane) for kind, window, pane, _ in self._emitted if not kind.is_withdrawal]
        withdrawn = len(self._emitted) - len(results)
        if self._is_fired or withdrawn:
            before = WindowEntry(trigger_state=self._before)
            words = self.operator.trigger_in_words(*self._window, before) if self._explains else ""
            counts, failed = (len(results), withdrawn), (self._failed, self._failures)
            life.events.append(Firing(at, answer, words, self._pane, *counts, purged, finished, *failed))
            life.fresh = 0
            if self._emitted:
                self._shown[self._window] = results, []
            self._record(is_empty=self._is_fired and not results)
        elif answer is not None and answer.is_fire:
            life.events.append(Silence(at, is_empty=not held))
        elif purged:
            life.events.append(Purge(at))
        if purged:
            life.elements = life.fresh = 0

    def _record(self, *, is_empty: bool) -> None:
        """Records what was emitted; results of one pane that follow each other are recorded together."""
        key, window = self._window
        if is_empty:
            self._emitted.append((ChangeKind.INSERT, window, self._pane, ()))
        for (kind, shown, pane), run in groupby(self._emitted, itemgetter(0, 1, 2)):
            values = tuple(chain.from_iterable(map(itemgetter(3), run)))
            self._panes.append(
                RecordedPane(key=key, window=shown, moment=self._moment, values=values, pane=pane, kind=kind)
            )

    def cleaned(self, key: Hashable, window: Any) -> None:
        if window in self.lives[key]:
            life = self.life(key, window)
            life.events.append(Cleanup(self._at))
            life.elements = life.fresh = 0


Recorders: TypeAlias = Mapping[str, Journal | EventRecorder]
"""The recorder of each keyed step of an execution, and of those that go on from its snapshots, by the step's id."""


def recorders_of(steps: Iterable[Step], *, explains: bool = False) -> Recorders:
    """Makes the recorders of keyed steps; ``explains``: for explanations, too."""
    return {
        step.id: EventRecorder(step)
        if step.node.windows is None
        else Journal(step, step.node.windows, explains=explains)
        for step in steps
    }


def recording_of(recorders: Recorders) -> Recording:
    """What was recorded so far."""
    return Recording(
        {step: recorder.recording for step, recorder in recorders.items() if isinstance(recorder, Journal)},
        {step: recorder.recording for step, recorder in recorders.items() if isinstance(recorder, EventRecorder)},
    )
