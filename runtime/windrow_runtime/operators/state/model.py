"""Defines the state of a keyed step as plain data: the windows and state of each key, and timers.

So a snapshot is one pickle, and an engine can replace an operator's state.

Keys are replaced by those of :mod:`windrow.rows.equality`, when elements arrive and when keys are read from storage.
"""

from __future__ import annotations

import heapq
import math
import pickle
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, repeat
from operator import itemgetter
from typing import Any, Final, Protocol

from windrow.rows.equality import as_keys
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.operators.state.live_sessions import LiveSessions

# Any in this module: state holds values of every type that users choose.


class _Nothing:
    """The class of ``NOTHING``, which stands for missing contents of a window, since None may be an element."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOTHING"

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()

UNFIRED_CELL: Final = "\0unfired"
"""The name, in the state of a trigger, of the number of elements that came since the window last fired."""

_MOST_SCANS: Final = 4
"""The scans over all timers after which a queue keeps every timer in its heap."""


_MOST_MISPLACED: Final = 64
"""The timers that were put back after which a queue sorts all, since each look at the latest ones passes them."""


class GrowingList(list[Any]):
    """A list that belongs to the engine: elements of a window, or list state.

    It may be read from storage as a :class:`StoredList`. A list of the user's, such as an accumulator, may not.
    ``arrivals_by_hash`` is an index for withdrawals, which the contents of windows build and update; it is not stored.
    """

    __slots__ = ("arrivals_by_hash",)
    arrivals_by_hash: Any

    def __reduce__(self) -> tuple[type[GrowingList], tuple[list[Any]]]:
        return GrowingList, (list(self),)


class SegmentReader(Protocol):
    """Reads the segments that an engine has stored."""

    def read_segment(self, number: int) -> list[Any]:
        """Returns the elements of a segment, in order."""


@dataclass(slots=True, eq=False)
class StoredList:
    """A list whose older elements lie in the engine's storage, and are not read when others are added."""

    _reader: SegmentReader | None  # None: the list was encoded for storage
    segments: tuple[int, ...]  # the numbers of the segments, in order; segments never change
    tail: list[Any]

    def append(self, value: Any) -> None:
        """Add one element."""
        self.tail.append(value)

    def extend(self, values: Iterable[Any]) -> None:
        """Add elements."""
        self.tail.extend(values)

    def __iter__(self) -> Iterator[Any]:
        """Reads the segments, and yields all elements in order."""
        assert self._reader is not None, "a list that was put away is read through its page"
        for number in self.segments:
            yield from self._reader.read_segment(number)
        yield from self.tail


@dataclass(slots=True, eq=False)
class WindowEntry:
    """One window of one key: its contents, and its state by name, which is None for most windows."""

    contents: Any = NOTHING
    born: int = 0  # the arrival number of the first element, which orders contents when windows merge
    trigger_state: dict[str, Any] | None = None
    window_state: dict[str, Any] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the entry can be dropped: no contents, no state."""
        return self.contents is NOTHING and not self.trigger_state and not self.window_state

    @property
    def unfired(self) -> int:
        """The number of elements that came since the window last fired, if the operator counts them."""
        number: int = self.trigger_state.get(UNFIRED_CELL, 0) if self.trigger_state else 0
        return number

    @unfired.setter
    def unfired(self, number: int) -> None:
        if number:
            self.trigger_cells()[UNFIRED_CELL] = number
        elif self.trigger_state:
            self.trigger_state.pop(UNFIRED_CELL, None)

    def trigger_cells(self) -> dict[str, Any]:
        """Returns the trigger's state to write to."""
        if self.trigger_state is None:
            self.trigger_state = {}
        return self.trigger_state


class KeyState:
    """The state of one key: the entries of its windows, and keyed state by name."""

    __slots__ = ("arrivals", "live", "state", "windows")

    # This is no dataclass, since default factories would take half as long again for each new key.
    def __init__(
        self,
        windows: dict[Any, WindowEntry] | None = None,
        live: list[Any] | LiveSessions | None = None,
        arrivals: int = 0,
        state: dict[str, Any] | None = None,
    ) -> None:
        self.windows: dict[Any, WindowEntry] = {} if windows is None else windows
        # The live windows in the order of their creation; empty if windows do not merge.
        self.live: list[Any] | LiveSessions = [] if live is None else live
        self.arrivals = arrivals  # numbers the elements
        self.state: dict[str, Any] = {} if state is None else state

    @property
    def is_empty(self) -> bool:
        """Whether the key can be dropped: no windows, no state."""
        return not self.windows and not self.live and not self.state


class TimerQueue:
    """Timers of one time domain: unique by key, namespace and time; they fire in order of time, then of registration.

    A batch sets and deletes most of its timers before any fires. So the heap has no timers beyond ``_horizon``, the
    latest time asked for, unless the queue is asked often, as the interpreter's is: then it has all timers.
    """

    __slots__ = ("_active", "_heap", "_horizon", "_misplaced", "_next", "_scans", "deletions")

    def __init__(self, timers: Sequence[tuple[Hashable, Any, int]] = ()) -> None:
        # The heap may have timers that were deleted, or deleted and set again; the number tells them apart.
        self._active: dict[tuple[Hashable, Any, int], int] = dict(zip(timers, range(len(timers)), strict=True))
        # Active timers are in the order of their numbers, but for some that were put back: these are at the end.
        self._misplaced: set[tuple[Hashable, Any, int]] = set()
        self._heap: list[tuple[int, int, Hashable, Any]] = []
        self._horizon: float = -math.inf
        self._scans = 0  # how often all timers were scanned
        self._next = len(timers)
        self.deletions = 0  # how many timers were deleted

    def register(self, key: Hashable, namespace: Any, time: int) -> None:
        """Set a timer, unless it is set already."""
        timer = (key, namespace, time)
        if timer not in self._active:
            number = self._next
            self._next = number + 1
            self._active[timer] = number
            if time <= self._horizon:
                heapq.heappush(self._heap, (time, number, key, namespace))

    def delete(self, key: Hashable, namespace: Any, time: int) -> None:
        """Delete a timer, if it is set."""
        if self._active.pop((key, namespace, time), None) is None:
            return
        self.deletions += 1
        if len(self._heap) > 64 + 4 * len(self._active):
            self._fill_heap()

    def number(self, key: Hashable, namespace: Any, time: int) -> int | None:
        """Returns the number of a timer, for :meth:`put_back`; None: it is not set."""
        return self._active.get((key, namespace, time))

    def put_back(self, key: Hashable, namespace: Any, time: int, number: int | None) -> None:
        """Makes a timer as it was when it had that number; None: it was not set."""
        timer = (key, namespace, time)
        if number is None:
            self.delete(key, namespace, time)
        elif self._active.get(timer) != number:
            self._active[timer] = number
            self._misplaced.add(timer)
            if time <= self._horizon:
                heapq.heappush(self._heap, (time, number, key, namespace))

    def mark(self) -> int:
        """Returns the number of the next timer to be set, for :meth:`since`."""
        return self._next

    def since(self, mark: int) -> Iterator[tuple[Hashable, Any, int]]:
        """Yields key, namespace and time of each timer that was set after :meth:`mark`, and is still set."""
        active = self._active if len(self._misplaced) < _MOST_MISPLACED else self._ordered()
        for timer in reversed(active):
            if active[timer] >= mark:
                yield timer
            elif timer not in self._misplaced:
                return

    def pop_due(self, time: int) -> tuple[int, Hashable, Any] | None:
        """Remove the earliest timer at or before ``time``; returns its time, key and namespace."""
        if time > self._horizon:
            self._look_as_far_as(time)
        heap = self._heap
        while heap and heap[0][0] <= time:
            due, number, key, namespace = heapq.heappop(heap)
            timer = (key, namespace, due)
            if self._active.get(timer) == number:
                del self._active[timer]
                return due, key, namespace
        return None

    def earliest(self) -> int | None:
        """Returns the time of the earliest timer."""
        heap = self._heap
        while heap:
            due, number, key, namespace = heap[0]
            if self._active.get((key, namespace, due)) == number:
                return due
            heapq.heappop(heap)
        if self._scans >= _MOST_SCANS and self._horizon < math.inf:
            self._look_as_far_as(math.inf)
            return self.earliest()
        self._scans += 1
        return min(map(itemgetter(2), self._active), default=None)

    def _look_as_far_as(self, time: float) -> None:
        """Fill the heap with the timers up to a time, or with all if many times were asked for."""
        self._scans += 1
        self._horizon = time if self._scans <= _MOST_SCANS else math.inf
        self._fill_heap()

    def _fill_heap(self) -> None:
        horizon = self._horizon
        self._heap = [
            (timer[2], number, timer[0], timer[1]) for timer, number in self._active.items() if timer[2] <= horizon
        ]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._active)

    def __iter__(self) -> Iterator[tuple[Hashable, Any, int]]:
        """Yields key, namespace and time of every timer, in order of registration."""
        return iter(self._ordered())

    def _ordered(self) -> dict[tuple[Hashable, Any, int], int]:
        if self._misplaced:
            self._active = dict(sorted(self._active.items(), key=itemgetter(1)))
            self._misplaced.clear()
        return self._active


@dataclass(slots=True)
class SessionColumns:
    """Sessions that have not fired, as columns; those of one key are in order of creation."""

    keys: list[Hashable] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    contents: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        """The number of sessions."""
        return len(self.keys)

    def __iter__(self) -> Iterator[tuple[Hashable, int, int, Any]]:
        """Yields the key, the start, the end and the contents of each session."""
        return zip(self.keys, self.starts, self.ends, self.contents, strict=True)

    def extend(
        self, keys: Iterable[Hashable], starts: Iterable[int], ends: Iterable[int], contents: Iterable[Any]
    ) -> None:
        """Adds sessions at the end."""
        self.keys += keys
        self.starts += starts
        self.ends += ends
        self.contents += contents

    def pick(self, indices: Sequence[int]) -> SessionColumns:
        """Returns the sessions at some indices."""
        keys, starts, ends, contents = self.keys, self.starts, self.ends, self.contents
        return SessionColumns(
            [keys[index] for index in indices],
            [starts[index] for index in indices],
            [ends[index] for index in indices],
            [contents[index] for index in indices],
        )

    def take(self, indices: Sequence[int]) -> SessionColumns:
        """Removes the sessions at some indices, and returns them."""
        sessions = self.pick(indices)
        is_left = bytearray(b"\1") * len(self)
        for index in indices:
            is_left[index] = False
        columns = (self.keys, self.starts, self.ends, self.contents)
        self.keys, self.starts, self.ends, self.contents = (list(compress(column, is_left)) for column in columns)
        return sessions

    def take_keys(self, keys: Container[Hashable]) -> SessionColumns:
        """Removes the sessions of some keys, and returns them."""
        return self.take([index for index, key in enumerate(self.keys) if key in keys])


@dataclass(slots=True, eq=False)
class OperatorState:
    """The state of a keyed step for a set of keys: every key in the interpreter, one key group on Spark.

    A key without windows and state has no entry. ``shared`` is state that belongs to no key, such as the stagger of
    windows.

    ``tables`` are windows of ``table_size`` milliseconds that have not fired, by start: their contents by key. Steps in
    a faster form use them; a key in a table implies an entry and a timer. ``fired`` are those that have fired and are
    kept for ``table_lateness`` milliseconds more. ``sessions`` are the same as ``tables`` for sessions that have not
    fired: three items of a list, start, end and contents, for each session of a key, in order of creation.
    All sessions of a key that is not in ``sessions`` may be in ``session_columns`` instead, as storage keeps them.
    """

    keys: dict[Hashable, KeyState] = field(default_factory=dict)
    event_timers: TimerQueue = field(default_factory=TimerQueue)
    processing_timers: TimerQueue = field(default_factory=TimerQueue)
    shared: dict[str, Any] = field(default_factory=dict)
    tables: dict[int, dict[Hashable, Any]] = field(default_factory=dict)
    table_size: int = 0
    fired: dict[int, dict[Hashable, Any]] = field(default_factory=dict)
    table_lateness: int = 0
    sessions: dict[Hashable, list[Any]] = field(default_factory=dict)
    session_columns: SessionColumns = field(default_factory=SessionColumns)

    def earliest_event_timer(self) -> int | None:
        """Returns the time of the earliest timer in event time, in milliseconds.

        It is the end of time if elements have not fired, since these are counted at the end of the stream.
        """
        earliest = self.event_timers.earliest()
        times = [] if earliest is None else [earliest]
        if self.tables:
            times.append(min(self.tables) + self.table_size - 1)
        if self.fired and (cleanup := min(self.fired) + self.table_size - 1 + self.table_lateness) < MAX_TIMESTAMP:
            times.append(cleanup)
        if self.sessions or self.session_columns:
            ends = (session[1::3] for session in self.sessions.values())
            earliest_end = min(map(min, chain(ends, filter(None, (self.session_columns.ends,)))))
            times.append(min(earliest_end - 1, MAX_TIMESTAMP))
        if not times and any(entry.unfired for entry in self._entries()):
            return MAX_TIMESTAMP
        return min(times, default=None)

    def take_unfired(self) -> int:
        """Returns how many elements came to windows since these last fired, and resets the count."""
        total = 0
        for entry in self._entries():
            total += entry.unfired
            entry.unfired = 0
        return total

    def _entries(self) -> Iterator[WindowEntry]:
        return chain.from_iterable(key_state.windows.values() for key_state in self.keys.values())

    def sessions_to_columns(self) -> SessionColumns:
        """Moves all sessions into ``session_columns``, and returns these."""
        columns = self.session_columns
        if self.sessions:
            items = list(chain.from_iterable(self.sessions.values()))
            counts = [len(session) // 3 for session in self.sessions.values()]
            keys = chain.from_iterable(map(repeat, self.sessions, counts))
            columns.extend(keys, items[::3], items[1::3], items[2::3])
            self.sessions = {}
        return columns

    def sessions_from_columns(self, keys: Container[Hashable] | None = None) -> None:
        """Moves the sessions of some keys, or all sessions, into ``sessions``."""
        columns = self.session_columns
        if columns:
            sessions = columns if keys is None else columns.take_keys(keys)
            for key, *session in sessions:
                self.sessions.setdefault(key, []).extend(session)
            if keys is None:
                self.session_columns = SessionColumns()

    def dump(self) -> bytes:
        """Pickles the state."""
        return pickle.dumps(self)

    @classmethod
    def load(cls, data: bytes) -> OperatorState:
        """Unpickles a state that :meth:`dump` pickled in this process."""
        state: OperatorState = pickle.loads(data)
        # Unpickling makes a separate NaN for each occurrence of a key.
        state.keys = _united(state.keys)
        state.tables = {start: _united(table) for start, table in state.tables.items()}
        state.fired = {start: _united(table) for start, table in state.fired.items()}
        state.sessions = _united(state.sessions)
        state.session_columns.keys = list(as_keys(state.session_columns.keys))
        state.event_timers = _united_timers(state.event_timers)
        state.processing_timers = _united_timers(state.processing_timers)
        return state


def _united_timers(timers: TimerQueue) -> TimerQueue:
    ones = as_keys([key for key, _, _ in timers])
    return TimerQueue([(one, space, time) for one, (_, space, time) in zip(ones, timers, strict=True)])


def _united(table: dict[Hashable, Any]) -> dict[Hashable, Any]:
    return dict(zip(as_keys(list(table)), table.values(), strict=True))
