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

from windrow_runtime.columnar.chunks import dump_rows, load_rows
from windrow_runtime.columnar.grouping import encode_keys
from windrow_runtime.columnar.hashing import hash_keys, pages_of
from windrow_runtime.operators.page_sizes import PageSizes, half_of
from windrow_runtime.operators.page_store import PageStore
from windrow_runtime.operators.state_errors import part_missing

__all__ = ["Pages"]

# Any in this module: pyarrow has no types.

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_INLINE_BYTES: Final = 32 << 10
# To read and write a page takes 0.3 ms, and 0.001 ms for each row in it.
_SIZES: Final = PageSizes(small=2 << 10, dense=64 << 10, least=0, keys_for_all=1)
_MOST_PAGES: Final = 1 << 16
_AHEAD: Final = 16
_BYTES_AT_ONCE: Final = 2 << 20
_WHOLE_BYTES: Final = 8 << 20  # so many where most pages are touched anyway
_GROUP_BITS: Final = 32  # the low bits of a hash say which key group a key is in


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
    """

    schema: Any
    sizes: list[int]
    dues: list[int]
    inline: bytes
    store: PageStore
    due: Callable[[Any], int]
    _loaded: dict[int, bytes] = field(default_factory=dict)
    _keys: int = 0
    _has_due: bool = False
    _rows_loaded: int = 0
    _bytes_loaded: int = 0

    def touched(self, keys: Any, watermark: int) -> list[int]:
        """The pages of some keys, and those in which something is due; all of them, where they are most."""
        count = len(self.sizes)
        if count == 1:
            return [0]
        due = {page for page, size in enumerate(self.sizes) if size and self.dues[page] <= watermark}
        encoded = encode_keys(keys)
        self._has_due = bool(due)
        self._keys = max(len(encoded.distinct), len(due))
        found = due.union(np.unique(self._places(encoded.distinct)).tolist())
        if 2 * len(found) > count and sum(self.sizes) <= _WHOLE_BYTES:
            # Whoever has all of it can lay it out anew.
            return list(range(count))
        return sorted(found)

    def parts(self, keys: Any, watermark: int) -> Iterator[tuple[list[int], Mask | None]]:
        """Touched pages, as many at a time as fit into memory, and which of the keys lie in them; None: all of them.

        A part is loaded and saved before the next one; :meth:`end_batch` follows the last.
        """
        touched = self.touched(keys, watermark)
        ends = np.cumsum([self.sizes[page] for page in touched])
        is_whole = len(touched) == len(self.sizes) and sum(self.sizes) <= _WHOLE_BYTES
        if not touched or is_whole or ends[-1] <= _BYTES_AT_ONCE:
            yield touched, None
            return
        part_of = np.zeros(len(self.sizes), np.int64)
        part_of[touched] = ends // _BYTES_AT_ONCE
        encoded = encode_keys(keys)
        parts = part_of[self._places(encoded.distinct)][encoded.codes]
        for number, pages in groupby(touched, lambda page: int(part_of[page])):
            yield list(pages), parts == number

    def _places(self, keys: Any) -> Ints:
        """The page of each of some distinct keys."""
        return pages_of(hash_keys(keys) >> np.uint64(_GROUP_BITS), len(self.sizes))

    def load(self, pages: list[int]) -> list[Any]:
        """The rows of some pages."""
        found = [load_rows(data, self.schema) for data in self._bytes_of(pages)]
        self._rows_loaded += sum(rows.num_rows for rows in found)
        return found

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
        """Split pages until they are of the right size again."""
        if not any(self.sizes):
            self.sizes, self.dues = [0], [0]
        elif len(self.sizes) > 1:
            self._split_some()

    def _split_some(self) -> None:
        """One page more at a time while they are too large, or few keys of many are touched."""
        left = _SIZES.split_ahead(self._bytes_loaded, self._has_due)
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
        moves = (self._places(encoded.distinct) == last)[encoded.codes]
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
        places = self._places(encoded.distinct)[encoded.codes]
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
