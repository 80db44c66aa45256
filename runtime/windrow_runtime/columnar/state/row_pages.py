"""Pages of rows: state in columns, the first of which holds keys.

Keys are told apart by their hashes alone. Keys that share one lie in the same page, and come into the working set and
leave it together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from windrow_runtime.columnar import Hashes, Ints, Mask
from windrow_runtime.columnar.rows.groups import Groups, encode_keys
from windrow_runtime.columnar.rows.hashing import bits_in_group, hash_keys, pages_of
from windrow_runtime.columnar.state.chunks import concatenated, dump_rows, load_rows, no_rows
from windrow_runtime.storage.group_record import NO_TIMER, WORKING_SET, PageStore, StepRecord, stored_timer
from windrow_runtime.storage.keyed_pages import KeyedPages
from windrow_runtime.storage.tuning import ROW_PAGES, PageTuning


@dataclass
class _Rows:
    """Rows, and the hashes of their keys as soon as somebody asks for them."""

    rows: pa.RecordBatch

    @cached_property
    def hashed(self) -> tuple[Ints, Hashes]:
        """The place of each row's key among hashes, and the hashes, in order of appearance."""
        encoded = encode_keys(self.rows.column(0))
        return encoded.codes, hash_keys(encoded.distinct)

    def filter(self, mask: Mask) -> _Rows:
        """Some of the rows."""
        found = _Rows(self.rows.filter(pa.array(mask)))
        codes, hashes = self.hashed
        found.hashed = codes[mask], hashes
        return found


class RowPages(KeyedPages[_Rows, Hashes]):
    """The rows of one step in one key group, during a batch, which changes the step's record.

    ``due`` gives the time at which something in rows is due next under the watermark of this batch.
    """

    def __init__(
        self,
        record: StepRecord,
        schema: pa.Schema,
        store: PageStore,
        due: Callable[[pa.RecordBatch], int],
        tuning: PageTuning = ROW_PAGES,
    ) -> None:
        super().__init__(record, _RowContents(schema, due), store, tuning)

    def load_rows(self, pages: Sequence[int]) -> pa.RecordBatch:
        """The rows of some pages."""
        return self.load(pages).rows

    def save_rows(self, pages: Sequence[int], rows: pa.RecordBatch) -> None:
        """Store what is left of pages that were loaded."""
        self.save(pages, _Rows(rows))

    def shares(self, keys: pa.Array, watermark: int) -> Iterator[tuple[list[int], Mask | None]]:
        """The pages to work on, as many at a time as fit into memory, and the rows of the batch for each share.

        The rows of the batch are given by their keys, and marked for each share; None: all are for it.
        """
        count = len(self.record.sizes)
        if count == 1:
            yield [0], None
            return
        encoded = encode_keys(keys)
        hashes = hash_keys(encoded.distinct)
        parts = self.parts(hashes, watermark, NO_TIMER)
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
class _RowContents:
    """Handles rows, and the hashes of their keys."""

    schema: pa.Schema
    due: Callable[[pa.RecordBatch], int]

    def load(self, data: bytes) -> _Rows:
        return _Rows(load_rows(data, self.schema))

    def dump(self, state: _Rows) -> bytes:
        return dump_rows(state.rows) if state.rows.num_rows else b""

    def timers(self, state: _Rows) -> tuple[int, int]:
        return stored_timer(self.due(state.rows) if state.rows.num_rows else None), NO_TIMER

    def open(self, pages: Mapping[int, _Rows]) -> _Rows:
        return self.join([*pages.values()])

    def join(self, parts: Sequence[_Rows]) -> _Rows:
        filled = [part for part in parts if part.rows.num_rows]
        if len(filled) == 1:
            return filled[0]
        return _Rows(concatenated([no_rows(self.schema), *(part.rows for part in filled)]))

    def split(self, state: _Rows, count: int) -> dict[int, _Rows]:
        codes, hashes = state.hashed
        pages = Groups(pages_of(bits_in_group(hashes), count)[codes], count)
        rows = state.rows.take(pa.array(pages.order))
        filled = np.flatnonzero(pages.sizes).tolist()
        return {page: _Rows(rows.slice(pages.starts[page], pages.sizes[page])) for page in filled}

    def take(self, state: _Rows, keys: Hashes) -> tuple[_Rows, _Rows]:
        codes, hashes = state.hashed
        mask = np.isin(hashes, keys)[codes]
        return state.filter(mask), state.filter(~mask)

    def keys(self, state: _Rows) -> Hashes:
        codes, hashes = state.hashed
        return hashes[np.flatnonzero(np.bincount(codes))]

    def pages_of(self, keys: Hashes, count: int) -> set[int]:
        return set(pages_of(bits_in_group(keys), count).tolist())

    def among(self, keys: Hashes, others: Hashes, most: int) -> Hashes:
        return keys[np.isin(keys, others)][:most]

    def beyond(self, keys: Hashes, others: Hashes, most: int | None = None) -> Hashes:
        return keys[np.isin(keys, others, invert=True)][:most]

    def remembered(self, keys: Hashes, seen: bytes) -> tuple[Hashes, bytes]:
        bits = bits_in_group(keys).astype("<u4")
        again = np.isin(bits, np.frombuffer(seen, "<u4"))
        return keys[again], bits[~again].tobytes()
