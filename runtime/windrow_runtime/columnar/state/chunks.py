"""Rows of state in chunks: what a batch adds is appended, and chunks are read when something in them is due.

The newest rows are the tail, which lies in the group's own record. A tail that has grown becomes a chunk; many chunks
of one size become a larger one, so that there are few, and each row is written a few times at most, however long it
stays (O'Neil et al., The log-structured merge-tree, 1996).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from windrow.errors import IncompatibleStateError
from windrow_runtime.codecs.damage import damaged_state
from windrow_runtime.operators.state.page_store import PageStore
from windrow_runtime.operators.state.state_errors import part_missing
from windrow_runtime.storage.compression import compress as compressed
from windrow_runtime.storage.compression import decompress
from windrow_runtime.storage.tuning import ROW_CHUNKS, ChunkTuning

__all__ = [
    "Chunk",
    "Chunks",
    "Measure",
    "concatenated",
    "dump_entries",
    "dump_rows",
    "load_entries",
    "load_rows",
    "no_rows",
]

# Any in this module: pyarrow has no types.

_WORTH_COMPRESSING: Final = 1 << 10
_STREAM: Final = b"\xff\xff\xff\xff"  # how a stream of Arrow's begins, and nothing that is compressed
_ENTRY = struct.Struct("<qqq")
_ARRIVED = struct.Struct("<q")


@dataclass(slots=True)
class Chunk:
    """What is known of a chunk without reading it.

    Attributes:
        number: Its number in the store.
        size: Its size in bytes.
        due: When something in it is due next, in milliseconds.
        first: The first place in time of its rows.
        last: The last one.
    """

    number: int
    size: int
    due: int
    first: int
    last: int


def dump_rows(rows: Any, *, compress: bool = True) -> bytes:
    """A record batch as bytes. Undone by :func:`load_rows`."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    data: bytes = sink.getvalue().to_pybytes()
    # As a whole: Arrow would set up a compressor for each buffer, which takes longer than to compress a small page.
    return compressed(data) if compress and rows.nbytes > _WORTH_COMPRESSING else data


def load_rows(data: bytes, schema: Any) -> Any:
    """The record batch that :func:`dump_rows` was given.

    Raises:
        CheckpointError: If the bytes are damaged.
        IncompatibleStateError: If they hold other columns.
    """
    import pyarrow as pa

    # Older checkpoints hold streams that Arrow compressed.
    stream = data if data[:4] == _STREAM else decompress(data)
    try:
        with pa.ipc.open_stream(stream) as reader:
            rows = reader.read_next_batch()
        # Offsets that point behind their buffers would otherwise end the process when the rows are used.
        rows.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise damaged_state(
            str(error), message="columns of the stored state cannot be read", expected=str(schema)
        ) from error
    if not rows.schema.equals(schema):
        raise IncompatibleStateError(
            "the stored state has other columns",
            given=str(rows.schema).replace("\n", ", "),
            expected=str(schema).replace("\n", ", "),
        )
    return rows


def concatenated(batches: Sequence[Any]) -> Any:
    """Record batches as one."""
    import pyarrow as pa

    filled = [batch for batch in batches if batch.num_rows]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        return batches[0]
    return pa.Table.from_batches(filled).combine_chunks().to_batches()[0]


def no_rows(schema: Any) -> Any:
    """A record batch of these columns with nothing in it."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema)


@dataclass(frozen=True, slots=True)
class Measure:
    """What a chunk's entry says of its rows.

    Attributes:
        due: When something in them is due next, in milliseconds.
        first: Their first place in time.
        last: Their last one.
    """

    due: int
    first: int
    last: int


class Chunks:
    """The rows of one step in one key group, in order of arrival.

    Args:
        schema: The columns of rows.
        entries: The chunks that are stored.
        tail: The newest rows, as bytes; empty: there are none.
        tail_due: When something in the tail is due next.
        store: Where chunks are.
        measure: Tells what an entry says of some rows; they are not empty.
        merge: Makes one row of those that belong together.
        arrived: How many elements have got numbers of their arrival, from which on those of others begin.
        tuning: How large chunks are.
    """

    def __init__(
        self,
        schema: Any,
        entries: Iterable[Chunk],
        tail: bytes,
        tail_due: int,
        store: PageStore,
        measure: Callable[[Any], Measure],
        merge: Callable[[Any], Any],
        arrived: int = 0,
        tuning: ChunkTuning = ROW_CHUNKS,
    ) -> None:
        self.tuning = tuning
        self.entries = list(entries)
        self.arrived = arrived
        self.tail_due = tail_due
        self._schema = schema
        self._store = store
        self._measure = measure
        self._merge = merge
        self._tail_bytes = tail
        self._tail: Any = None
        self._held: dict[int, bytes] = {}
        self._room = 0

    @property
    def tail(self) -> bytes:
        """The newest rows, as bytes."""
        return self._tail_bytes

    def read(self, wanted: Callable[[Chunk], bool]) -> Iterator[tuple[Chunk, Any]]:
        """The chunks of which the entry says that they are wanted, with their rows, the oldest first."""
        for entry in list(self.entries):
            if wanted(entry):
                yield entry, self._load(entry)

    def read_tail(self) -> Any:
        """The newest rows."""
        if self._tail is None:
            data = self._tail_bytes
            self._tail = load_rows(data, self._schema) if data else no_rows(self._schema)
        return self._tail

    @contextmanager
    def holding(self, most: int) -> Iterator[None]:
        """Holds the bytes of chunks that are read, up to so many, where they are read several times."""
        self._room = most
        try:
            yield
        finally:
            self._room = 0
            self._held.clear()

    def replace(self, entry: Chunk, rows: Any) -> None:
        """Put other rows in the place of a chunk."""
        if not rows.num_rows:
            self._remove(entry)
            return
        self._put(entry.number, rows, self.entries.index(entry), replaces=True)

    def note(self, entry: Chunk, rows: Any) -> None:
        """Say anew when a chunk is due: these are the rows in it that are not gone."""
        measure = self._measure(rows)
        entry.due, entry.first, entry.last = measure.due, measure.first, measure.last

    def put_tail(self, rows: Any) -> None:
        """Put other rows in the place of the newest ones. They become a chunk if they are many."""
        self._tail = rows
        if not rows.num_rows:
            self._tail_bytes = b""
            return
        data = dump_rows(rows)
        if len(data) <= self.tuning.tail_bytes:
            self._tail_bytes = data
            self.tail_due = self._measure(rows).due
            return
        self._tail_bytes, self._tail = b"", None
        per = max(1, rows.num_rows * self.tuning.largest_chunk // len(data))
        for start in range(0, rows.num_rows, per):
            self._put(self._free_number(), rows.slice(start, per), len(self.entries))
        self._compact()

    def _put(self, number: int, rows: Any, place: int, *, replaces: bool = False) -> None:
        data = dump_rows(rows)
        self._store.put(number, data)
        self._held.pop(number, None)
        measure = self._measure(rows)
        entry = Chunk(number, len(data), measure.due, measure.first, measure.last)
        self.entries[place : place + replaces] = [entry]

    def _remove(self, entry: Chunk) -> None:
        self._store.remove(entry.number)
        self._held.pop(entry.number, None)
        self.entries.remove(entry)

    def _load(self, entry: Chunk) -> Any:
        data = self._held.get(entry.number) or self._store.get(entry.number)
        if data is None:
            raise part_missing(
                "a chunk of the stored state",
                given=f"chunk {entry.number} of {len(self.entries)}",
                expected=f"{entry.size} bytes",
            )
        if entry.number not in self._held and len(data) <= self._room:
            self._held[entry.number] = data
            self._room -= len(data)
        return load_rows(data, self._schema)

    def _free_number(self) -> int:
        taken = {entry.number for entry in self.entries}
        return min(set(range(1, len(taken) + 2)) - taken)

    def _compact(self) -> None:
        """Make one chunk of the last ones, as long as there are many that are not larger than it would be."""
        fanout = self.tuning.fanout
        while len(self.entries) >= fanout:
            last = self.entries[-fanout:]
            total = sum(entry.size for entry in last)
            if total > self.tuning.largest_chunk or max(entry.size for entry in last) > total // 2:
                return
            parts = [self._load(entry) for entry in last]
            merged = self._merge(concatenated(parts))
            for entry in last[1:]:
                self._remove(entry)
            self.replace(last[0], merged)


def dump_entries(entries: Iterable[Chunk], arrived: int = 0) -> bytes:
    """What cannot be told of chunks from their numbers, sizes and timers, which the engine keeps; in their order.

    Args:
        entries: The chunks.
        arrived: How many elements have got numbers; behind the chunks, where there are any.
    """
    found = b"".join([_ENTRY.pack(entry.number, entry.first, entry.last) for entry in entries])
    return found + _ARRIVED.pack(arrived) if arrived else found


def load_entries(
    data: bytes, sizes: Callable[[int], int], dues: Callable[[int], int]
) -> tuple[list[Chunk], int]:
    """The entries and the number that :func:`dump_entries` was given.

    Raises:
        CheckpointError: If the bytes are cut off.
    """
    end = len(data) - len(data) % _ENTRY.size
    if len(data) - end not in (0, _ARRIVED.size):
        raise damaged_state(f"{len(data)} bytes of entries", message="stored state is cut off")
    entries = [
        Chunk(number, sizes(number), dues(number), first, last)
        for number, first, last in _ENTRY.iter_unpack(data[:end])
    ]
    return entries, _ARRIVED.unpack(data[end:])[0] if data[end:] else 0
