"""Summarises a page for the record of its step: its earliest timers, and the segments of long lists it refers to."""

from __future__ import annotations

from collections.abc import Iterator

from windrow.time import MAX_TIMESTAMP
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.operators.state.stored_list import StoredList
from windrow_runtime.storage.record import NO_TIMER

__all__ = ["holds_nothing", "segments_in", "timers_of"]


def holds_nothing(state: OperatorState) -> bool:
    """Whether nothing in it belongs to a key."""
    return not (state.keys or state.tables or state.event_timers or state.processing_timers)


def timers_of(state: OperatorState) -> tuple[int, int]:
    """Its earliest timers in event time and in processing time, as records of steps hold them."""
    event, clock = state.earliest_event_timer(), state.earliest_processing_timer()
    return _stored(event), _stored(clock)


def _stored(timer: int | None) -> int:
    # The lowest number says that there is none; a timer there is due just as well one millisecond later. One beyond
    # the end of time is never due, and does no harm when its page is looked at then.
    return NO_TIMER if timer is None else min(max(timer, NO_TIMER + 1), MAX_TIMESTAMP)


def segments_in(state: OperatorState) -> Iterator[int]:
    """The segments of long lists that a state refers to."""
    for key_state in state.keys.values():
        for entry in key_state.windows.values():
            if type(entry.contents) is StoredList:
                yield from entry.contents.segments
        for value in key_state.state.values():
            if type(value) is StoredList:
                yield from value.segments
