"""Computes sessions one after the other, for aggregates that depend on the order in which elements arrived."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["TimeLine", "by_owner"]

T = TypeVar("T")
Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


class TimeLine(Generic[T]):
    """The sessions of one key, which do not touch, and what each holds.

    Attributes:
        held: What they hold, in order of time.
    """

    def __init__(self) -> None:
        self.held: list[T] = []
        self._starts: list[int] = []
        self._ends: list[int] = []

    def take(self, start: int, end: int) -> tuple[int, int, list[T]]:
        """Removes the sessions that a window touches.

        Returns:
            Start and end of the window together with them, in milliseconds, and what they held, in order of time.
        """
        taken = slice(bisect_left(self._ends, start), bisect_right(self._starts, end))
        held = self.held[taken]
        if held:
            start, end = min(start, self._starts[taken.start]), max(end, self._ends[taken.stop - 1])
            del self._starts[taken], self._ends[taken], self.held[taken]
        return start, end, held

    def put(self, start: int, end: int, held: T) -> None:
        """Adds a session that touches no other."""
        place = bisect_left(self._starts, start)
        self._starts.insert(place, start)
        self._ends.insert(place, end)
        self.held.insert(place, held)


def by_owner(owners: Ints, wanted: Mask) -> Sequence[Ints]:
    """The numbers of the wanted rows, apart by owner, each in order of arrival."""
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return ()
    rows = rows[np.argsort(owners[rows], kind="stable")]
    return np.split(rows, np.flatnonzero(np.diff(owners[rows])) + 1)
