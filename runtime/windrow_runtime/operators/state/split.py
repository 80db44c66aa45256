"""State of many keys, taken apart into parts and put together again."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from itertools import chain, filterfalse
from typing import Any, TypeAlias

from windrow_runtime.operators.state.model import OperatorState, TimerQueue

__all__ = ["Layout", "join_states", "keys_in", "layout_of", "split_state", "take_keys"]

# Any in this module: state of every type.

Layout: TypeAlias = "dict[int | None, list[Hashable]]"
"""The keys of a part: those in each table, by its start, and under None those with a state of their own."""


def layout_of(state: OperatorState) -> Layout:
    """Which keys are where in a state."""
    layout: Layout = {start: list(table) for start, table in state.tables.items()}
    layout[None] = list(state.keys)
    return layout


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


def split_state(
    state: OperatorState,
    part_of: Callable[[Hashable], int],
    layouts: Mapping[int, Layout] | None = None,
) -> dict[int, OperatorState]:
    """The state in parts; what belongs to the step itself is in none of them.

    Args:
        state: The state; nothing may be changed in it any more.
        part_of: The number of the part that a key belongs to.
        layouts: What was in each part before, where the state was put together of parts: makes it faster.
    """
    layouts = layouts or {}
    parts: dict[int, OperatorState] = {}

    def part(number: int) -> OperatorState:
        found = parts.get(number)
        if found is None:
            found = parts[number] = OperatorState()
            found.table_size = state.table_size
        return found

    for number, keys in _split_dict(state.keys, part_of, _column(layouts, None)).items():
        part(number).keys = keys
    for start, table in state.tables.items():
        for number, piece in _split_dict(table, part_of, _column(layouts, start)).items():
            part(number).tables[start] = piece
    for timers, name in (
        (state.event_timers, "event_timers"),
        (state.processing_timers, "processing_timers"),
    ):
        by_part: dict[int, list[tuple[Hashable, Any, int]]] = {}
        for timer in timers:
            by_part.setdefault(part_of(timer[0]), []).append(timer)
        for number, found in by_part.items():
            setattr(part(number), name, TimerQueue(found))
    return parts


def _column(layouts: Mapping[int, Layout], start: int | None) -> dict[int, Sequence[Hashable]]:
    return {number: layout[start] for number, layout in layouts.items() if layout.get(start)}


def _split_dict(
    whole: dict[Hashable, Any], part_of: Callable[[Hashable], int], known: Mapping[int, Sequence[Hashable]]
) -> dict[int, dict[Hashable, Any]]:
    """A dictionary by parts; without a step of the interpreter's for a key that is where it was."""
    pieces: dict[int, dict[Hashable, Any]] = {}
    found = 0
    for number, there in known.items():
        keys = there if all(map(whole.__contains__, there)) else list(filter(whole.__contains__, there))
        if keys:
            pieces[number] = dict(zip(keys, map(whole.__getitem__, keys), strict=True))
            found += len(keys)
    if found == len(whole):
        return pieces
    placed = set().union(*known.values()) if found else frozenset()
    for key in filterfalse(placed.__contains__, whole):
        number = part_of(key)
        piece = pieces.get(number)
        if piece is None:
            piece = pieces[number] = {}
        piece[key] = whole[key]
    return pieces


def keys_in(state: OperatorState) -> dict[Hashable, None]:
    """The keys of a state, each once, in their order."""
    timers = (key for timers in (state.event_timers, state.processing_timers) for key, _, _ in timers)
    return dict.fromkeys(chain(state.keys, *state.tables.values(), timers))


def take_keys(state: OperatorState, keys: Container[Hashable]) -> OperatorState:
    """Take those of some keys that are in a state out of it, in its order."""
    taken = OperatorState()
    taken.table_size = state.table_size
    taken.keys = _taken(state.keys, keys)
    for start, table in list(state.tables.items()):
        found = _taken(table, keys)
        if found:
            taken.tables[start] = found
        if not table:
            del state.tables[start]
    for name in ("event_timers", "processing_timers"):
        timers = list(getattr(state, name))
        chosen = [timer for timer in timers if timer[0] in keys]
        if chosen:
            setattr(taken, name, TimerQueue(chosen))
            setattr(state, name, TimerQueue([timer for timer in timers if timer[0] not in keys]))
    return taken


def _taken(whole: dict[Hashable, Any], keys: Container[Hashable]) -> dict[Hashable, Any]:
    # By the keys of the state: 1 and 1.0 are one key, and the first one that came stays.
    return {key: whole.pop(key) for key in list(filter(keys.__contains__, whole))}
