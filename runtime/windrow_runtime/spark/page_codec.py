"""Pages of keyed state as bytes.

A page is written column by column: keys, the contents of windows, timers. Its bytes are compressed, because Spark moves
state at some tens of megabytes a second, and a compressor does better than that.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from typing import Any, Final

from windrow.errors import UnsupportedOperationError, WindrowError
from windrow_runtime.codecs.compression import compress, decompress
from windrow_runtime.codecs.damage import damaged_state
from windrow_runtime.operators.one_nan import with_one_nan
from windrow_runtime.operators.partition import keys_in
from windrow_runtime.operators.state import NOTHING, KeyState, OperatorState, TimerQueue, WindowEntry
from windrow_runtime.operators.stored_list import GrowingList, SegmentReader, StoredList
from windrow_runtime.spark.state_codec import Packed, StateCodec

__all__ = ["PageCodec"]

# Any in this module: state is of the user's types.

_TAIL_ELEMENTS: Final = 32
_SEGMENT_BYTES: Final = 4096


class PageCodec:
    """Encodes and decodes pages.

    Args:
        codec: Encodes columns of values.
    """

    def __init__(self, codec: StateCodec) -> None:
        self._codec = codec

    def dump(self, state: OperatorState, write_segment: Callable[[bytes], int]) -> bytes:
        """A page.

        Args:
            state: What it holds. Long lists in it become stored lists.
            write_segment: Stores a segment of a long list, and gives its number.

        Raises:
            UnsupportedOperationError: For a value that cannot be stored.
        """
        try:
            return self._dump(state, write_segment)
        except RecursionError as error:
            raise UnsupportedOperationError(
                "a value of the state is nested too deeply to be stored, or holds itself",
                expected="values of some hundred levels at most",
            ) from error

    def _dump(self, state: OperatorState, write_segment: Callable[[bytes], int]) -> bytes:
        names = list(keys_in(state))
        columns = (
            "page",
            self._codec.pack(names),
            self._pack_tables(state, names),
            self._pack_keys(state, write_segment),
            self._pack_timers(state.event_timers, names),
            self._pack_timers(state.processing_timers, names),
        )
        return compress(self._codec.dumps(columns))

    def _pack_tables(self, state: OperatorState, names: list[Hashable]) -> Packed:
        tables = [
            (start, _members(list(table), names), self._codec.pack(list(table.values())))
            for start, table in state.tables.items()
            if table
        ]
        return (state.table_size, *tables)

    def _pack_keys(self, state: OperatorState, write_segment: Callable[[bytes], int]) -> Packed:
        if not state.keys:
            return ()
        pack = self._codec.pack
        held = list(state.keys.values())
        windows = [window for key_state in held for window in key_state.windows]
        entries = [entry for key_state in held for entry in key_state.windows.values()]
        for entry in entries:
            entry.contents = self._store_tail(entry.contents, write_segment)
        contents = [entry.contents for entry in entries]
        present = [found is not NOTHING for found in contents]
        for key_state in held:
            for name, value in key_state.state.items():
                key_state.state[name] = self._store_tail(value, write_segment)
        return (
            pack([key_state.arrivals for key_state in held]),
            pack([key_state.live for key_state in held]),
            pack([key_state.state for key_state in held]),
            array("I", [len(key_state.windows) for key_state in held]).tobytes(),
            pack(windows),
            bytes(present),
            pack([found for found in contents if found is not NOTHING]),
            pack([entry.born for entry in entries]),
            pack([entry.trigger_state or None for entry in entries]),
            pack([entry.window_state or None for entry in entries]),
        )

    def _store_tail(self, value: Any, write_segment: Callable[[bytes], int]) -> Any:
        """Moves the elements of a long list into a segment, so that the page stays small."""
        kind = type(value)
        if kind is GrowingList:
            tail, segments = value, ()
        elif kind is StoredList:
            tail, segments = value.tail, value.segments
        else:
            return value
        if len(tail) < _TAIL_ELEMENTS:
            return value
        data = self._codec.dumps(self._codec.pack(tail))
        if len(data) < _SEGMENT_BYTES:
            return value
        number = write_segment(compress(data))
        return StoredList(_NO_READER, (*segments, number), [])

    def _pack_timers(self, timers: TimerQueue, names: list[Hashable]) -> Packed:
        if not len(timers):
            return ()
        keys, namespaces, times = zip(*timers, strict=True)
        return (_members(list(keys), names), self._codec.pack(namespaces), self._codec.pack(times))

    def load(self, data: bytes, reader: SegmentReader) -> OperatorState:
        """A page that :meth:`dump` gave.

        Args:
            data: The page.
            reader: Reads segments of long lists, when somebody asks for them.

        Raises:
            CheckpointError: If the bytes are damaged.
            IncompatibleStateError: If they name a class that the plan does not know.
        """
        with _damages_told():
            tag, keys, tables, held, events, clocks = self._codec.loads(decompress(data))
            if tag != "page":
                raise damaged_state(f"a page that begins {tag!r}")
            unpacked = with_one_nan(self._codec.unpack(keys, reader))
            state = OperatorState()
            state.table_size, *windows = tables
            for start, members, contents in windows:
                owners = _owners(members, unpacked)
                state.tables[start] = dict(zip(owners, self._codec.unpack(contents, reader), strict=True))
            if held:
                state.keys = dict(zip(unpacked, self._load_keys(held, reader), strict=False))
            state.event_timers = self._load_timers(events, unpacked)
            state.processing_timers = self._load_timers(clocks, unpacked)
        return state

    def _load_keys(self, held: Packed, reader: SegmentReader) -> Iterable[KeyState]:
        def unpack(column: Packed) -> list[Any]:
            return self._codec.unpack(column, reader)

        arrivals, lives, cells, counts, windows, present, contents, born, triggers, states = held
        filled = iter(unpack(contents))
        entries = map(
            WindowEntry,
            [next(filled) if there else NOTHING for there in present],
            unpack(born),
            unpack(triggers),
            unpack(states),
        )
        pairs = zip(unpack(windows), entries, strict=True)
        numbers = array("I", counts)
        held_by_key: Iterable[dict[Any, WindowEntry]]
        if all(map((1).__eq__, numbers)):
            # One window for each key is common, as sessions are.
            held_by_key = ({window: entry} for window, entry in pairs)
        else:
            held_by_key = (dict(islice(pairs, number)) for number in numbers)
        columns = (held_by_key, unpack(lives), unpack(arrivals), unpack(cells))
        return [KeyState(*row) for row in zip(*columns, strict=True)]

    def _load_timers(self, packed: Packed, keys: Sequence[Hashable]) -> TimerQueue:
        if not packed:
            return TimerQueue()
        members, namespaces, times = packed
        unpack = self._codec.unpack
        return TimerQueue(list(zip(_owners(members, keys), unpack(namespaces), unpack(times), strict=True)))

    def load_segment(self, data: bytes, reader: SegmentReader) -> list[Any]:
        """The elements of a segment."""
        with _damages_told():
            return self._codec.unpack(self._codec.loads(decompress(data)), reader)

    def dump_shared(self, shared: dict[str, Any]) -> bytes:
        """What belongs to a step itself."""
        return self._codec.dumps(self._codec.pack([shared])) if shared else b""

    def load_shared(self, data: bytes) -> dict[str, Any]:
        """What :meth:`dump_shared` was given."""
        if not data:
            return {}
        with _damages_told():
            (shared,) = self._codec.unpack(self._codec.loads(data))
            return dict(shared)


def _members(keys: list[Hashable], names: list[Hashable]) -> bytes:
    """Which keys of a page these are; nothing: all, in order, which is so most often."""
    if keys == names:
        return b""
    return array("I", map(dict(zip(names, count(), strict=False)).__getitem__, keys)).tobytes()


def _owners(members: bytes, names: Sequence[Hashable]) -> Iterable[Hashable]:
    """The keys that :func:`_members` was given."""
    return map(names.__getitem__, array("I", members)) if members else names


@contextmanager
def _damages_told() -> Iterator[None]:
    """Says of whatever bytes lead to, that are not what was written, that they are damaged."""
    try:
        yield
    except WindrowError:
        raise
    except Exception as error:
        raise damaged_state(f"{type(error).__name__}: {error}") from error


class _NoReader:
    def read_segment(self, number: int) -> list[Any]:
        raise AssertionError("a list that was put away is read through its page")


_NO_READER: Final = _NoReader()
