"""Merges the rows of slices into those of windows.

Windows that follow each other have most of their slices in common. Where windows are made of many slices, those that
some have in common are merged once, and each adds what it has besides. With as many windows at a time as the square
root of their slices, each window takes about twice that number of slices instead of all::

    windows   |------------------|
                 |------------------|
                    |------------------|
    merged    |--|--|  in common |--|--|
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from math import isqrt
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from windrow_spark.columnar import Ints
from windrow_spark.columnar.kernels.kernel import Kernel
from windrow_spark.columnar.rows.groups import Cells, Groups, Keys, cells_of, encode_keys
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.storage.tuning import ChunkTuning

WindowStates: TypeAlias = tuple[pa.Array, Ints, Sequence[pa.Array]]
"""The state of windows, as columns side by side: their keys, their starts, and the columns of the kernel."""

_Merged: TypeAlias = tuple[Cells, Sequence[pa.Array]]
"""States by number of window and code of key, in this order."""


def slices_in(rows: pa.RecordBatch) -> Ints:
    """Returns the slices of rows of state."""
    return np.asarray(rows.column(1))


class SliceRows:
    """Merges rows of state by window and key; several of the rows may be of one key and slice."""

    def __init__(self, windows: Slices, kernel: Kernel, rows: pa.RecordBatch, tuning: ChunkTuning) -> None:
        self.slices, ranks = np.unique(slices_in(rows), return_inverse=True)
        self._by_slice = Groups(ranks, len(self.slices))
        # The indices at which the rows of each slice begin, and at which the last ones end.
        self._bounds = np.concatenate([self._by_slice.starts, [len(ranks)]])
        self._windows = windows
        self._kernel = kernel
        self._rows = rows
        self._columns = rows.columns[2:]
        self._most = min(tuning.merged_rows, max(1, tuning.merged_bytes * len(ranks) // max(1, rows.nbytes)))
        self._tuning = tuning

    @cached_property
    def _keys(self) -> Keys:
        return encode_keys(self._rows.column(0))

    def held_by(self, starts: Iterable[Ints]) -> Iterator[WindowStates]:
        """Merges the rows of each window that has any; ``starts`` are those of windows, ascending, in portions."""
        for portion in starts:
            begins, ends = self._windows.held_by(self.slices, portion)
            filled = begins < ends
            if filled.any():
                yield from self._merge_windows(portion[filled], begins[filled], ends[filled])

    def _merge_windows(self, starts: Ints, begins: Ints, ends: Ints) -> Iterator[WindowStates]:
        slices_each = int((ends - begins).max())
        shares = slices_each >= self._tuning.least_shared_slices
        totals = np.concatenate([[0], np.cumsum(self._bounds[ends] - self._bounds[begins])])
        low = 0
        while low < len(starts):
            if shares:
                high = min(low + isqrt(slices_each), len(starts))
                while high - low > 1 and self._worked_on(begins[low:high], ends[low:high]) > self._most:
                    high = (low + high) // 2
            else:
                high = max(low + 1, int(np.searchsorted(totals, totals[low] + self._most, "right")) - 1)
            cells, states = self._merged(begins[low:high], ends[low:high], shares=shares)
            yield self._keys.distinct.take(pa.array(cells.codes)), starts[low:high][cells.places], states
            low = high

    def _worked_on(self, begins: Ints, ends: Ints) -> int:
        """Counts the rows that are merged for windows if the slices that they share are merged first."""
        common = len(begins) * len(self._keys.distinct)
        before = self._bounds[begins[-1]] - self._bounds[begins]
        after = self._bounds[ends] - self._bounds[ends[0]]
        return common + int(before.sum() + after.sum())

    def _merged(self, begins: Ints, ends: Ints, *, shares: bool) -> _Merged:
        """Merges the rows of windows, each given by the bounds of its slices: the first, and the one after the last."""
        low, high = begins[-1], ends[0]
        if len(begins) == 1 or not shares or low >= high:
            return self._by_key(*self._rows_of(begins, ends))
        common, merged = self._by_key(*self._rows_of(begins[-1:], ends[:1]))
        before, windows_before = self._rows_of(begins, np.full_like(begins, low))
        after, windows_after = self._rows_of(np.full_like(ends, high), ends)
        rows = np.concatenate([before, after])
        again = np.tile(np.arange(len(common.codes)), len(begins))
        windows = np.concatenate([windows_before, windows_after, np.repeat(np.arange(len(begins)), len(common.codes))])
        codes = np.concatenate([self._keys.codes[rows], common.codes[again]])
        cells = cells_of(Keys(codes, self._keys.distinct), windows)
        columns = [
            pa.concat_arrays([column.take(pa.array(rows)), state.take(pa.array(again))])
            for column, state in zip(self._columns, merged, strict=True)
        ]
        return cells, self._kernel.merge(cells.groups, columns)

    def _rows_of(self, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Returns the rows of each window's slices, given by their bounds, and the window of each row."""
        bounds = zip(self._bounds[begins].tolist(), self._bounds[ends].tolist(), strict=True)
        rows = [self._by_slice.order[low:high] for low, high in bounds]
        return np.concatenate(rows), np.repeat(np.arange(len(rows)), list(map(len, rows)))

    def _by_key(self, rows: Ints, windows: Ints) -> _Merged:
        """Merges rows by window and key."""
        cells = cells_of(Keys(self._keys.codes[rows], self._keys.distinct), windows)
        columns = self._columns
        if cells.groups.count == len(rows):
            # Each key has one row in each window: they only have to stand in order.
            sources = np.empty(len(rows), np.int64)
            sources[cells.groups.ids] = rows
            return cells, [column.take(pa.array(sources)) for column in columns]
        if len(rows) != len(self._by_slice) or not np.array_equal(rows, np.arange(len(rows))):
            columns = [column.take(pa.array(rows)) for column in columns]
        return cells, self._kernel.merge(cells.groups, columns)
