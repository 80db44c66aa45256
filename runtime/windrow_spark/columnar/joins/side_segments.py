"""Stores the rows of a join in segments, so that a batch writes what it brings, and reads what its keys may meet.

The rows that a batch brings are appended: the newest are the tail, which lies in the group's own record, and a tail
that has grown becomes a segment for each side. A segment is sorted by the hashes of keys and cut into pages, and is
never written again, except that many segments of one level become one of the next: each row is written a few times at
most, however long it stays, and whatever else is stored (O'Neil et al., The log-structured merge-tree, 1996). A segment
has an index for each part of the range of hashes, with the first hash of each page, and a filter by which a batch
leaves out segments without its keys (Bloom, Space/time trade-offs in hash coding with allowable errors, 1970).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from itertools import accumulate, count, pairwise, starmap
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.functions.marked import LEFT, RIGHT
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.codecs.malformed import damaged_state
from windrow_spark.columnar import Hashes, Ints
from windrow_spark.columnar.rows.groups import encode_keys, hash_keys
from windrow_spark.columnar.rows.new_fields import NO_DEFAULTS, Defaults
from windrow_spark.columnar.state import concatenated, dump_rows, load_rows, no_rows
from windrow_spark.storage.group_record import NO_TIMER, PageStore, StepRecord, present, stored_timer
from windrow_spark.storage.tuning import MEASURED, StateTuning

_ROW_SIDE: Final = 2
"""The index of the column that says of which side a row is."""
_BITS_OF_A_KEY: Final = 14  # at least; with six probes one key of 700 is taken for one of a segment
_PROBES: Final = np.array(
    [
        0x9E3779B97F4A7C15,
        0xC2B2AE3D27D4EB4F,
        0xD6E8FEB86659FD93,
        0xA0761D6478BD642F,
        0xE7037ED1A0B428DB,
        0x8EBC6AF09C88C6E3,
    ],
    np.uint64,
)
_INDEX: Final = struct.Struct("<III")
_KEYS_OF_A_PART: Final = 2048
_LEAST_ROWS_OF_A_PAGE: Final = 8
_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Entry = tuple[
    _Positive,
    Annotated[int, msgspec.Meta(ge=0, le=32)],
    _Positive,
    Literal[1, 2],
    _Natural,
    _Natural,
    _Natural,
    int,
    int,
]
_SHARED: Final = msgspec.msgpack.Decoder(tuple[int, int, list[_Entry]])
_SHARED_OUTER: Final = msgspec.msgpack.Decoder(tuple[int, int, list[_Entry], list[int]])
_TAIL: Final = 0  # stands for the number of a segment


@dataclass(frozen=True, slots=True)
class Segment:
    """The entry of a segment, by which a batch decides whether to look at it."""

    number: int  # of its first index in the store; all indexes and then all pages have the numbers after it
    power: int  # two to this power is the number of its indexes
    pages: int
    side: int
    level: int  # how many times its rows were merged
    size: int  # in bytes, as it is stored
    unpacked: int  # the bytes of its rows in memory
    last: int  # when the last of its rows is dropped, in milliseconds
    watermark: int  # the one under which it was stored: no row of it was due to be dropped then

    @property
    def end(self) -> int:
        """The number after that of its last page."""
        return self.number + (1 << self.power) + self.pages

    def parts_of(self, hashes: Hashes) -> Ints:
        """Returns the part of the range of hashes in which each hash is."""
        parts: Ints = (hashes >> np.uint64(64 - self.power) if self.power else hashes * np.uint64(0)).astype(np.int64)
        return parts


class SegmentIndex:
    """Tells which pages of a part of a segment may have rows of some keys.

    Attributes:
        begin: The number of the part's first page among those of the segment.
        firsts: The first hash in each page.
    """

    def __init__(self, begin: int, firsts: Hashes, bits: npt.NDArray[np.uint8]) -> None:
        self.begin = begin
        self.firsts = firsts
        self._bits = bits

    @classmethod
    def of(cls, begin: int, firsts: Hashes, hashes: Hashes) -> SegmentIndex:
        """Makes the index of a part, of whose keys these are the different hashes."""
        power = max(3, (len(hashes) * _BITS_OF_A_KEY - 1).bit_length())
        marked = np.zeros(1 << power, np.bool_)
        for factor in _PROBES:
            marked[_places_of(hashes, factor, power)] = True
        return cls(begin, firsts, np.packbits(marked))

    def dump(self) -> bytes:
        """Encodes the index; :meth:`load` decodes it."""
        head = _INDEX.pack(self.begin, len(self.firsts), len(self._bits))
        return head + self.firsts.tobytes() + self._bits.tobytes()

    @classmethod
    def load(cls, data: bytes, pages: int) -> SegmentIndex:
        """Decodes an index of a segment of some pages; raises a CheckpointError if the bytes are damaged."""
        begin, count, size = _INDEX.unpack_from(data) if len(data) >= _INDEX.size else (0, pages + 1, 0)
        if begin + count > pages or size.bit_count() != 1 or len(data) != _INDEX.size + 8 * count + size:
            raise damaged_state(f"an index of {len(data)} bytes", expected=f"one of at most {pages} pages")
        firsts = np.frombuffer(data, "<u8", count, _INDEX.size)
        return cls(begin, firsts, np.frombuffer(data, np.uint8, size, _INDEX.size + 8 * count))

    def pages_of(self, hashes: Hashes) -> Ints:
        """Returns the numbers of the pages in which rows with these hashes may be."""
        power = (8 * len(self._bits)).bit_length() - 1
        for factor in _PROBES:
            places = _places_of(hashes, factor, power)
            is_marked = (self._bits[places >> np.uint64(3)] >> (7 - (places & np.uint64(7))).astype(np.uint8)) & 1
            hashes = hashes[is_marked.astype(np.bool_)]
            if not len(hashes):
                return np.zeros(0, np.int64)
        # Rows of one hash may lie in several pages, and the first of these may begin with a lower one.
        begin = np.maximum(np.searchsorted(self.firsts, hashes, "left") - 1, 0)
        end = np.searchsorted(self.firsts, hashes, "right")
        changes = np.zeros(len(self.firsts) + 1, np.int64)
        np.add.at(changes, begin, 1)
        np.add.at(changes, np.maximum(begin, end), -1)
        return self.begin + np.flatnonzero(np.cumsum(changes)[:-1])


def _places_of(hashes: Hashes, factor: np.uint64, power: int) -> Hashes:
    """Returns the places of hashes among ``2 ** power`` bits, by one of several ways of mixing."""
    return (hashes * factor) >> np.uint64(64 - power)


def row_hashes(rows: pa.RecordBatch) -> Hashes:
    """Returns the hash of the key of each row."""
    encoded = encode_keys(rows.column(0))
    return hash_keys(encoded.distinct)[encoded.codes]


@dataclass
class SideSegments:
    """The rows of a join in one key group, during a batch, which changes the step's record."""

    record: StepRecord
    schema: pa.Schema
    store: PageStore
    ends: Callable[[pa.RecordBatch], Ints]  # gives the watermark at which each row is dropped
    check: Callable[[pa.RecordBatch], None]  # raises a CheckpointError if stored rows contradict themselves
    tuning: StateTuning = MEASURED
    defaults: Defaults = NO_DEFAULTS
    decisions: Callable[[pa.RecordBatch], Ints] | None = None
    """Gives the watermark at which it is decided whether a row is alone; ``NO_TIMER`` if that does not matter."""

    def __post_init__(self) -> None:
        self._sizes = self.tuning.join_segments
        self.watermark = self.record.watermark
        # When the last row of the tail is dropped, the watermark under which the tail was stored, and the segments.
        self._tail_last, self._tail_watermark, entries = NO_TIMER, MIN_TIMESTAMP, list[_Entry]()
        nexts: list[int] = []
        try:
            if self.record.shared and self.decisions is None:
                self._tail_last, self._tail_watermark, entries = _SHARED.decode(self.record.shared)
            elif self.record.shared:
                self._tail_last, self._tail_watermark, entries, nexts = _SHARED_OUTER.decode(self.record.shared)
        except msgspec.MsgspecError as error:
            raise damaged_state(f"entries of segments: {error}") from error
        if nexts and len(nexts) != len(entries) + 1:
            raise damaged_state(f"{len(entries)} segments, and {len(nexts)} times of decisions")
        # When the next row of the tail and of each segment is decided, by its number.
        self._nexts = dict(zip((_TAIL, *(entry[0] for entry in entries)), nexts, strict=False))
        self.segments = list(starmap(Segment, entries))
        for segment in self.segments:
            if segment.end > self.record.segments + 1 or segment.pages > segment.size:
                raise damaged_state(f"a segment of {segment.pages} pages and {segment.size} bytes")
        self._added: list[pa.RecordBatch] = []
        self._indexes: dict[int, SegmentIndex] = {}  # by their numbers

    @cached_property
    def _tail(self) -> pa.RecordBatch:
        inline = self.record.inline
        return self._checked(inline) if inline else no_rows(self.schema)

    # A batch reads what its keys may meet

    def advance(self, watermark: int) -> None:
        """Drops the rows that no element to come can pair with."""
        added, stored_under = self._added, self.watermark
        self.watermark = watermark
        self._added = [rows for batch in added for rows in self._live(batch, stored_under)]
        for segment in [segment for segment in self.segments if self._is_over(segment.last, segment.watermark)]:
            self._remove(segment)

    def decided(self, watermark: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows that are decided by an advance to a watermark, which :meth:`advance` has not made yet.

        All rows that may be their partners are stored.
        """
        for segment in self.segments:
            if self._is_due(segment.number, watermark):
                self._nexts[segment.number] = NO_TIMER
                for rows in self._load(segment, range(segment.pages)):
                    yield from self._decided_of(segment.number, rows, watermark)
        if self._is_due(_TAIL, watermark):
            self._nexts[_TAIL] = NO_TIMER
            yield from self._decided_of(_TAIL, self._tail, watermark)
        for rows in self._added:
            yield from self._decided_of(None, rows, watermark)

    def _is_due(self, number: int, watermark: int) -> bool:
        return NO_TIMER != self._nexts.get(number, NO_TIMER) <= watermark

    def _decided_of(self, number: int | None, rows: pa.RecordBatch, watermark: int) -> Iterator[pa.RecordBatch]:
        """Yields those of some rows, and notes when the next one of the segment is decided, if they are of one."""
        assert self.decisions is not None, "only outer joins decide"
        times = self.decisions(rows)
        now = (times > self.watermark) & (times <= watermark)
        if now.any():
            yield rows.filter(pa.array(now))
        if number is not None:
            self._note_next(number, times[times > watermark])

    def _note_next(self, number: int, times: Ints) -> None:
        if len(times):
            before = self._nexts.get(number, NO_TIMER)
            following = stored_timer(int(times.min()))
            self._nexts[number] = following if before == NO_TIMER else min(before, following)

    def _next_decision(self, number: int, rows: pa.RecordBatch) -> None:
        """Notes when the next of the rows of a segment, or of the tail, is decided."""
        if self.decisions is not None:
            self._nexts[number] = NO_TIMER
            times = self.decisions(rows)
            self._note_next(number, times[times > self.watermark])

    def matching(self, side: int, keys: pa.Array) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a side that elements with these keys may meet, the oldest first, some at a time."""
        if not len(keys):
            return
        segments = [segment for segment in self.segments if segment.side == side]
        if segments:
            wanted = np.unique(hash_keys(encode_keys(keys).distinct))
            self._read_indexes(segments, wanted)
            for segment in segments:
                for rows in self._load(segment, self._pages_of(segment, wanted)):
                    wanted_rows = rows.filter(pa.array(np.isin(row_hashes(rows), wanted)))
                    yield from self._live(wanted_rows, segment.watermark)
        for rows in (*self._live_tail(), *self._added):
            of_side = rows.filter(pa.array(rows.column(_ROW_SIDE).to_numpy() == side))
            if of_side.num_rows:
                yield of_side

    def stored_rows(self) -> Iterator[pa.RecordBatch]:
        """Yields the stored rows of both sides that are not dropped yet, those of one key and side in their order."""
        for segment in self.segments:
            for rows in self._load(segment, range(segment.pages)):
                yield from self._live(rows, segment.watermark)
        yield from self._live_tail()

    def _live(self, rows: pa.RecordBatch, stored_under: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows that are not dropped yet, if there are any, of those that were stored under a watermark."""
        # As in Flink, an element that arrives when its time is over stays until the watermark advances.
        if stored_under < self.watermark:
            is_end = self.watermark == MAX_TIMESTAMP
            rows = rows.slice(0, 0) if is_end else rows.filter(pa.array(self.ends(rows) > self.watermark))
        if rows.num_rows:
            yield rows

    def _live_tail(self) -> Iterator[pa.RecordBatch]:
        return self._live(self._tail, self._tail_watermark)

    def _is_over(self, last: int, stored_under: int) -> bool:
        return stored_under < self.watermark and (last <= self.watermark or self.watermark == MAX_TIMESTAMP)

    # A batch appends what it brings

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows of either side."""
        if rows.num_rows:
            self._added.append(rows)

    def end_batch(self) -> None:
        """Stores what was added, and merges segments where there are many."""
        record = self.record
        if self._added or (record.inline and self._is_over(self._tail_last, self._tail_watermark)):
            tail = concatenated([no_rows(self.schema), *self._live_tail(), *self._added])
            self._tail_watermark = self.watermark
            record.inline = dump_rows(tail) if tail.num_rows else b""
            if len(record.inline) > self._sizes.tail_bytes:
                record.inline = b""
                sides = tail.column(_ROW_SIDE).to_numpy()
                for side in (LEFT, RIGHT):
                    self._put(side, 0, tail.filter(pa.array(sides == side)))
                    self._merge(side)
            self._tail_last = self._last(tail) if record.inline else NO_TIMER
            self._next_decision(_TAIL, tail if record.inline else tail.slice(0, 0))
        if not self.segments:
            record.segments = 0  # numbers begin anew
        is_empty = not self.segments and not record.inline
        shared: tuple[object, ...] = self._tail_last, self._tail_watermark, list(map(astuple, self.segments))
        nexts = [self._nexts.get(number, NO_TIMER) for number in (_TAIL, *(each.number for each in self.segments))]
        if self.decisions is not None:
            shared = *shared, nexts
        record.shared = b"" if is_empty else msgspec.msgpack.encode(shared)
        record.size = len(record.inline) + sum(segment.size for segment in self.segments)
        lasts = [self._tail_last, *(segment.last for segment in self.segments), *nexts]
        record.events[0] = min((last for last in lasts if last != NO_TIMER), default=NO_TIMER)

    def _last(self, rows: pa.RecordBatch) -> int:
        return stored_timer(int(self.ends(rows).max()))

    def _put(self, side: int, level: int, rows: pa.RecordBatch) -> None:
        """Stores rows of a side as a segment."""
        if not rows.num_rows:
            return
        hashes = row_hashes(rows)
        order = np.argsort(hashes, kind="stable")
        rows, hashes = rows.take(pa.array(order)), hashes[order]
        is_first = np.diff(hashes, prepend=~hashes[:1]) != 0
        power = (int(is_first.sum()) // _KEYS_OF_A_PART).bit_length()
        each = max(_LEAST_ROWS_OF_A_PAGE, rows.num_rows * self._sizes.page_bytes // max(1, rows.nbytes))
        number = self.record.segments + 1
        segment = Segment(number, power, 0, side, level, 0, rows.nbytes, self._last(rows), self.watermark)
        size = pages = 0
        bounds = np.searchsorted(segment.parts_of(hashes), np.arange((1 << power) + 1)).tolist()
        for part, (begin, end) in enumerate(pairwise(bounds)):
            starts = range(begin, end, each)
            different = hashes[begin:end][is_first[begin:end]]
            index = SegmentIndex.of(pages, hashes[begin:end:each], different).dump()
            self.store.put(self._place(number + part), index)
            size += len(index)
            for start in starts:
                data = dump_rows(rows.slice(start, min(each, end - start)))
                self.store.put(self._place(number + (1 << power) + pages), data)
                size += len(data)
                pages += 1
        self.segments.append(replace(segment, pages=pages, size=size))
        self._next_decision(number, rows)
        self.record.segments = self.segments[-1].end - 1

    def _merge(self, side: int) -> None:
        """Makes one segment of the next level out of those of a level, wherever a level has many."""
        for level in count():
            # A segment whose rows take more than half of the limit stays: with another one it may exceed it.
            most = self._sizes.largest_segment
            of_level = [
                each for each in self.segments if (each.side, each.level) == (side, level) and 2 * each.unpacked <= most
            ]
            if len(of_level) < self._sizes.fanout:
                return
            sizes = accumulate(segment.unpacked for segment in of_level)
            merged = [each for each, size in zip(of_level, sizes, strict=True) if size <= most]
            live_rows = [no_rows(self.schema)]
            for segment in merged:
                for rows in self._load(segment, range(segment.pages)):
                    live_rows += self._live(rows, segment.watermark)
                self._remove(segment)
            self._put(side, level + 1, concatenated(live_rows))

    # The store

    def _read_indexes(self, segments: Sequence[Segment], hashes: Hashes) -> None:
        """Reads the indexes that tell of some hashes, by one call to the store."""
        missing = {
            segment.number + part: segment
            for segment in segments
            for part in np.unique(segment.parts_of(hashes)).tolist()
            if segment.number + part not in self._indexes
        }
        if missing:
            stored = self.store.get_all(list(map(self._place, missing)))
            for (number, segment), data in zip(missing.items(), stored, strict=True):
                index = present(data, "an index of a segment of the stored state", given=f"segment {segment.number}")
                self._indexes[number] = SegmentIndex.load(index, segment.pages)

    def _pages_of(self, segment: Segment, hashes: Hashes) -> list[int]:
        """Returns the pages of a segment in which rows with these hashes, sorted ones, may be."""
        parts, begins = np.unique(segment.parts_of(hashes), return_index=True)
        pages: list[int] = []
        for part, of_part in zip(parts.tolist(), np.split(hashes, begins[1:]), strict=True):
            pages += self._indexes[segment.number + part].pages_of(of_part).tolist()
        return pages

    def _load(self, segment: Segment, pages: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Reads pages of a segment, some by one call to the store."""
        for start in range(0, len(pages), self._sizes.pages_at_once):
            portion = pages[start : start + self._sizes.pages_at_once]
            stored = self.store.get_all([self._place(segment.number + (1 << segment.power) + page) for page in portion])
            for page, data in zip(portion, stored, strict=True):
                given = f"page {page} of {segment.pages} of a segment"
                yield self._checked(present(data, "a page of the stored state", given=given))

    def _checked(self, data: bytes) -> pa.RecordBatch:
        rows = load_rows(data, self.schema, self.defaults)
        self.check(rows)
        return rows

    def _remove(self, segment: Segment) -> None:
        for number in range(segment.number, segment.end):
            self.store.remove(self._place(number))
        self.segments.remove(segment)
        self._nexts.pop(segment.number, None)

    def _place(self, number: int) -> int:
        return self.record.slot << 32 | number
