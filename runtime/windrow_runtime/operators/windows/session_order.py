"""Finds the sessions of a key that a window meets among many, which lie in the order in which they were born.

The sessions of a key never touch each other. So their order by time stays the same while they grow, and a list of their
places in this order is searched by halves; what is born is put into it, and what goes makes it be sorted anew.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

# Any in this module: sessions lie in lists of different shapes.

MANY: Final = 16
"""With fewer sessions of a key a look at each of them takes less time."""

_FEW: Final = 4


class SessionOrder:
    """The places of sessions in order of time, for keys that have many.

    Whoever takes sessions out of a list calls :meth:`gone` for each, or :meth:`forget` for all of a key.
    """

    __slots__ = ("_known", "_size")

    def __init__(self, size: int) -> None:
        """Make it for lists in which a session takes ``size`` items."""
        self._size = size
        # The list of sessions, the order of their places, and the places that have gone since somebody asked.
        self._known: dict[Hashable, tuple[Sequence[Any], list[int], list[int]]] = {}

    def met(
        self,
        key: Hashable,
        sessions: Sequence[Any],
        start_of: Callable[[int], int],
        end_of: Callable[[int], int],
        window: tuple[int, int],
    ) -> list[int]:
        """The places of the sessions that a window meets, in the order in which they were born."""
        start, end = window
        known = self._known.get(key)
        if known is not None and known[0] is sessions:
            _, order, gone = known
            size = self._size
            for left in gone:
                order[:] = [place - size if place > left else place for place in order if place != left]
            gone.clear()
        else:
            order = []
            self._known[key] = sessions, order, []
        missing = range(len(order) * self._size, len(sessions), self._size)
        if len(missing) > MANY:
            order[:] = sorted(range(0, len(sessions), self._size), key=start_of)
        else:
            for place in missing:
                insort(order, place, key=start_of)
        found: list[int] = []
        for number in range(bisect_right(order, end, key=start_of) - 1, -1, -1):
            place = order[number]
            if end_of(place) < start:
                break
            found.append(place)
        found.sort()
        return found

    def gone(self, key: Hashable, place: int) -> None:
        """Takes note that a session was taken out of a list: those behind it have moved up."""
        known = self._known.get(key)
        if known is None:
            return
        known[2].append(place)
        if len(known[2]) > _FEW:
            # To sort all anew takes less time.
            del self._known[key]

    def forget(self, key: Hashable) -> None:
        """Forgets the order of a key, whose sessions have other places now."""
        if self._known:
            self._known.pop(key, None)

    def clear(self) -> None:
        """Forgets all keys, as the state is another one."""
        self._known.clear()
