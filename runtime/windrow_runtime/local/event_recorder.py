"""Records what reaches a keyed step without windows, and what it emits: process functions, and joins by time."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from windrow.functions.marked import LEFT, SideKey, Tagged, without_mark
from windrow.plan import Node, Step
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.operators.changes import value_of
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.observer import Observer
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.recording import Lane, Moment, ProcessRecording, RecordedEvent
from windrow_runtime.operators.state.model import NOTHING

# Any in this module: elements and results of every type.


class StepRecorder(Observer):
    """Records one keyed step, also where another execution goes on from a snapshot."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self._order = 0
        self._moment = Moment(order=0, clock=None)
        self.pushed: Any = NOTHING  # the element that a test pushes now

    def watch(self, operator: KeyedOperator) -> None:
        """Observes this operator from now on."""
        self._watched = operator
        operator.observer = self

    def _begin(self) -> None:
        self._order += 1
        self._set_clock()

    def _set_clock(self) -> None:
        now = self._watched.current_processing_time
        self._moment = Moment(order=self._order, clock=None if now == MIN_TIMESTAMP else now)


class EventRecorder(StepRecorder):
    """Records one keyed step without windows."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self._events: list[RecordedEvent] = []
        self._is_open = False  # whether what is emitted now came of the last event

    @property
    def recording(self) -> ProcessRecording:
        """What was recorded so far."""
        node = self.step.node
        return ProcessRecording(
            step=self.step.id, name=node.describe(), lanes=lanes_of(node), events=tuple(self._events)
        )

    def arrived(self, key: Hashable, value: Any, timestamp: int | None, *, for_all_keys: bool = False) -> None:
        lane = Lane.BROADCAST if for_all_keys else Lane.ELEMENTS
        if isinstance(value, Tagged):
            lane = Lane.FIRST if value.side == LEFT else Lane.SECOND
        self._add(lane, key, own(without_mark(value_of(value))), timestamp)

    def time_passed(self, until: int, *, event_time: bool) -> None:
        if event_time:
            self._add(Lane.WATERMARK, None, until, None)
        else:
            self._set_clock()
            self._is_open = False

    def emitted(self, value: Any) -> None:
        if not self._is_open:
            self._add(Lane.CLOCK, None, self._moment.clock, None)
        last = self._events[-1]
        self._events[-1] = replace(last, results=(*last.results, own(value_of(value))))

    def _add(self, lane: Lane, key: Hashable, value: Any, timestamp: int | None) -> None:
        self._begin()
        self._events.append(
            RecordedEvent(lane=lane, key=key, value=value, timestamp=timestamp, moment=self._moment, results=())
        )
        self._is_open = True


def lanes_of(node: Node) -> tuple[Lane, ...]:
    """The inputs of a keyed step without windows."""
    if len(node.inputs) > 1:
        return (Lane.BROADCAST, Lane.ELEMENTS)
    keys = node.inputs[0].keys
    of_two_streams = keys is not None and isinstance(keys.selector, SideKey)
    return (Lane.FIRST, Lane.SECOND) if of_two_streams else (Lane.ELEMENTS,)
