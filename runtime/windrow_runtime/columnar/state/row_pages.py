"""Pages of rows: state in columns, the first of which holds keys.

Keys are told apart by their hashes alone. Keys that share one lie in the same page, and come into the working set and
leave it together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow_runtime.columnar.rows.groups import encode_keys
from windrow_runtime.columnar.rows.hashing import bits_in_group, hash_keys, pages_of
from windrow_runtime.columnar.state.chunks import concatenated, dump_rows, load_rows, no_rows
from windrow_runtime.storage.group_record import NO_TIMER, WORKING_SET, PageStore, StepRecord, stored_timer
from windrow_runtime.storage.keyed_pages import KeyedPages
from windrow_runtime.storage.tuning import ROW_PAGES, PageTuning

# Any in this module: pyarrow has no types.

_Codes: TypeAlias = npt.NDArray[np.int64]
_Hashes: TypeAlias = npt.NDArray[np.uint64]
_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass
class _Rows:
    """Rows, and the hashes of their keys as soon as somebody asks for them."""

    rows: Any

    @cached_property
    def hashed(self) -> tuple[_Codes, _Hashes]:
        """The place of each row's key among hashes, and the hashes, in order of appearance."""
        encoded = encode_keys(self.rows.column(0))
        return encoded.codes, hash_keys(encoded.distinct)

    def filter(self, mask: _Mask) -> _Rows:
        """Some of the rows."""
        import pyarrow as pa

        found = _Rows(self.rows.filter(pa.array(mask)))
        codes, hashes = self.hashed
        found.hashed = codes[mask], hashes
        return found


class RowPages(KeyedPages[_Rows, _Hashes]):
    """The rows of one step in one key group, during a batch.

    Args:
        record: The step's part of the group's record; it is changed.
        schema: The columns of rows.
        store: Where pages are.
        due: When something in some rows, which are not empty, is due next under the watermark of this batch.
        tuning: How large pages are to be.
    """

    def __init__(
        self,
        record: StepRecord,
        schema: Any,
        store: PageStore,
        due: Callable[[Any], int],
        tuning: PageTuning = ROW_PAGES,
    ) -> None:
        super().__init__(record, _RowContents(schema, due), store, tuning)

    def load_rows(self, pages: Sequence[int]) -> Any:
        """The rows of some pages."""
        return self.load(pages).rows

    def save_rows(self, pages: Sequence[int], rows: Any) -> None:
        """Store what is left of pages that were loaded."""
        self.save(pages, _Rows(rows))

    def shares(self, keys: Any, watermark: int) -> Iterator[tuple[list[int], _Mask | None]]:
        """The pages to work on, as many at a time as fit into memory, and the rows of the batch for each share.

        Args:
            keys: The keys of the rows that have come, an Arrow array.
            watermark: The watermark, in milliseconds.

        Yields:
            The pages, and which of the rows are for them; None: all of them.
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


class _RowContents:
    """Handles rows, and the hashes of their keys."""

    def __init__(self, schema: Any, due: Callable[[Any], int]) -> None:
        self._schema = schema
        self._due = due
        self._no_rows = no_rows(schema)

    def load(self, data: bytes) -> _Rows:
        return _Rows(load_rows(data, self._schema))

    def dump(self, state: _Rows) -> bytes:
        return dump_rows(state.rows) if state.rows.num_rows else b""

    def timers(self, state: _Rows) -> tuple[int, int]:
        return stored_timer(self._due(state.rows) if state.rows.num_rows else None), NO_TIMER

    def open(self, pages: Mapping[int, _Rows]) -> _Rows:
        return self.join([*pages.values()])

    def join(self, parts: Sequence[_Rows]) -> _Rows:
        filled = [part for part in parts if part.rows.num_rows]
        if len(filled) == 1:
            return filled[0]
        return _Rows(concatenated([self._no_rows, *(part.rows for part in filled)]))

    def split(self, state: _Rows, count: int) -> dict[int, _Rows]:
        import pyarrow as pa

        codes, hashes = state.hashed
        places = pages_of(bits_in_group(hashes), count)[codes]
        rows = state.rows.take(pa.array(np.argsort(places, kind="stable")))
        sizes = np.bincount(places, minlength=count)
        starts = np.cumsum(sizes) - sizes
        return {page: _Rows(rows.slice(starts[page], sizes[page])) for page in np.flatnonzero(sizes).tolist()}

    def take(self, state: _Rows, keys: _Hashes) -> tuple[_Rows, _Rows]:
        codes, hashes = state.hashed
        mask = np.isin(hashes, keys)[codes]
        return state.filter(mask), state.filter(~mask)

    def keys(self, state: _Rows) -> _Hashes:
        codes, hashes = state.hashed
        return hashes[np.flatnonzero(np.bincount(codes))]

    def pages_of(self, keys: _Hashes, count: int) -> set[int]:
        return set(pages_of(bits_in_group(keys), count).tolist())

    def among(self, keys: _Hashes, others: _Hashes, most: int) -> _Hashes:
        return keys[np.isin(keys, others)][:most]

    def beyond(self, keys: _Hashes, others: _Hashes, most: int | None = None) -> _Hashes:
        return keys[np.isin(keys, others, invert=True)][:most]

    def remembered(self, keys: _Hashes, seen: bytes) -> tuple[_Hashes, bytes]:
        bits = bits_in_group(keys).astype("<u4")
        again = np.isin(bits, np.frombuffer(seen, "<u4"))
        return keys[again], bits[~again].tobytes()
