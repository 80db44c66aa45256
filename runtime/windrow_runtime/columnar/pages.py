"""Rows of state in pages by key: a batch reads and writes the pages that it touches, and those that are due.

A state that fits into one page lies in the group's own record. There are twice as many pages when they have grown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow.errors import IncompatibleStateError
from windrow_runtime.columnar.chunks import ChunkStore, dump_rows, load_rows
from windrow_runtime.columnar.grouping import encode_keys
from windrow_runtime.columnar.hashing import hash_keys

__all__ = ["Pages"]

# Any in this module: pyarrow has no types.

Ints: TypeAlias = npt.NDArray[np.int64]

_INLINE_BYTES: Final = 32 << 10
_PAGE_BYTES: Final = 64 << 10
_MOST_PAGES: Final = 1 << 16
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
    store: ChunkStore
    due: Callable[[Any], int]
    _loaded: dict[int, bytes] = field(default_factory=dict)

    def touched(self, keys: Any, watermark: int) -> list[int]:
        """The pages of some keys, and those in which something is due."""
        due = {page for page, size in enumerate(self.sizes) if size and self.dues[page] <= watermark}
        if len(self.sizes) == 1:
            return [0]
        return sorted(due.union(np.unique(self._places(keys)).tolist()))

    def _places(self, keys: Any) -> Ints:
        encoded = encode_keys(keys)
        hashes = hash_keys(encoded.distinct) >> np.uint64(_GROUP_BITS)
        pages: Ints = (hashes & np.uint64(len(self.sizes) - 1)).astype(np.int64)
        return pages[encoded.codes]

    def load(self, pages: list[int]) -> list[Any]:
        """The rows of some pages."""
        return [load_rows(data, self.schema) for data in map(self._bytes_of, pages) if data]

    def _bytes_of(self, page: int) -> bytes:
        if not self.sizes[page]:
            return b""
        if len(self.sizes) == 1 and self.inline:
            return self.inline
        data = self.store.get(page)
        if data is None:
            raise IncompatibleStateError(
                "a page of the stored state is missing",
                given=f"page {page} of {len(self.sizes)}",
                expected=f"{self.sizes[page]} bytes",
                hint="restore the checkpoint folder as a whole, or begin a new one",
            )
        self._loaded[page] = data
        return data

    def save(self, pages: list[int], rows: Any) -> None:
        """Store what is left of pages that were loaded."""
        if len(self.sizes) == 1:
            data = dump_rows(rows) if rows.num_rows else b""
            if len(data) > _INLINE_BYTES:
                self._grow(rows, len(data))
                return
            self.inline = data
            self._note(0, data, rows)
            return
        for page, part in self._split(rows, pages):
            self._save_page(page, part)
        if sum(self.sizes) > 2 * _PAGE_BYTES * len(self.sizes) and len(self.sizes) < _MOST_PAGES:
            import pyarrow as pa

            everything = self.load(list(range(len(self.sizes))))
            self._grow(pa.Table.from_batches(everything).combine_chunks().to_batches()[0], sum(self.sizes))
        elif not any(self.sizes):
            self.sizes, self.dues = [0], [0]

    def _grow(self, rows: Any, total: int) -> None:
        """Lay all rows out in as many pages as their size asks for."""
        count = 2
        while count * _PAGE_BYTES < total:
            count *= 2
        if len(self.sizes) > 1:
            for page, size in enumerate(self.sizes):
                if size:
                    self.store.remove(page)
        self.inline = b""
        self._loaded.clear()
        self.sizes, self.dues = [0] * count, [0] * count
        for page, part in self._split(rows, list(range(count))):
            self._save_page(page, part)

    def _split(self, rows: Any, pages: list[int]) -> list[tuple[int, Any]]:
        import pyarrow as pa

        places = self._places(rows.column(0))
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
        if data != self._loaded.get(page):
            self.store.put(page, data)
        self._note(page, data, rows)

    def _note(self, page: int, data: bytes, rows: Any) -> None:
        self.sizes[page] = len(data)
        self.dues[page] = self.due(rows) if rows.num_rows else 0
