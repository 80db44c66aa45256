"""Takes back what a call of a user's function changed in the state and the timers of its key, if the call fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from windrow_runtime.operators.copies import own_whole
from windrow_runtime.operators.state.model import GrowingList, StoredList

# Any in this module: state of every type.

_MISSING: Final = object()


class UndoLog:
    """Notes how to take back each change of a call, before the change is made.

    Lists and maps are not copied: of a list its length is noted, of a map the entry that changes. A map of which an
    entry is removed is copied, since its entries have an order.
    """

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def add(self, step: Callable[[], object]) -> None:
        """Notes a function that takes a change back."""
        self._steps.append(step)

    def cell(self, cells: dict[str, Any], name: str, *, in_place: bool = False) -> None:
        """Notes the state of a name, which may be replaced, or if ``in_place`` be changed by a user's function."""
        before = cells.get(name, _MISSING)
        if before is _MISSING:
            self.add(partial(cells.pop, name, None))
        elif isinstance(before, (GrowingList, StoredList)):
            rows = before.tail if isinstance(before, StoredList) else before
            self.add(partial(_restore_list, cells, name, before, rows, len(rows)))
        else:
            self.add(partial(cells.__setitem__, name, own_whole(before) if in_place else before))

    def entry(self, entries: dict[Any, Any], key: Any) -> None:
        """Notes an entry of a map that is about to be set."""
        before = entries.get(key, _MISSING)
        if before is _MISSING:
            self.add(partial(entries.pop, key, None))
        else:
            self.add(partial(entries.__setitem__, key, before))

    def entries(self, entries: dict[Any, Any]) -> None:
        """Notes all entries of a map, in their order."""
        self.add(partial(_restore_map, entries, dict(entries)))

    def take_back(self) -> None:
        """Takes back all changes, the last one first."""
        while self._steps:
            self._steps.pop()()


def _restore_list(cells: dict[str, Any], name: str, before: Any, rows: list[Any], length: int) -> None:
    del rows[length:]
    cells[name] = before


def _restore_map(entries: dict[Any, Any], before: dict[Any, Any]) -> None:
    entries.clear()
    entries.update(before)
