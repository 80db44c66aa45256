"""Defines recordings: plain data on the elements, watermarks and results of keyed steps, for pictures of a run."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from windrow.errors import InvalidArgumentError
from windrow.panes import ChangeKind, PaneInfo

S = TypeVar("S")
# Any in this module: windows, elements and results of every type.


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The moment of an event of a run.

    Attributes:
        order: The number of elements and moves of the watermark that the step had seen by then, this one included.
        clock: The processing time in milliseconds; None where no clock was set.
    """

    order: int
    clock: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedElement:
    """An element that reached a window step.

    Attributes:
        number: Its number among the elements of the step, in order of arrival, from 1.
        key: Its key; None without keys.
        value: The element.
        timestamp: Its timestamp; None for none.
        moment: When it came.
        is_late: Whether the watermark had reached its timestamp when it came.
        is_dropped: Whether no window took it: it was counted as dropped, or went to the output for late elements.
        kind: Whether it was added, or withdrawn upstream.
    """

    number: int
    key: Hashable
    value: Any
    timestamp: int | None
    moment: Moment
    is_late: bool
    is_dropped: bool
    kind: ChangeKind = ChangeKind.INSERT


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWatermark:
    """A move of the watermark.

    Attributes:
        watermark: The new watermark.
        moment: When it moved.
    """

    watermark: int
    moment: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPane:
    """A pane that a window fired, or the withdrawal of an earlier one.

    Attributes:
        key: The key; None without keys.
        window: The window. That of a withdrawal is the window whose pane is taken back.
        moment: When it came out.
        values: The results that were emitted; a window function may emit none, or several.
        pane: Its place among the panes of the window; None where panes are not counted.
        kind: Whether it is a first result, replaces an earlier one, or takes one back.
    """

    key: Hashable
    window: Any
    moment: Moment
    values: tuple[Any, ...]
    pane: PaneInfo | None
    kind: ChangeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecording:
    """What went through one window step.

    Attributes:
        step: The id of the step.
        name: What ``explain()`` calls it.
        is_event_time: Whether its windows are in event time.
        is_merging: Whether its windows merge, as sessions do.
        elements: The elements, in order of arrival.
        watermarks: The moves of the watermark, in order.
        panes: The panes and the withdrawals, in the order in which they came out.
    """

    step: str
    name: str
    is_event_time: bool
    is_merging: bool
    elements: tuple[RecordedElement, ...]
    watermarks: tuple[RecordedWatermark, ...]
    panes: tuple[RecordedPane, ...]


class Lane(Enum):
    """The inputs of a step without windows."""

    ELEMENTS = "elements"
    """The elements of its only keyed stream."""

    FIRST = "first stream"
    """The elements of the first one of two streams, the left one of a join."""

    SECOND = "second stream"
    """The elements of the second one."""

    BROADCAST = "broadcast stream"
    """The elements of a broadcast stream."""

    WATERMARK = "watermark"
    """Moves of the watermark, which fire timers in event time."""

    CLOCK = "clock"
    """Moves of the clock that output something, by timers in processing time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """Something that reached a step without windows, and what the step emitted at once.

    Attributes:
        lane: What it is.
        key: The key of an element; None for what is for all keys.
        value: The element, or the new time in milliseconds.
        timestamp: The timestamp of an element; None for none.
        moment: When it came.
        results: What the step emitted to its main output, in order.
    """

    lane: Lane
    key: Hashable
    value: Any
    timestamp: int | None
    moment: Moment
    results: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecording:
    """What went through one keyed step without windows: a process function, or a join by time.

    Attributes:
        step: The id of the step.
        name: What ``explain()`` calls it.
        lanes: The inputs by which elements reach it.
        events: What reached it, in order.
    """

    step: str
    name: str
    lanes: tuple[Lane, ...]
    events: tuple[RecordedEvent, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """What went through the keyed steps of a run.

    Attributes:
        steps: The recording of each window step, by its id.
        processes: That of each other keyed step: of process functions, and of joins by time.
    """

    steps: Mapping[str, StepRecording]
    processes: Mapping[str, ProcessRecording] = field(default_factory=dict)

    def of(self, step: str | None = None) -> StepRecording:
        """The recording of one step.

        Args:
            step: The id of the step, as ``explain()`` shows it; by default the only window step.

        Raises:
            InvalidArgumentError: If there is no such step, or which one is meant is not clear.
        """
        hint = "lanes(recording) draws keyed steps without windows" if self.processes else None
        return _chosen(self.steps, step, "window step", hint)

    def of_process(self, step: str | None = None) -> ProcessRecording:
        """The recording of one keyed step without windows.

        Args:
            step: The id of the step, as ``explain()`` shows it; by default the only such step.

        Raises:
            InvalidArgumentError: If there is no such step, or which one is meant is not clear.
        """
        hint = "timeline(recording) draws windows" if self.steps else None
        return _chosen(self.processes, step, "keyed step without windows", hint)


def _chosen(steps: Mapping[str, S], step: str | None, what: str, hint: str | None) -> S:
    if not steps:
        raise InvalidArgumentError(f"the recording has no {what}", given=step or "a recording of others", hint=hint)
    names = ", ".join(steps)
    if step is None and len(steps) == 1:
        return next(iter(steps.values()))
    if step is None:
        raise InvalidArgumentError(f"the {what} must be named", given=f"a recording of {names}", expected="step='...'")
    if step not in steps:
        raise InvalidArgumentError(f"the recording has no such {what}", given=step, expected=names)
    return steps[step]


def recorded(recording: Recording | None, hint: str, where: object = None) -> Recording:
    """The recording of a run; refuses one that was not recorded."""
    if recording is None:
        raise InvalidArgumentError("the run was not recorded", expected="record=True", where=where, hint=hint)
    return recording
