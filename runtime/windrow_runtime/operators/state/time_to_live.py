"""Expires state: the time of the last write is stored beside each value, each entry of a map and each list element.

State with a time to live has a separate name: a value is stored as a pair of the time of its last write and itself, a
map as such pairs by key, a list as a list of such pairs. A read compares these times, so that expired state is never
visible; a timer removes it, even if its key never comes again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from windrow.functions import TimeDomain
from windrow.state import StateTtlConfig
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.operators.state.model import GrowingList, StoredList

# Any in this module: state of every type.

_SUFFIXES: Final = {TimeDomain.PROCESSING_TIME: "\0ttl", TimeDomain.EVENT_TIME: "\0event ttl"}

_CLEAN_UPS: Final = 16
"""The most clean-ups of a state, each of which reads all of its entries, within a time to live, approximately."""


class TtlTimer(NamedTuple):
    """The namespace of the timers that remove expired state: the state's name, and its time to live in milliseconds."""

    name: str
    millis: int


def cell_name(name: str, ttl: StateTtlConfig | None) -> str:
    """Returns the name under which a state with that time to live is stored."""
    return name if ttl is None else name + _SUFFIXES[ttl.time_domain]


def other_cells(name: str, cell: str) -> list[str]:
    """Returns the names under which the state is stored if its descriptor had another time to live, or none, before."""
    return [other for other in (name, *(name + suffix for suffix in _SUFFIXES.values())) if other != cell]


@dataclass(slots=True, eq=False)
class TtlCells:
    """The view of a key's state that a handle with a time to live has.

    Its dictionary methods serve handles on a single value, which expires as a whole.
    """

    cells: dict[str, Any]
    cell: str
    millis: int
    refresh_on_read: bool
    now: int  # the time of the call, in the time domain of the state
    set_timer: Callable[[int], None]  # schedules a clean-up at a time in that domain

    def is_alive(self, written: int) -> bool:
        """Returns whether a value that was written at a time has not expired yet."""
        return written + self.millis > self.now

    def begin(self) -> None:
        """Schedules a clean-up if the state is about to be written for the first time."""
        if self.cell not in self.cells:
            self.set_timer(min(self.now + self.millis, MAX_TIMESTAMP))

    def write(self, value: Any) -> None:
        """Store one value, written now."""
        self.begin()
        before = self.cells.get(self.cell)
        # Elements may come out of order in event time, and the latest time of a write counts.
        written = self.now if before is None else max(self.now, before[0])
        self.cells[self.cell] = (written, value)

    def get(self, name: str, default: Any = None, /) -> Any:
        stored = self.cells.get(self.cell)
        if stored is None or not self.is_alive(stored[0]):
            return default
        if self.refresh_on_read:
            self.write(stored[1])
        return stored[1]

    def pop(self, name: str, default: Any, /) -> Any:
        return self.cells.pop(self.cell, default)

    def __getitem__(self, name: str, /) -> Any:
        return self.get(name)

    def __setitem__(self, name: str, value: Any, /) -> None:
        self.write(value)

    def __contains__(self, name: object, /) -> bool:
        stored = self.cells.get(self.cell)
        return stored is not None and self.is_alive(stored[0])


Cells: TypeAlias = dict[str, Any] | TtlCells
"""The state of a key by name, or the view of it that handles with a time to live have."""


def clean_up(cells: dict[str, Any], timer: TtlTimer, domain: TimeDomain, now: int) -> int | None:
    """Removes expired parts of a state; returns the time of the next clean-up, or None if none is needed."""
    cell = timer.name + _SUFFIXES[domain]
    stored = cells.get(cell)
    if stored is None:
        return None
    expired = now - timer.millis  # the latest time of writes that have expired
    left: Any
    if type(stored) is dict:
        left = {key: entry for key, entry in stored.items() if entry[0] > expired}
        times = [written for written, _ in left.values()]
    elif isinstance(stored, (GrowingList, StoredList)):
        entries = list(stored)
        left = GrowingList(entry for entry in entries if entry[0] > expired)
        times = [written for written, _ in left]
        if len(left) == len(entries):
            left = stored  # keeps the segments that lie in storage
    else:
        left = stored
        times = [stored[0]] if stored[0] > expired else []
    if not times:
        del cells[cell]
        return None
    cells[cell] = left
    first: int = min(times) + timer.millis
    last: int = max(times) + timer.millis
    following = min(max(first, now + timer.millis // _CLEAN_UPS), last, MAX_TIMESTAMP)
    # State that outlives the end of time needs no further clean-up.
    return following if following > now else None
