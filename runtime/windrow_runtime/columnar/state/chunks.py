"""Rows of state in chunks: what a batch adds is appended, and chunks are read when something in them is due.

The newest rows are the tail, which lies in the group's own record. A tail that has grown becomes a chunk; many chunks
of one size become a larger one, so that there are few, and each row is written a few times at most, however long it
stays (O'Neil et al., The log-structured merge-tree, 1996).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec

from windrow.errors import IncompatibleStateError
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.storage.group_record import PageStore, StepRecord, present
from windrow_runtime.storage.packed import compress as compressed
from windrow_runtime.storage.packed import decompress
from windrow_runtime.storage.tuning import ROW_CHUNKS, ChunkTuning

# Any in this module: pyarrow has no types.

_WORTH_COMPRESSING: Final = 1 << 10
_STREAM: Final = b"\xff\xff\xff\xff"  # how a stream of Arrow's begins, and nothing that is compressed
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
_ENTRIES: Final = msgspec.msgpack.Decoder(tuple[int, list[tuple[_Number, int, int]]])


class Measure(NamedTuple):
    """A summary of the rows in a chunk, by which a batch decides whether to read it.

    Attributes:
        due: When something in them is due next, in milliseconds.
        first: Their first place in time.
        last: Their last one.
    """

    due: int
    first: int
    last: int


@dataclass(slots=True)
class Chunk:
    """The entry of a chunk, which is known without reading it.

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


class Chunks:
    """The rows of one step in one key group, in order of arrival, during a batch.

    The step's record has the tail in the place of the first page, and a page for each chunk.

    Args:
        record: The step's part of the group's record; :meth:`end_batch` changes it.
        schema: The columns of rows.
        store: Where chunks are.
        measure: Summarises rows, which are not empty.
        merge: Makes one row of those that belong together.
        tuning: How large chunks are.

    Attributes:
        entries: The chunks that are stored.
        arrived: How many elements have got numbers of their arrival, from which on those of others begin.
        tail: The newest rows, as bytes; empty: there are none.
        tail_due: When something in the tail is due next.
    """

    def __init__(
        self,
        record: StepRecord,
        schema: Any,
        store: PageStore,
        measure: Callable[[Any], Measure],
        merge: Callable[[Any], Any],
        tuning: ChunkTuning = ROW_CHUNKS,
    ) -> None:
        self.tuning = tuning
        self.arrived, self.entries = _load_entries(record)
        self.tail = record.inline
        self.tail_due = record.events[0]
        self._record = record
        self._schema = schema
        self._store = store
        self._measure = measure
        self._merge = merge
        self._tail_rows: Any = None
        self._held: dict[int, bytes] = {}
        self._room = 0

    def end_batch(self) -> None:
        """Fill in the record."""
        record = self._record
        record.inline = self.tail
        # Where nothing is left, numbers begin anew.
        known = (self.arrived, [(entry.number, entry.first, entry.last) for entry in self.entries])
        record.shared = msgspec.msgpack.encode(known) if self.tail or self.entries else b""
        record.clear_pages(1 + max((entry.number for entry in self.entries), default=0))
        if self.tail:
            record.sizes[0], record.events[0] = len(self.tail), self.tail_due
        for entry in self.entries:
            record.sizes[entry.number], record.events[entry.number] = entry.size, entry.due

    def read(self, wanted: Callable[[Chunk], bool]) -> Iterator[tuple[Chunk, Any]]:
        """Reads the chunks whose entries are wanted, the oldest first."""
        for entry in list(self.entries):
            if wanted(entry):
                yield entry, self._load(entry)

    def read_tail(self) -> Any:
        """The newest rows."""
        if self._tail_rows is None:
            self._tail_rows = load_rows(self.tail, self._schema) if self.tail else no_rows(self._schema)
        return self._tail_rows

    @contextmanager
    def holding(self, most: int) -> Iterator[None]:
        """Holds at most this many bytes of chunks that are read, for whoever reads them several times."""
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
        """Note that only these rows of a chunk are not gone: it is due when they are."""
        entry.due, entry.first, entry.last = self._measure(rows)

    def put_tail(self, rows: Any) -> None:
        """Put other rows in the place of the newest ones. They become a chunk if they are many."""
        self._tail_rows = rows
        if not rows.num_rows:
            self.tail = b""
            return
        data = dump_rows(rows)
        if len(data) <= self.tuning.tail_bytes:
            self.tail = data
            self.tail_due = self._measure(rows).due
            return
        self.tail, self._tail_rows = b"", None
        per = max(1, rows.num_rows * self.tuning.largest_chunk // len(data))
        for start in range(0, rows.num_rows, per):
            self._put(self._free_number(), rows.slice(start, per), len(self.entries))
        self._compact()

    def _put(self, number: int, rows: Any, place: int, *, replaces: bool = False) -> None:
        data = dump_rows(rows)
        self._store.put(self._stored_under(number), data)
        self._held.pop(number, None)
        self.entries[place : place + replaces] = [Chunk(number, len(data), *self._measure(rows))]

    def _remove(self, entry: Chunk) -> None:
        self._store.remove(self._stored_under(entry.number))
        self._held.pop(entry.number, None)
        self.entries.remove(entry)

    def _load(self, entry: Chunk) -> Any:
        data = self._held.get(entry.number) or self._store.get(self._stored_under(entry.number))
        data = present(
            data,
            "a chunk of the stored state",
            given=f"chunk {entry.number} of {len(self.entries)}",
            expected=f"{entry.size} bytes",
        )
        if entry.number not in self._held and len(data) <= self._room:
            self._held[entry.number] = data
            self._room -= len(data)
        return load_rows(data, self._schema)

    def _stored_under(self, number: int) -> int:
        return self._record.slot << 32 | number

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


def _load_entries(record: StepRecord) -> tuple[int, list[Chunk]]:
    """The number of elements that have numbers, and the entries of chunks; sizes and times are those of pages."""
    if not record.shared:
        return 0, []
    try:
        arrived, entries = _ENTRIES.decode(record.shared)
        return arrived, [
            Chunk(number, record.sizes[number], record.events[number], first, last) for number, first, last in entries
        ]
    except (msgspec.MsgspecError, IndexError) as error:
        raise damaged_state(f"entries of chunks: {error}") from error
