"""Stores the rows of steps on columns, in chunks and in pages.

Rows of slices lie in chunks: what a batch adds is appended, and chunks are read when something in them is due. The
newest rows are the tail, which lies in the group's own record. A tail that has grown becomes a chunk; many chunks of
one size become a larger one, so that there are few, and each row is written a few times at most, however long it stays
(O'Neil et al., The log-structured merge-tree, 1996).

Sessions lie in pages by key. A page is chosen by the hash of a key alone: keys with the same hash lie in one page, and
are loaded and stored together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from functools import cached_property
from itertools import starmap
from typing import Annotated, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.errors import IncompatibleStateError, UnsupportedOperationError
from windrow_runtime.codecs.malformed import damaged_state
from windrow_spark.columnar import Hashes, Ints, Mask
from windrow_spark.columnar.rows.groups import Groups, bits_in_group, encode_keys, hash_keys, pages_of, parts_of
from windrow_spark.columnar.rows.new_fields import NO_DEFAULTS, Defaults, fitted
from windrow_spark.storage.group_record import NO_TIMER, WORKING_SET, PageStore, StepRecord, present, stored_timer
from windrow_spark.storage.keyed_pages import KeyedPages
from windrow_spark.storage.packed import compress as compressed
from windrow_spark.storage.packed import decompress
from windrow_spark.storage.tuning import ROW_CHUNKS, ChunkTuning

_WORTH_COMPRESSING: Final = 1 << 10
_STREAM: Final = b"\xff\xff\xff\xff"  # a stream of Arrow's begins so, and nothing that is compressed does
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
_ENTRIES: Final = msgspec.msgpack.Decoder(tuple[int, int, list[tuple[_Number, int, int, int, int]]])


@dataclass(slots=True)
class Chunk:
    """The entry of a chunk, by which a batch decides whether to read it."""

    number: int  # in the store
    size: int  # in bytes
    due: int  # when something in it is due next, in milliseconds
    first: int  # the earliest slice of its rows
    last: int


def dump_rows(rows: pa.RecordBatch, *, compress: bool = True) -> bytes:
    """Encodes a record batch; :func:`load_rows` decodes it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    data: bytes = sink.getvalue().to_pybytes()
    # The page is compressed as a whole: Arrow would set up a compressor for each buffer, which takes longer.
    return compressed(data) if compress and rows.nbytes > _WORTH_COMPRESSING else data


def load_rows(data: bytes, schema: pa.Schema, defaults: Defaults = NO_DEFAULTS) -> pa.RecordBatch:
    """Decodes what :func:`dump_rows` encoded; refuses bytes that are damaged or hold other columns.

    Records may lack fields that are new, which get their defaults.
    """
    stream = data if data[:4] == _STREAM else decompress(data)
    try:
        with pa.ipc.open_stream(stream) as reader:
            rows = reader.read_next_batch()
        # Offsets that point beyond their buffers would otherwise end the process when the rows are used.
        rows.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration) as error:
        message = "columns of the stored state cannot be read"
        raise damaged_state(str(error), message=message, expected=str(schema)) from error
    if rows.schema.equals(schema):
        return rows
    if rows.schema.names == schema.names:
        columns = [fitted(column, kind, defaults) for column, kind in zip(rows.columns, schema.types, strict=True)]
        if all(column is not None for column in columns):
            return pa.RecordBatch.from_arrays(columns, schema=schema)
    raise IncompatibleStateError(
        "the stored state has other columns",
        given=str(rows.schema).replace("\n", ", "),
        expected=str(schema).replace("\n", ", "),
    )


def concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenates record batches into one; refuses more text in a column than Arrow's offsets can tell."""
    filled = [batch for batch in batches if batch.num_rows] or batches[:1]
    try:
        return filled[0] if len(filled) == 1 else pa.concat_batches(filled)
    except pa.ArrowInvalid as error:
        size, count = sum(batch.nbytes for batch in filled), sum(batch.num_rows for batch in filled)
        raise UnsupportedOperationError(
            "the elements of a key group have too much text in a batch",
            given=f"{size:,} bytes in {count:,} rows",
            expected="less than 2 GiB in a field",
            hint="have a batch read less, for example by files_per_batch, or set more partitions for a new checkpoint",
        ) from error


def joined(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Concatenates consecutive record batches as long as they have no more than some bytes together."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if waiting and size + batch.nbytes > most_bytes:
            yield concatenated(waiting)
            waiting, size = [], 0
        waiting.append(batch)
        size += batch.nbytes
    if waiting:
        yield concatenated(waiting)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """An empty record batch with the columns of a schema."""
    return pa.RecordBatch.from_pylist([], schema)


def arrived_in(record: StepRecord) -> int:
    """Returns how many elements have numbers of their arrival in the chunks of a step."""
    return _entries_of(record)[0]


def _entries_of(record: StepRecord) -> tuple[int, int, list[tuple[int, int, int, int, int]]]:
    """Returns how many elements are numbered, when the newest rows are due, and the entries of chunks."""
    if not record.shared:
        return 0, NO_TIMER, []
    try:
        return _ENTRIES.decode(record.shared)
    except msgspec.MsgspecError as error:
        raise damaged_state(f"entries of chunks: {error}") from error


@dataclass
class Chunks:
    """The rows of one step in one key group, during a batch: sealed chunks, and a tail that the next rows extend."""

    record: StepRecord  # end_batch changes it
    schema: pa.Schema
    store: PageStore
    measure: Callable[[pa.RecordBatch], tuple[int, int, int]]  # gives due, first and last of a chunk of rows
    merge: Callable[[pa.RecordBatch], pa.RecordBatch]  # merges the rows of each key and slice into one
    tuning: ChunkTuning = ROW_CHUNKS
    defaults: Defaults = NO_DEFAULTS

    def __post_init__(self) -> None:
        # The newest rows, as bytes, and when something in them is due next; empty: there are none.
        self.tail = self.record.inline
        # How many elements have numbers of their arrival, and the chunks that are stored.
        self.arrived, self.tail_due, entries = _entries_of(self.record)
        self.entries = list(starmap(Chunk, entries))
        self._tail_rows: pa.RecordBatch | None = None
        self._held: dict[int, bytes] = {}
        self._room = 0

    def end_batch(self) -> None:
        """Fill in the record."""
        record = self.record
        record.inline = self.tail
        entries = list(map(astuple, self.entries))
        # Where nothing is left, numbers begin anew.
        shared = (self.arrived, self.tail_due, entries)
        record.shared = msgspec.msgpack.encode(shared) if self.tail or entries else b""
        record.size = len(self.tail) + sum(entry.size for entry in self.entries)
        dues = [*([self.tail_due] if self.tail else []), *(entry.due for entry in self.entries)]
        record.events[0] = min(dues, default=NO_TIMER)

    def read(self, wanted: Callable[[Chunk], bool]) -> Iterator[tuple[Chunk, pa.RecordBatch]]:
        """Reads the chunks whose entries are wanted, the oldest first."""
        for entry in list(self.entries):
            if wanted(entry):
                yield entry, self._load(entry)

    def read_tail(self) -> pa.RecordBatch:
        """The newest rows."""
        if self._tail_rows is None:
            self._tail_rows = load_rows(self.tail, self.schema, self.defaults) if self.tail else no_rows(self.schema)
        return self._tail_rows

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Holds the bytes of chunks that are read, as far as there is room, for whoever reads them several times."""
        self._room = self.tuning.held_bytes
        try:
            yield
        finally:
            self._room = 0
            self._held.clear()

    def replace(self, entry: Chunk, rows: pa.RecordBatch) -> None:
        """Put other rows in the place of a chunk."""
        if not rows.num_rows:
            self._remove(entry)
            return
        self.entries[self.entries.index(entry)] = self._stored(entry.number, rows)

    def put_tail(self, rows: pa.RecordBatch) -> None:
        """Put other rows in the place of the newest ones. They become a chunk if they are many."""
        self._tail_rows = rows
        if not rows.num_rows:
            self.tail = b""
            return
        data = dump_rows(rows)
        if len(data) <= self.tuning.tail_bytes:
            self.tail = data
            self.tail_due = self.measure(rows)[0]
            return
        self.tail, self._tail_rows = b"", None
        per = max(1, rows.num_rows * self.tuning.largest_chunk // len(data))
        for start in range(0, rows.num_rows, per):
            used_numbers = {entry.number for entry in self.entries}
            free = min(set(range(1, len(used_numbers) + 2)) - used_numbers)
            self.entries.append(self._stored(free, rows.slice(start, per)))
        self._compact()

    def _stored(self, number: int, rows: pa.RecordBatch) -> Chunk:
        data = dump_rows(rows)
        self.store.put(self._place_of(number), data)
        self._held.pop(number, None)
        return Chunk(number, len(data), *self.measure(rows))

    def _remove(self, entry: Chunk) -> None:
        self.store.remove(self._place_of(entry.number))
        self._held.pop(entry.number, None)
        self.entries.remove(entry)

    def _load(self, entry: Chunk) -> pa.RecordBatch:
        data = present(
            self._held.get(entry.number) or self.store.get(self._place_of(entry.number)),
            "a chunk of the stored state",
            given=f"chunk {entry.number} of {len(self.entries)}",
            expected=f"{entry.size} bytes",
        )
        if entry.number not in self._held and len(data) <= self._room:
            self._held[entry.number] = data
            self._room -= len(data)
        return load_rows(data, self.schema, self.defaults)

    def _place_of(self, number: int) -> int:
        return self.record.slot << 32 | number

    def _compact(self) -> None:
        """Merges the last ``fanout`` chunks, repeatedly, unless one has most of their bytes or all are too large."""
        fanout = self.tuning.fanout
        while len(self.entries) >= fanout:
            last = self.entries[-fanout:]
            total = sum(entry.size for entry in last)
            if total > self.tuning.largest_chunk or max(entry.size for entry in last) > total // 2:
                return
            merged = self.merge(concatenated([self._load(entry) for entry in last]))
            for entry in last[1:]:
                self._remove(entry)
            self.replace(last[0], merged)


@dataclass
class DueRows:
    """Reads the rows that fire or are cleaned up under a watermark, as many at a time as fit into memory.

    Where all of them fit, they are one part. Else each part has all the rows of some keys: chunks are read once for
    each part, and their bytes are held meanwhile, as far as there is room.
    """

    chunks: Chunks
    watermark: int
    fires: Callable[[Chunk], bool]  # whether a window with rows of a chunk may fire; other chunks are only cleaned up
    expired: Callable[[pa.RecordBatch], Mask]  # marks the rows that the watermark has cleaned up
    _part_numbers: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)

    def parts(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in parts, each with all rows of its keys in order of arrival; the last part cleans up."""
        for entry, rows in self.chunks.read(lambda entry: entry.due <= self.watermark and not self.fires(entry)):
            self._clean_up(entry, rows)
        with self.chunks.holding():
            batches, count = self._first_ones()
            for part in range(count):
                if count > 1:
                    batches = self._rows_of_part(part, count)
                if batches:
                    rows = concatenated(batches)
                    batches.clear()
                    yield rows
                    del rows  # frees them before the next part is read

    def _first_ones(self) -> tuple[list[pa.RecordBatch], int]:
        """Reads the due rows if they fit into memory, as one part; else returns the number of parts to read them in."""
        tuning = self.chunks.tuning
        batches: list[tuple[Chunk | None, pa.RecordBatch]] = []
        size = stored = 0
        for entry, rows in self._read():
            batches.append((entry, rows))
            size += rows.nbytes
            if entry is None:
                continue
            stored += entry.size
            if size > tuning.fired_bytes:
                total = sum(entry.size for entry in self.chunks.entries if self._is_read(entry))
                count = -(-size * total // (stored * tuning.fired_bytes))
                return [], min(count, tuning.most_parts)
        for entry, rows in batches:
            self._clean_up(entry, rows)
        return [rows for _, rows in batches], 1

    def _rows_of_part(self, part: int, count: int) -> list[pa.RecordBatch]:
        """Reads the rows of one part out of ``count``."""
        batches: list[pa.RecordBatch] = []
        for entry, rows in self._read():
            number = 0 if entry is None else entry.number
            if number not in self._part_numbers:
                self._part_numbers[number] = parts_of(rows.column(0), count)
            batches.append(rows.filter(pa.array(self._part_numbers[number] == part)))
            if part == count - 1:
                self._clean_up(entry, rows)
        return [rows for rows in batches if rows.num_rows]

    def _read(self) -> Iterator[tuple[Chunk | None, pa.RecordBatch]]:
        """Reads the due chunks, and the newest rows, which have no entry."""
        yield from self.chunks.read(self._is_read)
        if self.chunks.tail and self.chunks.tail_due <= self.watermark:
            yield None, self.chunks.read_tail()

    def _is_read(self, entry: Chunk) -> bool:
        return entry.due <= self.watermark and self.fires(entry)

    def _clean_up(self, entry: Chunk | None, rows: pa.RecordBatch) -> None:
        live_rows = rows.filter(pa.array(~self.expired(rows)))
        if entry is None:
            self.chunks.put_tail(live_rows)
        elif 2 * live_rows.num_rows <= rows.num_rows:
            self.chunks.replace(entry, live_rows)
        else:
            # The chunk stays as it is, and is due when its other rows have expired.
            entry.due, entry.first, entry.last = self.chunks.measure(live_rows)


@dataclass
class KeyedRows:
    """Rows, and the hashes of their keys, which are computed when they are first read."""

    rows: pa.RecordBatch

    @cached_property
    def hashed(self) -> tuple[Ints, Hashes]:
        """For each row the index of its key among hashes, and the hashes of different keys in order of appearance."""
        encoded = encode_keys(self.rows.column(0))
        return encoded.codes, hash_keys(encoded.distinct)

    def filter(self, mask: Mask) -> KeyedRows:
        """Keeps the marked rows, with the hashes of their keys."""
        keyed_rows = KeyedRows(self.rows.filter(pa.array(mask)))
        codes, hashes = self.hashed
        keyed_rows.hashed = codes[mask], hashes
        return keyed_rows


class RowPages(KeyedPages[KeyedRows, Hashes]):
    """The rows of one step in one key group, during a batch, which changes the step's record."""

    def shares(self, keys: pa.Array, watermark: int, now: int = NO_TIMER) -> Iterator[tuple[list[int], Mask | None]]:
        """Yields portions of the pages that fit into memory, each with a mask of the batch's keys in it; None: all."""
        count = self.record.pages
        if count == 1:
            yield [0], None
            return
        encoded = encode_keys(keys)
        hashes = hash_keys(encoded.distinct)
        parts = self.parts(hashes, watermark, now)
        if len(parts) <= 1:
            yield from ((pages, None) for pages in parts)
            return
        homes = pages_of(bits_in_group(hashes), count)
        homes[np.isin(hashes, self.hot_keys.keys)] = WORKING_SET
        part_of = np.zeros(count + 1, np.int64)  # the last one is that of the working set
        for number, pages in enumerate(parts):
            part_of[pages] = number
        numbers = part_of[homes][encoded.codes]
        for number, pages in enumerate(parts):
            yield pages, numbers == number


@dataclass(frozen=True)
class RowContents:
    """Stores, splits and joins rows by the hashes of their keys."""

    schema: pa.Schema
    # Gives when something in rows is due next by the watermark, and in processing time; None: never.
    due: Callable[[pa.RecordBatch], tuple[int | None, int | None]]
    check: Callable[[pa.RecordBatch], None]  # raises a CheckpointError if stored rows contradict themselves
    defaults: Defaults = NO_DEFAULTS

    def load(self, data: bytes) -> KeyedRows:
        rows = load_rows(data, self.schema, self.defaults)
        self.check(rows)
        return KeyedRows(rows)

    def dump(self, state: KeyedRows) -> bytes:
        return dump_rows(state.rows) if state.rows.num_rows else b""

    def timers(self, state: KeyedRows) -> tuple[int, int]:
        event, clock = self.due(state.rows) if state.rows.num_rows else (None, None)
        return stored_timer(event), stored_timer(clock)

    def open(self, pages: Mapping[int, KeyedRows]) -> KeyedRows:
        return self.join([*pages.values()])

    def join(self, parts: Sequence[KeyedRows]) -> KeyedRows:
        filled = [part for part in parts if part.rows.num_rows]
        if len(filled) == 1:
            return filled[0]
        return KeyedRows(concatenated([no_rows(self.schema), *(part.rows for part in filled)]))

    def split(self, state: KeyedRows, count: int) -> dict[int, KeyedRows]:
        codes, hashes = state.hashed
        pages = Groups(pages_of(bits_in_group(hashes), count)[codes], count)
        rows = state.rows.take(pa.array(pages.order))
        filled = np.flatnonzero(pages.sizes).tolist()
        return {page: KeyedRows(rows.slice(pages.starts[page], pages.sizes[page])) for page in filled}

    def take(self, state: KeyedRows, keys: Hashes) -> tuple[KeyedRows, KeyedRows]:
        codes, hashes = state.hashed
        mask = np.isin(hashes, keys)[codes]
        return state.filter(mask), state.filter(~mask)

    def keys(self, state: KeyedRows) -> Hashes:
        codes, hashes = state.hashed
        return hashes[np.flatnonzero(np.bincount(codes))]

    def pages_of(self, keys: Hashes, count: int) -> set[int]:
        return set(pages_of(bits_in_group(keys), count).tolist())

    def among(self, keys: Hashes, others: Hashes, most: int) -> Hashes:
        return keys[np.isin(keys, others)][:most] if most and len(keys) else keys[:0]

    def beyond(self, keys: Hashes, others: Hashes, most: int | None = None) -> Hashes:
        return keys[np.isin(keys, others, invert=True)][:most] if most != 0 and len(keys) else keys[:0]

    def remembered(self, keys: Hashes, seen: bytes) -> tuple[Hashes, bytes]:
        bits = bits_in_group(keys).astype("<u4")
        again = np.isin(bits, np.frombuffer(seen, "<u4"))
        return keys[again], bits[~again].tobytes()
