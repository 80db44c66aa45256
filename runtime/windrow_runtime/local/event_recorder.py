"""Records what reaches a keyed step without windows, and what it emits: process functions, and joins by time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from windrow.functions.marked import LEFT, CoProcess, Tagged, without_mark
from windrow.plan import BroadcastProcessNode, KeyedProcessNode, Node, Step, TimedJoinNode
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.operators.broadcast_operator import BroadcastOperator
from windrow_runtime.operators.changes import value_of
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.recording import Lane, Moment, ProcessRecording, RecordedEvent

# Any in this module: elements and results of every type.


class EventRecorder:
    """Records one keyed step without windows; its output tells it what is emitted."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._events: list[RecordedEvent] = []
        self._order = 0
        self._moment = Moment(order=0, clock=None)
        self._is_open = False  # whether what is emitted now came of the last event

    @property
    def recording(self) -> ProcessRecording:
        """What was recorded so far."""
        return ProcessRecording(
            step=self._step.id,
            name=self._step.node.describe(),
            lanes=lanes_of(self._step.node),
            events=tuple(self._events),
        )

    def process(
        self, operator: KeyedOperator, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]
    ) -> None:
        """Hand elements to the operator one by one, and record what it emits for each."""
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            lane = Lane.ELEMENTS
            if isinstance(value, Tagged):
                lane = Lane.FIRST if value.side == LEFT else Lane.SECOND
            self._begin(operator, lane, key, without_mark(value_of(value)), timestamp)
            operator.process_batch((key,), (value,), (timestamp,))
        self._is_open = False

    def process_broadcast(
        self, operator: BroadcastOperator, values: Sequence[Any], timestamps: Sequence[int | None]
    ) -> None:
        """Hand elements for all keys to the operator one by one, and record what it emits for each."""
        for value, timestamp in zip(values, timestamps, strict=True):
            self._begin(operator, Lane.RULES, None, value, timestamp)
            operator.process_broadcast((value,), (timestamp,))
        self._is_open = False

    def advance_watermark(self, operator: KeyedOperator, watermark: int) -> None:
        """Record a move of the watermark, and what the operator emits as it follows."""
        self._begin(operator, Lane.WATERMARK, None, watermark, None)
        operator.advance_watermark(watermark)
        self._is_open = False

    def clock(self, operator: KeyedOperator) -> None:
        """Take the time of what follows from the operator's clock."""
        self._set_moment(operator)

    def emitted(self, value: Any) -> None:
        """Record what the operator emits."""
        if not self._is_open:
            self._order += 1
            self._moment = replace(self._moment, order=self._order)
            self._add(Lane.CLOCK, None, self._moment.clock, None)
        last = self._events[-1]
        self._events[-1] = replace(last, results=(*last.results, own(value_of(value))))

    def _begin(self, operator: KeyedOperator, lane: Lane, key: Hashable, value: Any, timestamp: int | None) -> None:
        self._order += 1
        self._set_moment(operator)
        self._add(lane, key, own(value), timestamp)

    def _add(self, lane: Lane, key: Hashable, value: Any, timestamp: int | None) -> None:
        self._events.append(
            RecordedEvent(lane=lane, key=key, value=value, timestamp=timestamp, moment=self._moment, results=())
        )
        self._is_open = True

    def _set_moment(self, operator: KeyedOperator) -> None:
        now = operator.current_processing_time
        self._moment = Moment(order=self._order, clock=None if now == MIN_TIMESTAMP else now)


def lanes_of(node: Node) -> tuple[Lane, ...]:
    """The inputs of a keyed step without windows."""
    if isinstance(node, BroadcastProcessNode):
        return (Lane.RULES, Lane.ELEMENTS)
    if isinstance(node, TimedJoinNode) or (isinstance(node, KeyedProcessNode) and isinstance(node.function, CoProcess)):
        return (Lane.FIRST, Lane.SECOND)
    return (Lane.ELEMENTS,)
