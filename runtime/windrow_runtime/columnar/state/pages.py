"""Rows of state in pages by key: a batch reads and writes the pages that it touches, and those that are due.

A state that fits into one page lies in the group's own record. Pages are split one by one when they have grown, and are
large where batches touch all of them, small where they touch few keys of many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow_runtime.columnar.rows.grouping import encode_keys
from windrow_runtime.columnar.rows.hashing import bits_in_group, hash_keys, pages_of
from windrow_runtime.columnar.state.chunks import concatenated, dump_rows, load_rows
from windrow_runtime.columnar.state.row_working_set import RowWorkingSet
from windrow_runtime.operators.state.page_store import PageStore
from windrow_runtime.operators.state.state_errors import part_missing
from windrow_runtime.storage.hot_keys import WORKING_SET
from windrow_runtime.storage.paging import PageSizes, half_of

__all__ = ["Pages"]

# Any in this module: pyarrow has no types.

Ints: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_INLINE_BYTES: Final = 32 << 10
# To read and write a page takes 0.3 ms, and 0.001 ms for each row in it.
_SIZES: Final = PageSizes(small=2 << 10, dense=64 << 10, least=0, keys_per_page_for_full_scan=1)
_MOST_PAGES: Final = 1 << 16
_AHEAD: Final = 16
_BYTES_AT_ONCE: Final = 2 << 20
_WHOLE_BYTES: Final = 8 << 20  # so many where most pages are touched anyway


@dataclass
class Pages:
    """The rows of one step in one key group.

    Attributes:
        schema: The columns of rows.
        sizes: The size of each page in bytes; 0: it is empty, and not stored.
        dues: When something in each page is due next; of no meaning for an empty one.
        inline: The one page, where there is no other.
        store: Where pages are.
        due: When something in some rows, which are not empty, is due next under the watermark of this batch.
        working_set: The rows of keys that batches touch again and again, apart from pages.
    """

    schema: Any
    sizes: list[int]
    dues: list[int]
    inline: bytes
    store: PageStore
    due: Callable[[Any], int]
    working_set: RowWorkingSet
    _loaded: dict[int, bytes] = field(default_factory=dict)
    _keys: int = 0
    _has_due: bool = False
    _rows_loaded: int = 0
    _bytes_loaded: int = 0

    def parts(self, keys: Any, watermark: int) -> Iterator[tuple[list[int], Mask | None]]:
        """Touched pages, as many at a time as fit into memory, and which of the keys lie in them; None: all of them.

        The working set may be among them. A part is loaded and saved before the next one; :meth:`end_batch` follows
        the last.
        """
        count = len(self.sizes)
        if count == 1:
            yield [0], None
            return
        encoded = encode_keys(keys)
        homes = self._homes(hash_keys(encoded.distinct))
        touched = self._touched(homes, watermark)
        sizes = [self.sizes[page] if page != WORKING_SET else len(self.working_set.data) for page in touched]
        ends = np.cumsum(sizes)
        is_whole = len(touched) - (WORKING_SET in touched) == count and sum(self.sizes) <= _WHOLE_BYTES
        if not touched or is_whole or ends[-1] <= _BYTES_AT_ONCE:
            yield touched, None
            return
        part_of = np.zeros(count + 1, np.int64)  # the last one is that of the working set
        part_of[touched] = ends // _BYTES_AT_ONCE
        parts = part_of[homes][encoded.codes]
        for number, pages in groupby(touched, lambda page: int(part_of[page])):
            yield list(pages), parts == number

    def _homes(self, hashes: Hashes) -> Ints:
        """Where each of the keys of the batch lies."""
        if not len(hashes):
            return np.empty(0, np.int64)
        self.working_set.begin(hashes, sum(self.sizes))
        return np.where(self.working_set.has(hashes), WORKING_SET, self._places(hashes))

    def _touched(self, homes: Ints, watermark: int) -> list[int]:
        """The pages of some keys, and those in which something is due; all of them, where they are most."""
        count = len(self.sizes)
        found = {page for page, size in enumerate(self.sizes) if size and self.dues[page] <= watermark}
        self._keys = max(int(np.count_nonzero(homes != WORKING_SET)), len(found))
        is_due = bool(self.working_set.data) and self.working_set.due <= watermark
        self._has_due = is_due or bool(found)
        found.update(np.unique(homes).tolist())
        working_set = [WORKING_SET] if is_due or WORKING_SET in found else []
        found.discard(WORKING_SET)
        # Whoever has all of it can lay it out anew.
        is_whole = 2 * len(found) > count and sum(self.sizes) <= _WHOLE_BYTES
        return working_set + (list(range(count)) if is_whole else sorted(found))

    def _places(self, hashes: Hashes) -> Ints:
        """The page of each of some keys, those of the working set as if they were in one."""
        return pages_of(bits_in_group(hashes), len(self.sizes))

    def load(self, pages: list[int]) -> list[Any]:
        """The rows of some pages."""
        stored = [page for page in pages if page != WORKING_SET]
        found = [load_rows(data, self.schema) for data in self._bytes_of(stored)]
        self._rows_loaded += sum(rows.num_rows for rows in found)
        return [self.working_set.take(), *found] if WORKING_SET in pages else found

    def _bytes_of(self, pages: list[int]) -> list[bytes]:
        """Those of the pages that are not empty."""
        filled = [page for page in pages if self.sizes[page]]
        if len(self.sizes) == 1 and self.inline:
            return [self.inline] if filled else []
        found: list[bytes] = []
        for page, data in zip(filled, self.store.get_all(filled), strict=True):
            if data is None:
                raise part_missing(
                    "a page of the stored state",
                    given=f"page {page} of {len(self.sizes)}",
                    expected=f"{self.sizes[page]} bytes",
                )
            self._loaded[page] = data
            self._bytes_loaded += len(data)
            found.append(data)
        return found

    def save(self, pages: list[int], rows: Any) -> None:
        """Store what is left of pages that were loaded."""
        count = len(self.sizes)
        if count == 1:
            data = dump_rows(rows) if rows.num_rows else b""
            if len(data) > _INLINE_BYTES:
                self._lay_out(rows, len(data), _SIZES.dense)
                return
            self.inline = data
            self._note(0, data, rows)
            return
        is_among = WORKING_SET in pages
        pages = [page for page in pages if page != WORKING_SET]
        rows = self.working_set.keep(rows, sum(self.sizes[page] for page in pages), is_whole=is_among)
        if len(pages) == count and rows.num_rows:
            # What was stored, and what has become of it since.
            total = sum(self.sizes) * rows.num_rows // max(1, self._rows_loaded)
            if _SIZES.are_too_large_for_few(self._keys, total, count) and not self._has_due:
                self._lay_out(rows, total, _SIZES.small)
                return
            if _SIZES.are_too_small(self._keys, total, count):
                # Pages are small, and touched all the same.
                self._lay_out(rows, total, _SIZES.dense)
                return
        for page, part in self._split(rows, pages):
            self._save_page(page, part)

    def end_batch(self) -> None:
        """Let keys leave the working set, and split pages until they are of the right size again."""
        if len(self.sizes) > 1:
            left = _SIZES.split_ahead(self._bytes_loaded, self._has_due)
            leaving = self.working_set.end(len(self.sizes))
            if leaving is not None:
                self._put_back(leaving)
            if any(self.sizes):
                self.working_set.store(self.due)
                self._split_some(left)
        if not any(self.sizes):
            self.sizes, self.dues = [0], [0]
            rows = self.working_set.take_all()
            self.working_set.seen = b""
            if rows is not None:
                self.save([0], rows)

    def _put_back(self, rows: Any) -> None:
        """Rows that leave the working set go to their pages."""
        import pyarrow as pa

        encoded = encode_keys(rows.column(0))
        places = self._places(hash_keys(encoded.distinct))[encoded.codes]
        pages = np.unique(places).tolist()
        for start in range(0, len(pages), _AHEAD):
            some = pages[start : start + _AHEAD]
            inside = rows.filter(pa.array(np.isin(places, some)))
            for page, part in self._split(concatenated([inside, *self.load(some)]), some):
                self._save_page(page, part)

    def _split_some(self, left: int) -> None:
        """One page more at a time while they are too large, or few keys of many are touched.

        Args:
            left: So many bytes are split for batches to come, at most.
        """
        total = sum(self.sizes)
        ahead: dict[int, bytes] = {}
        while (count := len(self.sizes)) < _MOST_PAGES:
            source = half_of(count)
            before = self.sizes[source]
            if not _SIZES.are_too_large(total, count):
                if left <= 0 or not _SIZES.are_too_large_for_few(self._keys, total, count):
                    return
                left -= before
            if before and source not in ahead:
                some = [page for page in range(source, min(source + _AHEAD, count)) if self.sizes[page]]
                ahead = dict(zip(some, self._bytes_of(some), strict=True))
            self.sizes.append(0)
            self.dues.append(0)
            if before:
                self._split_one(load_rows(ahead.pop(source), self.schema), source, count)
            total += self.sizes[source] + self.sizes[count] - before

    def _split_one(self, rows: Any, source: int, last: int) -> None:
        import pyarrow as pa

        encoded = encode_keys(rows.column(0))
        moves = (self._places(hash_keys(encoded.distinct)) == last)[encoded.codes]
        self._save_page(source, rows.filter(pa.array(~moves)))
        self._save_page(last, rows.filter(pa.array(moves)))

    def _lay_out(self, rows: Any, total: int, page_bytes: int) -> None:
        """Lay all rows out in pages of about so many bytes."""
        for page, size in enumerate(self.sizes):
            if size and len(self.sizes) > 1:
                self.store.remove(page)
        count = min(_SIZES.count_of(total, page_bytes), _MOST_PAGES)
        self.inline = b""
        self._loaded.clear()
        self._bytes_loaded = 0
        self.sizes, self.dues = [0] * count, [0] * count
        for page, part in self._split(rows, list(range(count))):
            self._save_page(page, part)

    def _split(self, rows: Any, pages: list[int]) -> list[tuple[int, Any]]:
        import pyarrow as pa

        encoded = encode_keys(rows.column(0))
        places = self._places(hash_keys(encoded.distinct))[encoded.codes]
        order = np.argsort(places, kind="stable")
        sorted_rows = rows.take(pa.array(order))
        counts = np.bincount(places, minlength=len(self.sizes))
        bounds = np.concatenate([[0], np.cumsum(counts)]).tolist()
        return [(page, sorted_rows.slice(bounds[page], bounds[page + 1] - bounds[page])) for page in pages]

    def _save_page(self, page: int, rows: Any) -> None:
        if not rows.num_rows:
            if self.sizes[page]:
                self.store.remove(page)
            self.sizes[page] = 0
            return
        data = dump_rows(rows)
        if data != self._loaded.pop(page, None):
            self.store.put(page, data)
        self._note(page, data, rows)

    def _note(self, page: int, data: bytes, rows: Any) -> None:
        self.sizes[page] = len(data)
        self.dues[page] = self.due(rows) if rows.num_rows else 0
