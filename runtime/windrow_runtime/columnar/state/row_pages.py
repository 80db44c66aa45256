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
from windrow_runtime.storage.group_record import NO_TIMER, WORKING_SET, stored_timer
from windrow_runtime.storage.keyed_pages import KeyedPages


@dataclass
class KeyedRows:
    """Rows, and the hashes of their keys as soon as somebody asks for them."""

    rows: pa.RecordBatch

    @cached_property
    def hashed(self) -> tuple[Ints, Hashes]:
        """The place of each row's key among hashes, and the hashes, in order of appearance."""
        encoded = encode_keys(self.rows.column(0))
        return encoded.codes, hash_keys(encoded.distinct)

    def filter(self, mask: Mask) -> KeyedRows:
        """Some of the rows."""
        found = KeyedRows(self.rows.filter(pa.array(mask)))
        codes, hashes = self.hashed
        found.hashed = codes[mask], hashes
        return found


class RowPages(KeyedPages[KeyedRows, Hashes]):
    """The rows of one step in one key group, during a batch, which changes the step's record."""

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
class RowContents:
    """Handles rows, and the hashes of their keys."""

    schema: pa.Schema
    due: Callable[[pa.RecordBatch], int]  # gives when something in rows is due next, under the watermark of a batch

    def load(self, data: bytes) -> KeyedRows:
        return KeyedRows(load_rows(data, self.schema))

    def dump(self, state: KeyedRows) -> bytes:
        return dump_rows(state.rows) if state.rows.num_rows else b""

    def timers(self, state: KeyedRows) -> tuple[int, int]:
        return stored_timer(self.due(state.rows) if state.rows.num_rows else None), NO_TIMER

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
        return keys[np.isin(keys, others)][:most]

    def beyond(self, keys: Hashes, others: Hashes, most: int | None = None) -> Hashes:
        return keys[np.isin(keys, others, invert=True)][:most]

    def remembered(self, keys: Hashes, seen: bytes) -> tuple[Hashes, bytes]:
        bits = bits_in_group(keys).astype("<u4")
        again = np.isin(bits, np.frombuffer(seen, "<u4"))
        return keys[again], bits[~again].tobytes()
