"""Takes the state of many keys apart by keys, and joins such parts again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from itertools import chain, filterfalse
from typing import Any, Final, TypeAlias

from windrow_runtime.operators.state.model import OperatorState, TimerQueue

# Any in this module: state of every type.

_TIMERS: Final = ("event_timers", "processing_timers")

Layout: TypeAlias = "dict[int | None, list[Hashable]]"
"""The keys of a part: those in each table, by its start, and under None those with a state of their own."""


def layout_of(state: OperatorState) -> Layout:
    """Finds which keys are where in a state."""
    layout: Layout = {start: list(table) for start, table in state.tables.items()}
    layout[None] = list(state.keys)
    return layout


def join_states(parts: Iterable[OperatorState]) -> OperatorState:
    """One state of several that have no key in common. The parts must not be used any more."""
    joined, *others = list(parts) or [OperatorState()]
    if not others:
        return joined
    timers = {name: list(chain.from_iterable(getattr(part, name) for part in (joined, *others))) for name in _TIMERS}
    for part in others:
        joined.keys.update(part.keys)
        for start, table in part.tables.items():
            if start in joined.tables:
                joined.tables[start].update(table)
            else:
                joined.tables[start] = table
        joined.table_size = part.table_size or joined.table_size
    for name, found in timers.items():
        if len(found) > len(getattr(joined, name)):
            setattr(joined, name, TimerQueue(found))
    return joined


def split_state(
    state: OperatorState, part_of: Callable[[Hashable], int], layouts: Mapping[int, Layout] | None = None
) -> dict[int, OperatorState]:
    """The state in parts; what belongs to the step itself is in none of them.

    Args:
        state: The state; nothing may be changed in it any more.
        part_of: Gives the number of the part that a key belongs to.
        layouts: The layout of each part before, where the state was put together of parts: makes it faster.
    """
    layouts = layouts or {}
    parts: defaultdict[int, OperatorState] = defaultdict(OperatorState)
    for number, keys in _split_dict(state.keys, part_of, _column(layouts, None)).items():
        parts[number].keys = keys
    for start, table in state.tables.items():
        for number, piece in _split_dict(table, part_of, _column(layouts, start)).items():
            parts[number].tables[start] = piece
    for name in _TIMERS:
        by_part: defaultdict[int, list[tuple[Hashable, Any, int]]] = defaultdict(list)
        for timer in getattr(state, name):
            by_part[part_of(timer[0])].append(timer)
        for number, found in by_part.items():
            setattr(parts[number], name, TimerQueue(found))
    for part in parts.values():
        part.table_size = state.table_size
    return dict(parts)


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
        pieces.setdefault(part_of(key), {})[key] = whole[key]
    return pieces


def keys_in(state: OperatorState) -> dict[Hashable, None]:
    """The keys of a state, each once, in their order."""
    timers = (key for name in _TIMERS for key, _, _ in getattr(state, name))
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
    for name in _TIMERS:
        timers = list(getattr(state, name))
        chosen = [timer for timer in timers if timer[0] in keys]
        if chosen:
            setattr(taken, name, TimerQueue(chosen))
            setattr(state, name, TimerQueue([timer for timer in timers if timer[0] not in keys]))
    return taken


def _taken(whole: dict[Hashable, Any], keys: Container[Hashable]) -> dict[Hashable, Any]:
    # By the keys of the state: 1 and 1.0 are one key, and the first one that came stays.
    return {key: whole.pop(key) for key in list(filter(keys.__contains__, whole))}
