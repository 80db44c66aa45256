"""State of many keys, taken apart into parts and put together again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from windrow_runtime.operators.state import OperatorState, TimerQueue

__all__ = ["join_states", "split_state"]

# Any in this module: state of every type.


def join_states(parts: Iterable[OperatorState]) -> OperatorState:
    """One state of several that have no key in common. The parts must not be used any more."""
    joined: OperatorState | None = None
    events: list[tuple[Hashable, Any, int]] = []
    clocks: list[tuple[Hashable, Any, int]] = []
    for part in parts:
        if joined is None:
            joined = part
            continue
        joined.keys.update(part.keys)
        for start, table in part.tables.items():
            known = joined.tables.get(start)
            if known is None:
                joined.tables[start] = table
            else:
                known.update(table)
        joined.table_size = part.table_size or joined.table_size
        events.extend(part.event_timers)
        clocks.extend(part.processing_timers)
    if joined is None:
        return OperatorState()
    if events:
        joined.event_timers = TimerQueue([*joined.event_timers, *events])
    if clocks:
        joined.processing_timers = TimerQueue([*joined.processing_timers, *clocks])
    return joined


def split_state(state: OperatorState, part_of: Callable[[Hashable], int]) -> dict[int, OperatorState]:
    """The state in parts; what belongs to the step itself is in none of them.

    Args:
        state: The state; it must not be used any more.
        part_of: The number of the part that a key belongs to.
    """
    parts: dict[int, OperatorState] = {}

    def part(key: Hashable) -> OperatorState:
        number = part_of(key)
        found = parts.get(number)
        if found is None:
            found = parts[number] = OperatorState()
            found.table_size = state.table_size
        return found

    for key, key_state in state.keys.items():
        part(key).keys[key] = key_state
    for start, table in state.tables.items():
        # One look-up for each key and window: the innermost loop for windows in tables.
        pieces: dict[int, dict[Hashable, Any]] = {}
        for key, contents in table.items():
            number = part_of(key)
            piece = pieces.get(number)
            if piece is None:
                piece = pieces[number] = part(key).tables[start] = {}
            piece[key] = contents
    for timers, name in (
        (state.event_timers, "event_timers"),
        (state.processing_timers, "processing_timers"),
    ):
        by_part: dict[int, list[tuple[Hashable, Any, int]]] = {}
        for timer in timers:
            by_part.setdefault(part_of(timer[0]), []).append(timer)
        for found in by_part.values():
            setattr(part(found[0][0]), name, TimerQueue(found))
    return parts
