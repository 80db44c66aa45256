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

from windrow_runtime.columnar.chunks import dump_rows, load_rows
from windrow_runtime.columnar.grouping import encode_keys
from windrow_runtime.columnar.hashing import hash_keys
from windrow_runtime.columnar.panes import concatenated
from windrow_runtime.operators.working_set import how_many_leave, most_worth, seen_after, takes_more

__all__ = ["RowWorkingSet", "rows_with"]

# Any in this module: pyarrow has no types.

Hashes: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_GROUP_BITS = np.uint64(32)  # the low bits of a hash say which key group a key is in
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
        if len(touched) >= most_worth(total + len(self.data)):
            return
        others = touched[~self.has(touched)]
        bits = (others >> _GROUP_BITS).astype("<u4")
        comes = np.isin(bits, np.frombuffer(self.seen, "<u4")) & takes_more(len(self.data))
        self._coming = others[comes]
        self._fresh = bits[~comes].tobytes()

    def take(self) -> Any:
        """Its rows, to be worked on; :meth:`keep` gets them back."""
        self._is_taken = True
        return self._rows

    def keep(self, rows: Any, *, is_whole: bool) -> Any:
        """Take the rows of its keys out of some; gives the others.

        Args:
            rows: Those of some pages, behind the batch.
            is_whole: Whether what :meth:`take` gave is among them.
        """
        import pyarrow as pa

        hashes = np.concatenate([self._hashes, self._coming]) if is_whole else self._coming
        if not len(hashes) or not rows.num_rows:
            return rows
        belongs = rows_with(rows, hashes)
        if belongs.any():
            self._kept.append(rows.filter(pa.array(belongs)))
        return rows.filter(pa.array(~belongs))

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

        touched, size = self._touched, len(self.data)
        if touched is None:
            return None
        self.seen = seen_after(self.seen, self._fresh, len(touched))
        if not (self._is_taken or self._kept):
            return None
        rows = self.take_all()
        if rows is None:
            return None
        encoded = encode_keys(rows.column(0))
        hashes = hash_keys(encoded.distinct)
        count = how_many_leave(len(hashes), len(touched), size, pages)
        leaving = hashes[~np.isin(hashes, touched)][:count]
        leaves = np.isin(hashes, leaving)[encoded.codes]
        self._kept = [rows.filter(pa.array(~leaves))]
        return rows.filter(pa.array(leaves)) if len(leaving) else None

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


def rows_with(rows: Any, hashes: Hashes) -> Mask:
    """Which rows have keys with one of some hashes."""
    encoded = encode_keys(rows.column(0))
    found: Mask = np.isin(hash_keys(encoded.distinct), hashes)[encoded.codes]
    return found
