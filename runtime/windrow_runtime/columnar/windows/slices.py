"""Runs tumbling and sliding windows, and the window of all time, over columns.

State is a row for each key and slice, with what the aggregate holds of the slice's elements. When the watermark reaches
the end of windows, the rows of their slices are merged by key, and leave as columns. Rows of one key and slice may lie
in several chunks; they are merged where they are needed. Neither what is read nor what is merged at a time grows with
the state.

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
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from windrow_runtime.columnar import Ints
from windrow_runtime.columnar.rows.groups import Cells, Groups, Keys, cells_of, encode_keys
from windrow_runtime.columnar.state import Chunks, DueRows, concatenated
from windrow_runtime.columnar.windows.column_operator import BY_ARRIVAL, ColumnOperator, Fired, PartialAggregation
from windrow_runtime.columnar.windows.geometry import Slices
from windrow_runtime.storage.tuning import ChunkTuning

Held: TypeAlias = tuple[pa.Array, Ints, Sequence[pa.Array]]
"""The state of windows, as columns side by side: their keys, their starts, and the columns of the kernel."""

_Merged: TypeAlias = tuple[Cells, Sequence[pa.Array]]
"""States by number of window and code of key, in this order."""


class SliceOperator(ColumnOperator[Slices]):
    """Runs a step on one key group at a time."""

    window_columns: ClassVar[Sequence[str]] = ("slice",)

    @property
    def counts_windows(self) -> bool:
        return False

    @property
    def adds_late_rows(self) -> bool:
        return self.kernel.is_large

    def describe(self) -> str:
        return ", slices shared by windows" if self.windows.windows_each > 1 else ""

    def partial_aggregation(self, late: str, *, has_timers: bool) -> tuple[PartialAggregation, str]:
        # All elements are aggregated in their order, unless late ones cross beside them.
        if self.kernel.is_numbered or (self.kernel.ordered and late):
            return BY_ARRIVAL
        return (PartialAggregation.ON_TIME if late else PartialAggregation.ALL), late

    def aggregate(
        self, keys: pa.Array, stamps: Ints, inputs: Sequence[pa.Array], arrived: int = 0
    ) -> tuple[pa.RecordBatch, Ints]:
        """One row of state for each key and slice of elements behind ``arrived`` others; how many elements each has."""
        if self.kernel.is_numbered:
            inputs = [*inputs, pa.array(np.arange(arrived, arrived + len(stamps)))]
        encoded = encode_keys(keys)
        cells = cells_of(encoded, self.windows.numbers_of(stamps))
        states = self.kernel.partial(cells.groups, inputs)
        return self._rows(encoded, cells, states), cells.groups.sizes

    def _rows(self, keys: Keys, cells: Cells, states: Sequence[pa.Array]) -> pa.RecordBatch:
        slices = self.windows.slices_at(cells.places)
        return self.rows([keys.distinct.take(pa.array(cells.codes)), pa.array(slices), *states])

    def merged(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The same state with one row for each key and slice."""
        encoded = encode_keys(rows.column(0))
        cells = cells_of(encoded, self.windows.numbers_of(slices_in(rows)))
        if cells.groups.count == rows.num_rows:
            return rows
        return self._rows(encoded, cells, self.kernel.merge(cells.groups, rows.columns[2:]))

    def measure(self, watermark: int, rows: pa.RecordBatch) -> tuple[int, int, int]:
        """Measures rows for the entry of their chunk: when they are due, their first and their last slice."""
        slices = np.unique(slices_in(rows))
        return int(self.windows.held.next_times(slices, watermark).min()), int(slices[0]), int(slices[-1])

    def advance(self, chunks: Chunks, previous: int, watermark: int) -> Iterator[Fired]:
        """Fires the windows whose end lies behind the previous watermark and not behind this one."""
        windows = self.windows
        due = DueRows(
            chunks,
            watermark,
            fires=lambda entry: windows.any_ends(entry.first, entry.last, previous, watermark),
            expired=lambda rows: windows.held.expired(slices_in(rows), watermark),
        )
        for rows in due.parts():
            yield from self._fire(rows, previous, watermark, chunks.tuning)
            del rows  # not beside those of the next part

    def _fire(self, rows: pa.RecordBatch, previous: int, watermark: int, tuning: ChunkTuning) -> Iterator[Fired]:
        """The results of the windows with an end behind one watermark and not behind the other."""
        windows, held = self.windows, SliceRows(self, rows, tuning)
        for keys, starts, states in held.held_by(windows.ending(held.slices, previous, watermark)):
            yield Fired(keys, starts, starts + windows.size, windows.last_times(starts), self.kernel.results(states))

    def aggregate_arrived(
        self, chunks: Chunks, keys: pa.Array, stamps: Ints, inputs: Sequence[pa.Array]
    ) -> pa.RecordBatch:
        """Rows of state for elements that arrived now; their columns are those of ``aggregate``."""
        partial_rows, _ = self.aggregate(keys, stamps, inputs, chunks.arrived)
        if self.kernel.is_numbered:
            chunks.arrived += len(stamps)
        return partial_rows

    def add(self, chunks: Chunks, batches: Sequence[pa.RecordBatch]) -> None:
        """Takes rows of state for windows that the watermark has not cleaned up."""
        chunks.put_tail(self.merged(concatenated([chunks.read_tail(), *batches])))


def slices_in(rows: pa.RecordBatch) -> Ints:
    """The slices of rows of state."""
    return np.asarray(rows.column(1))


class SliceRows:
    """Merges rows of state by window and key; several of the rows may be of one key and slice."""

    def __init__(self, operator: SliceOperator, rows: pa.RecordBatch, tuning: ChunkTuning) -> None:
        self.slices, ranks = np.unique(slices_in(rows), return_inverse=True)
        self._by_slice = Groups(ranks, len(self.slices))
        # The places at which the rows of each slice begin, and at which the last ones end.
        self._bounds = np.concatenate([self._by_slice.starts, [len(ranks)]])
        self._operator = operator
        self._rows = rows
        self._columns = rows.columns[2:]
        self._most = min(tuning.merged_rows, max(1, tuning.merged_bytes * len(ranks) // max(1, rows.nbytes)))
        self._tuning = tuning

    @cached_property
    def _keys(self) -> Keys:
        return encode_keys(self._rows.column(0))

    def held_by(self, starts: Iterable[Ints]) -> Iterator[Held]:
        """Merges the rows of each window that has any; the starts of windows ascend, and are given some at a time."""
        for some in starts:
            begins, ends = self._operator.windows.held_by(self.slices, some)
            filled = begins < ends
            if filled.any():
                yield from self._some(some[filled], begins[filled], ends[filled])

    def _some(self, starts: Ints, begins: Ints, ends: Ints) -> Iterator[Held]:
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
        """The number of rows that are merged for windows if the slices that they share are merged first."""
        common = len(begins) * len(self._keys.distinct)
        before = self._bounds[begins[-1]] - self._bounds[begins]
        behind = self._bounds[ends] - self._bounds[ends[0]]
        return common + int(before.sum() + behind.sum())

    def _merged(self, begins: Ints, ends: Ints, *, shares: bool) -> _Merged:
        """Merges the rows of some windows, given by the places of their first and last slices."""
        low, high = begins[-1], ends[0]
        if len(begins) == 1 or not shares or low >= high:
            return self._by_key(*self._rows_of(begins, ends))
        common, merged = self._by_key(*self._rows_of(begins[-1:], ends[:1]))
        before, windows_before = self._rows_of(begins, np.full_like(begins, low))
        behind, windows_behind = self._rows_of(np.full_like(ends, high), ends)
        rows = np.concatenate([before, behind])
        again = np.tile(np.arange(len(common.codes)), len(begins))
        windows = np.concatenate([windows_before, windows_behind, np.repeat(np.arange(len(begins)), len(common.codes))])
        codes = np.concatenate([self._keys.codes[rows], common.codes[again]])
        cells = cells_of(Keys(codes, self._keys.distinct), windows)
        columns = [
            pa.concat_arrays([column.take(pa.array(rows)), state.take(pa.array(again))])
            for column, state in zip(self._columns, merged, strict=True)
        ]
        return cells, self._operator.kernel.merge(cells.groups, columns)

    def _rows_of(self, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """The numbers of the rows of slices, from one place up to another for each window, and the window of each."""
        bounds = zip(self._bounds[begins].tolist(), self._bounds[ends].tolist(), strict=True)
        pieces = [self._by_slice.order[low:high] for low, high in bounds]
        return np.concatenate(pieces), np.repeat(np.arange(len(pieces)), list(map(len, pieces)))

    def _by_key(self, rows: Ints, windows: Ints) -> _Merged:
        """Rows merged by window and key."""
        cells = cells_of(Keys(self._keys.codes[rows], self._keys.distinct), windows)
        columns = self._columns
        if cells.groups.count == len(rows):
            # Each key has one row in each window: they only have to stand in order.
            place = np.empty(len(rows), np.int64)
            place[cells.groups.ids] = rows
            return cells, [column.take(pa.array(place)) for column in columns]
        if len(rows) != len(self._by_slice) or not np.array_equal(rows, np.arange(len(rows))):
            columns = [column.take(pa.array(rows)) for column in columns]
        return cells, self._operator.kernel.merge(cells.groups, columns)
