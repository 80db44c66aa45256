"""Keeps many live sessions of one key in order of time, so that none is searched from the beginning."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from windrow.windows import TimeWindow

MANY_SESSIONS: Final = 32
"""The fewest live sessions of a key that :class:`LiveSessions` keeps; a list of fewer is searched faster."""


class LiveSessions:
    """The live sessions of a key, none of which touches another one.

    Iterating yields them in the order of their creation, as in the list of fewer sessions.
    """

    __slots__ = ("_births", "_by_time", "_next")

    def __init__(self, sessions: Iterable[TimeWindow]) -> None:
        # A merged session has the number of the earliest session that was merged into it.
        self._births = {session: number for number, session in enumerate(sessions)}
        self._by_time = sorted(self._births)
        self._next = len(self._births)

    def __len__(self) -> int:
        return len(self._by_time)

    def __contains__(self, session: object) -> bool:
        return session in self._births

    def __iter__(self) -> Iterator[TimeWindow]:
        return iter(sorted(self._births, key=self._births.__getitem__))

    def append(self, session: TimeWindow) -> None:
        """Add a session as the newest one."""
        self._add(session, self._next)
        self._next += 1

    def remove(self, session: TimeWindow) -> None:
        """Remove a session."""
        del self._births[session]
        del self._by_time[bisect_left(self._by_time, session)]

    def touching(self, start: int, end: int) -> list[TimeWindow]:
        """Returns the sessions that a window touches or overlaps, in the order of their creation."""
        by_time = self._by_time
        # Of the sessions that begin before the window, only the last one may reach it: ends are in order as well.
        first = bisect_left(by_time, (start,))
        if first and by_time[first - 1][1] >= start:
            first -= 1
        last = first
        while last < len(by_time) and by_time[last][0] <= end:
            last += 1
        return sorted(by_time[first:last], key=self._births.__getitem__)

    def replace(self, sessions: Iterable[TimeWindow], merged: TimeWindow) -> None:
        """Replace several sessions by the one that they were merged into, which counts as old as the oldest."""
        birth = min([self._births[session] for session in sessions])
        for session in sessions:
            self.remove(session)
        self._add(merged, birth)

    def _add(self, session: TimeWindow, birth: int) -> None:
        self._births[session] = birth
        self._by_time.insert(bisect_left(self._by_time, session), session)
