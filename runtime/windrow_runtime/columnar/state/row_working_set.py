"""The working set of a step's rows in one key group, during a batch: which keys it has, takes in, and lets go.

Keys are told apart by their hashes alone. Keys that share one lie in the same page, and come and go together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow_runtime.columnar.rows.grouping import encode_keys
from windrow_runtime.columnar.rows.hashing import bits_in_group, hash_keys
from windrow_runtime.columnar.state.chunks import concatenated, dump_rows, load_rows
from windrow_runtime.storage.hot_keys import (
    how_many_come,
    how_many_leave,
    keys_lately,
    largest_informative_batch,
    seen_after,
)

__all__ = ["RowWorkingSet"]

# Any in this module: pyarrow has no types.

Hashes: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_NONE: Hashes = np.empty(0, np.uint64)


@dataclass
class RowWorkingSet:
    """The rows of keys that batches touch again and again.

    Attributes:
        schema: The columns of rows; the first one holds keys.
        data: The rows, as they are stored; empty: there are none.
        due: When something in them is due next; of no meaning if there are none.
        seen: What is remembered of the keys that batches have touched.
    """

    schema: Any
    data: bytes = b""
    due: int = 0
    seen: bytes = b""
    _coming: Hashes = field(default_factory=lambda: _NONE)
    _came: float = 0.0  # the bytes of those that came in, as far as that can be told
    _fresh: bytes = b""
    _touched: Hashes | None = None
    _kept: list[Any] = field(default_factory=list)
    _is_taken: bool = False

    @cached_property
    def _rows(self) -> Any:
        return load_rows(self.data, self.schema)

    @cached_property
    def _hashes(self) -> Hashes:
        """Those of the keys that were in it when the batch began."""
        return hash_keys(encode_keys(self._rows.column(0)).distinct) if self.data else _NONE

    def has(self, hashes: Hashes) -> Mask:
        """Which keys were in it when the batch began."""
        return np.isin(hashes, self._hashes) if self.data else np.zeros(len(hashes), np.bool_)

    def begin(self, touched: Hashes, total: int) -> None:
        """Choose the keys that come in.

        Args:
            touched: The hashes of all keys that the batch touches.
            total: The size of all pages in bytes.
        """
        self._touched = touched
        if len(touched) >= largest_informative_batch(total + len(self.data)):
            return
        others = touched[~self.has(touched)]
        bits = bits_in_group(others).astype("<u4")
        comes = np.isin(bits, np.frombuffer(self.seen, "<u4"))
        self._coming = others[comes]
        self._fresh = bits[~comes].tobytes()

    def take(self) -> Any:
        """Its rows, to be worked on; :meth:`keep` gets them back."""
        self._is_taken = True
        return self._rows

    def keep(self, rows: Any, size: int, *, is_whole: bool) -> Any:
        """Take the rows of its keys out of some; gives the others.

        Args:
            rows: Those of some pages, behind the batch.
            size: What these pages took before, in bytes.
            is_whole: Whether what :meth:`take` gave is among them.
        """
        import pyarrow as pa

        own = self._hashes if is_whole else _NONE
        if not rows.num_rows or not (len(own) or len(self._coming)):
            return rows
        encoded = encode_keys(rows.column(0))
        hashes = hash_keys(encoded.distinct)
        belongs = np.isin(hashes, own)
        if len(self._coming):
            bytes_of_a_key = size / max(1, int(np.count_nonzero(~belongs)))
            most = how_many_come(len(self.data) + int(self._came), bytes_of_a_key)
            # By their hashes: keys that share one come together.
            coming = hashes[np.isin(hashes, self._coming)][:most]
            self._came += len(coming) * bytes_of_a_key
            belongs |= np.isin(hashes, coming)
        if not belongs.any():
            return rows
        mask = belongs[encoded.codes]
        self._kept.append(rows.filter(pa.array(mask)))
        return rows.filter(pa.array(~mask))

    def take_all(self) -> Any:
        """All rows that are in it now, of which none is left here; None: there are none."""
        parts = self._kept if self._is_taken or not self.data else [self._rows, *self._kept]
        self._kept, self._is_taken, self.data = [], True, b""
        return concatenated(parts) if parts else None

    def end(self, pages: int) -> Any:
        """Remember what the batch has touched; gives the rows of the keys that leave, None: there are none.

        Args:
            pages: How many pages there are.
        """
        import pyarrow as pa

        touched = self._touched
        if touched is None:
            return None
        self.seen = seen_after(self.seen, self._fresh, len(touched))
        size = len(self.data) + int(self._came)
        if not (self._is_taken or self._kept) and not len(self._leaving(self._hashes, touched, size, pages)):
            return None
        rows = self.take_all()
        if rows is None:
            return None
        encoded = encode_keys(rows.column(0))
        hashes = hash_keys(encoded.distinct)
        leaving = self._leaving(hashes, touched, size, pages)
        leaves = np.isin(hashes, leaving)[encoded.codes]
        self._kept = [rows.filter(pa.array(~leaves))]
        return rows.filter(pa.array(leaves)) if len(leaving) else None

    def _leaving(self, hashes: Hashes, touched: Hashes, size: int, pages: int) -> Hashes:
        lately = keys_lately(self.seen, len(touched))
        untouched, any_of_them = how_many_leave(len(hashes), lately, size, pages)
        is_touched = np.isin(hashes, touched)
        leaving = hashes[~is_touched][:untouched]
        return np.concatenate([leaving, hashes[is_touched][: max(0, any_of_them - len(leaving))]])

    def store(self, due: Callable[[Any], int]) -> None:
        """Put what is in it into bytes again.

        Args:
            due: Tells when something in some rows is due next.
        """
        if not (self._is_taken or self._kept):
            return
        rows = self.take_all()
        if rows is not None and rows.num_rows:
            self.data, self.due = dump_rows(rows), due(rows)
