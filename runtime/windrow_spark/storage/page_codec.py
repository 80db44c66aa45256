"""Encodes pages of keyed state as bytes.

A page is written column by column: keys, the contents of windows, timers. Its bytes are compressed, because Spark moves
state at some tens of megabytes a second, and a compressor does better than that.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain, count, islice, repeat
from operator import attrgetter, eq
from typing import Any, Final

from windrow.rows.equality import as_keys
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.operators.state.model import (
    GrowingList,
    KeyState,
    OperatorState,
    SegmentReader,
    SessionColumns,
    StoredList,
    TimerQueue,
    WindowEntry,
)
from windrow_spark.storage.packed import Packed, compress, decode, decompress, encode, packed
from windrow_spark.storage.standard_values import CollisionBudget
from windrow_spark.storage.tuning import LONG_LISTS, ListTuning
from windrow_spark.storage.values import StateCodec, damage_errors

# Any in this module: state is of the user's types.

TIMERS: Final = ("event_timers", "processing_timers")
"""The attributes of an operator's state that hold timers."""

_PAGE: Final = "page"
_NONE: Final = packed("")
_LISTS: Final = frozenset({GrowingList, StoredList})
_OF_A_KEY: Final = ("arrivals", "live", "state", "windows")
_OF_AN_ENTRY: Final = ("contents", "born", "trigger_state", "window_state")


def keys_in(state: OperatorState) -> dict[Hashable, None]:
    """Returns the keys of a state, each once, in their order."""
    timers = (key for name in TIMERS for key, _, _ in getattr(state, name))
    tables = chain.from_iterable(chain(state.tables.values(), state.fired.values()))
    return dict.fromkeys(chain(state.keys, tables, state.sessions_to_columns().keys, timers))


class PageCodec:
    """Encodes and decodes pages."""

    def __init__(self, codec: StateCodec, lists: ListTuning = LONG_LISTS) -> None:
        self._codec = codec
        self._lists = lists

    def dump(self, state: OperatorState, write_segment: Callable[[bytes], int]) -> bytes:
        """Encodes a page, as no bytes if it has no keys.

        Elements of long lists move into segments, which ``write_segment`` stores and numbers.
        """
        names = list(keys_in(state))
        if not names:
            return b""
        columns = [
            self._codec.pack(names),
            self._pack_tables(state.table_size, state.tables, names),
            self._pack_sessions(state.sessions_to_columns(), names, write_segment),
            self._pack_keys(state, write_segment),
            *(self._pack_timers(getattr(state, name), names) for name in TIMERS),
        ]
        if state.fired:
            # Few steps have any, and the pages of others stay as they are.
            columns.append(self._pack_tables(state.table_lateness, state.fired, names))
        return compress(encode(packed(_PAGE, columns=columns)))

    def _pack_tables(self, length: int, tables: dict[int, dict[Hashable, Any]], names: list[Hashable]) -> Packed:
        tables = {start: table for start, table in tables.items() if table}
        packed_tables = [
            packed("", _members(list(table), names), columns=[self._codec.pack(list(table.values()))])
            for table in tables.values()
        ]
        return packed("", columns=[self._codec.pack([length, *tables]), *packed_tables])

    def _pack_sessions(
        self, sessions: SessionColumns, names: list[Hashable], write_segment: Callable[[bytes], int]
    ) -> Packed:
        if not sessions:
            return _NONE
        self.store_tails(sessions, write_segment)
        columns = map(self._codec.pack, (sessions.starts, sessions.ends, sessions.contents))
        return packed("", _members(sessions.keys, names), columns=list(columns))

    def store_tails(self, sessions: SessionColumns, write_segment: Callable[[bytes], int]) -> None:
        """Moves the elements of long lists into segments, before sessions are divided among pages."""
        if not _LISTS.isdisjoint(map(type, sessions.contents)):
            sessions.contents = [self._store_tail(contents, write_segment) for contents in sessions.contents]

    def _pack_keys(self, state: OperatorState, write_segment: Callable[[bytes], int]) -> Packed:
        if not state.keys:
            return _NONE
        pack = self._codec.pack
        key_states = list(state.keys.values())
        arrivals, lives, states, windows = (list(map(attrgetter(name), key_states)) for name in _OF_A_KEY)
        entries: list[WindowEntry] = list(chain.from_iterable(map(dict.values, windows)))
        if not _LISTS.isdisjoint(map(type, map(attrgetter("contents"), entries))):
            for entry in entries:
                entry.contents = self._store_tail(entry.contents, write_segment)
        for cells in filter(None, states):
            cells.update({name: self._store_tail(value, write_segment) for name, value in cells.items()})
        lives = [live if isinstance(live, list) else list(live) for live in lives]
        contents, born, triggers, window_states = (list(map(attrgetter(name), entries)) for name in _OF_AN_ENTRY)
        # The live windows of a key mostly equal its windows, and are not stored twice then.
        are_alike = any(lives) and all(map(eq, lives, map(list, windows)))
        columns = [
            pack(arrivals),
            _NONE if are_alike else pack(lives),
            pack(states),
            pack(list(chain.from_iterable(windows))),
            pack(contents),
            pack(born),
            pack([state or None for state in triggers]),
            pack([state or None for state in window_states]),
        ]
        return packed("", array("I", map(len, windows)).tobytes(), columns=columns)

    def _store_tail(self, value: Any, write_segment: Callable[[bytes], int]) -> Any:
        """Moves the elements of a long list into a segment, so that the page stays small."""
        class_ = type(value)
        if class_ is GrowingList:
            tail, segments = value, ()
        elif class_ is StoredList:
            tail, segments = value.tail, value.segments
        else:
            return value
        if len(tail) < self._lists.tail_elements:
            return value
        data = self._codec.dumps(tail)
        if len(data) < self._lists.segment_bytes:
            return value
        return StoredList(None, (*segments, write_segment(compress(data))), [])

    def _pack_timers(self, timers: TimerQueue, names: list[Hashable]) -> Packed:
        if not len(timers):
            return _NONE
        keys, namespaces, times = zip(*timers, strict=True)
        return packed("", _members(list(keys), names), columns=[self._codec.pack(namespaces), self._codec.pack(times)])

    def load(self, data: bytes, reader: SegmentReader) -> OperatorState:
        """Decodes the state of a page; ``reader`` reads segments of its long lists once they are needed."""
        with damage_errors():
            page = decode(decompress(data))
            if page.tag != _PAGE:
                raise damaged_state(f"a page that begins {page.tag!r}")
            keys, *parts = page.columns
            return _PageReader(self._codec, reader, keys).state(*parts)

    def load_segment(self, data: bytes, reader: SegmentReader) -> list[Any]:
        """Decodes the elements of a segment."""
        return self._codec.loads(decompress(data), reader)

    def dump_shared(self, shared: dict[str, Any]) -> bytes:
        """Encodes the state of a step that belongs to no key; an empty one as no bytes."""
        return self._codec.dumps([shared]) if shared else b""

    def load_shared(self, data: bytes) -> dict[str, Any]:
        """Decodes the state that :meth:`dump_shared` encoded."""
        with damage_errors():
            (shared,) = self._codec.loads(data) if data else [{}]
            return dict(shared)


class _PageReader:
    """Reads the columns of one page."""

    def __init__(self, codec: StateCodec, reader: SegmentReader, keys: Packed) -> None:
        self._codec = codec
        self._reader = reader
        self._budget = CollisionBudget()
        self._keys = self._budget.checked(as_keys(self._budget.checked(self._read(keys))))

    def state(
        self, tables: Packed, sessions: Packed, keyed: Packed, events: Packed, clocks: Packed, *fired: Packed
    ) -> OperatorState:
        state = OperatorState()
        state.table_size, state.tables = self._tables(tables)
        for kept in fired:
            state.table_lateness, state.fired = self._tables(kept)
        if sessions.columns:
            state.session_columns = self._sessions(sessions)
        if keyed.columns:
            # Keys with timers alone come last.
            state.keys = dict(zip(self._keys, self._key_states(keyed), strict=False))
        state.event_timers = self._timers(events)
        state.processing_timers = self._timers(clocks)
        return state

    def _tables(self, column: Packed) -> tuple[int, dict[int, dict[Hashable, Any]]]:
        """The tables that :meth:`PageCodec._pack_tables` was given, and the length."""
        tables: dict[int, dict[Hashable, Any]] = {}
        length, *starts = self._typed(column.columns[0], int)
        for start, table in zip(starts, column.columns[1:], strict=True):
            (contents,) = table.columns
            tables[start] = dict(zip(self._owners(table.data), self._read(contents), strict=True))
        return length, tables

    def _read(self, column: Packed) -> list[Any]:
        return self._codec.unpack(column, self._reader)

    def _typed(self, column: Packed, *kinds: type[Any]) -> list[Any]:
        """Returns the values of a column after checking their classes; a step would notice wrong ones much later."""
        values = self._read(column)
        if not set(map(type, values)) <= set(kinds):
            raise TypeError(f"values that are not {kinds[0].__name__}")
        return values

    def _owners(self, members: bytes) -> Sequence[Hashable]:
        """Returns the keys that :func:`_members` encoded."""
        return [self._keys[index] for index in array("I", members)] if members else self._keys

    def _sessions(self, column: Packed) -> SessionColumns:
        *counts, starts, ends, contents = column.columns
        keys = list(self._owners(column.data))
        sessions = SessionColumns(keys, self._typed(starts, int), self._typed(ends, int), self._read(contents))
        if counts:
            # Older pages name each key once, and have the number of its sessions.
            (numbers,) = [self._typed(each, int) for each in counts]
            if min(numbers) < 1 or len(numbers) != len(keys):
                raise ValueError(f"{len(numbers)} numbers of sessions of {len(keys)} keys")
            sessions.keys = list(chain.from_iterable(map(repeat, keys, numbers)))
        lengths = {len(sessions), len(sessions.starts), len(sessions.ends), len(sessions.contents)}
        if len(lengths) > 1:
            raise ValueError(f"{len(sessions)} sessions, {len(sessions.starts)} starts")
        return sessions

    def _key_states(self, column: Packed) -> Iterable[KeyState]:
        arrivals, lives, cells, windows, contents, born, triggers, states = column.columns
        entries = map(
            WindowEntry,
            self._read(contents),
            self._typed(born, int),
            self._typed(triggers, dict, type(None)),
            self._typed(states, dict, type(None)),
        )
        pairs = zip(self._read(windows), entries, strict=True)
        numbers = array("I", column.data)
        windows_by_key: Iterable[dict[Any, WindowEntry]]
        if all(map((1).__eq__, numbers)):
            # One window per key is common, for example with sessions.
            windows_by_key = ({window: entry} for window, entry in pairs)
        else:
            windows_by_key = (self._windows(list(islice(pairs, number))) for number in numbers)
        entries_by_key = list(windows_by_key)
        live = list(map(list, entries_by_key)) if not lives.tag else self._typed(lives, list)
        columns = (entries_by_key, live, self._typed(arrivals, int), self._typed(cells, dict))
        return [KeyState(*row) for row in zip(*columns, strict=True)]

    def _windows(self, pairs: list[tuple[Any, WindowEntry]]) -> dict[Any, WindowEntry]:
        self._budget.checked([window for window, _ in pairs])
        return dict(pairs)

    def _timers(self, column: Packed) -> TimerQueue:
        if not column.columns:
            return TimerQueue()
        namespaces, times = column.columns
        timers = zip(self._owners(column.data), self._read(namespaces), self._typed(times, int), strict=True)
        return TimerQueue(self._budget.checked(list(timers)))


def _members(keys: list[Hashable], names: list[Hashable]) -> bytes:
    """Encodes the indices of keys among those of a page; empty if they are all of them in order, the usual case."""
    if keys == names:
        return b""
    return array("I", map(dict(zip(names, count(), strict=False)).__getitem__, keys)).tobytes()
