"""Keeps a journal of a step of windows: what came into each window, and what fired it, when and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from windrow.panes import PaneInfo
from windrow.triggers import TriggerResult
from windrow_runtime.operators.state.model import NOTHING

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
        purged: Whether the contents of the window were dropped behind it.
        finished: Whether the trigger was finished with it.
    """

    at: Moment
    answer: TriggerResult | None
    trigger: str
    pane: PaneInfo | None
    results: int
    withdrawn: int
    purged: bool
    finished: bool


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
    taken: int = 0  # how many elements it has taken
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
    """One window of an element.

    Attributes:
        assigned: The window that the assigner gave.
        window: The window that this became by merging; else the same.
        outcome: Whether the window took the element.
    """

    assigned: Any
    window: Any
    outcome: Outcome


class Fate(Enum):
    """What became of an element as a whole."""

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
    """A function of the step raised an error for it."""


@dataclass(frozen=True)
class Arrival:
    """An element that came to a step.

    Attributes:
        at: When it came.
        key: Its key; None without keys.
        value: The element.
        timestamp: Its timestamp.
        pushed: The element that a test had pushed, of which it came; ``NOTHING`` if timers upstream emitted it.
        is_withdrawal: Whether it takes back an element that had come before.
        placements: Its windows.
        fate: What became of it.
        late_tag: The name of the side output that it went to as late; None for none.
    """

    at: Moment
    key: Hashable
    value: Any
    timestamp: int | None
    pushed: Any
    is_withdrawal: bool
    placements: tuple[Placement, ...]
    fate: Fate
    late_tag: str | None


class Journal:
    """What happened at one step: the elements that came, and the lives of its windows."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.lives: dict[Hashable, dict[Any, Life]] = defaultdict(dict)
        self.pushed: Any = NOTHING  # what a test pushes now

    def life(self, key: Hashable, window: Any) -> Life:
        """The life of a window, to be written on."""
        return self.lives[key].setdefault(window, Life())

    def merge(self, key: Hashable, merger: Merger) -> None:
        """Writes down that windows merged."""
        into = self.life(key, merger.into)
        into.events.append(merger)
        for source in merger.sources:
            life = self.life(key, source)
            if life is not into:
                life.events.append(merger)
                into.taken += life.taken
                into.elements, into.fresh = into.elements + life.elements, into.fresh + life.fresh
                life.elements = life.fresh = 0
