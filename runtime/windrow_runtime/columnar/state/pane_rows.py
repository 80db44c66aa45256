"""Merges the rows of state of the panes of each window by key, for some windows at a time.

Windows that follow each other have most of their panes in common. Where windows are made of many panes, those that some
have in common are merged once, and each adds what it has besides. With as many windows at a time as the square root of
their panes, each window takes about twice that number of panes instead of all::

    windows   |------------------|
                 |------------------|
                    |------------------|
    merged    |--|--|  in common |--|--|
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow_runtime.columnar.kernels import Kernel
from windrow_runtime.columnar.rows.groups import Groups, Keys, cells_of, encode_keys
from windrow_runtime.columnar.windows.geometry import Panes
from windrow_runtime.storage.tuning import ChunkTuning

# Any in this module: pyarrow has no types.

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Held:
    """The state of windows by key and window, side by side.

    Attributes:
        keys: The keys, an Arrow array.
        starts: The starts of the windows, in milliseconds.
        states: The columns of the kernel.
    """

    keys: Any
    starts: Ints
    states: Sequence[Any]


@dataclass(frozen=True, slots=True)
class _Merged:
    """States by number of window and code of key, in this order."""

    windows: Ints
    codes: Ints
    states: Sequence[Any]


def panes_in(rows: Any) -> Ints:
    """The panes of rows of state."""
    panes: Ints = rows.column(1).to_numpy()
    return panes


class PaneRows:
    """Rows of state in order of their panes.

    Args:
        windows: The windows of the step.
        kernel: Its aggregate.
        rows: The rows, of which several may be of one key and pane.
        tuning: How many of them are merged at a time.
    """

    def __init__(self, windows: Panes, kernel: Kernel, rows: Any, tuning: ChunkTuning) -> None:
        self.panes, ranks = np.unique(panes_in(rows), return_inverse=True)
        self._by_pane = Groups(ranks, len(self.panes))
        self._rows = rows
        self._columns = rows.columns[2:]
        self._windows = windows
        self._kernel = kernel
        self._most = min(tuning.merged_rows, max(1, tuning.merged_bytes * len(ranks) // max(1, rows.nbytes)))
        self._least_shared = tuning.least_shared_panes

    @cached_property
    def _keys(self) -> Keys:
        return encode_keys(self._rows.column(0))

    @cached_property
    def _bounds(self) -> Ints:
        """The places at which the rows of each pane begin, and at which the last ones end."""
        return np.concatenate([self._by_pane.starts, [len(self._by_pane)]])

    def held_by(self, starts: Iterable[Ints]) -> Iterator[Held]:
        """Merges the rows of each window, in order of windows; windows without rows are left out.

        Args:
            starts: Their starts, ascending, some at a time.
        """
        for some in starts:
            begins, ends = self._windows.held_by(self.panes, some)
            filled = begins < ends
            yield from self._some(some[filled], begins[filled], ends[filled])

    def _some(self, starts: Ints, begins: Ints, ends: Ints) -> Iterator[Held]:
        if not len(starts):
            return
        distinct = self._keys.distinct
        panes_each = int((ends - begins).max())
        shares = panes_each >= self._least_shared
        totals = np.concatenate([[0], np.cumsum(self._bounds[ends] - self._bounds[begins])])
        low = 0
        while low < len(starts):
            if shares:
                high = min(low + isqrt(panes_each), len(starts))
                while high - low > 1 and self._worked_on(begins[low:high], ends[low:high]) > self._most:
                    high = (low + high) // 2
            else:
                high = max(low + 1, int(np.searchsorted(totals, totals[low] + self._most, "right")) - 1)
            merged = self._merged(begins[low:high], ends[low:high], shares=shares)
            yield Held(_taken(distinct, merged.codes), starts[low:high][merged.windows], merged.states)
            low = high

    def _worked_on(self, begins: Ints, ends: Ints) -> int:
        """The number of rows that are merged for windows if the panes that they share are merged first."""
        common = len(begins) * len(self._keys.distinct)
        before = self._bounds[begins[-1]] - self._bounds[begins]
        behind = self._bounds[ends] - self._bounds[ends[0]]
        return common + int(before.sum() + behind.sum())

    def _merged(self, begins: Ints, ends: Ints, *, shares: bool) -> _Merged:
        """Merges the rows of some windows, given by the places of their first and last panes."""
        import pyarrow as pa

        low, high = begins[-1], ends[0]
        if len(begins) == 1 or not shares or low >= high:
            return self._by_key(*self._rows_of(begins, ends))
        common = self._by_key(*self._rows_of(begins[-1:], ends[:1]))
        before, behind = (
            self._rows_of(begins, np.full_like(begins, low)),
            self._rows_of(np.full_like(ends, high), ends),
        )
        rows = np.concatenate([before[0], behind[0]])
        again = np.tile(np.arange(len(common.codes)), len(begins))
        windows = np.repeat(np.arange(len(begins)), len(common.codes))
        codes = np.concatenate([self._keys.codes[rows], common.codes[again]])
        windows = np.concatenate([before[1], behind[1], windows])
        cells = cells_of(codes, len(self._keys.distinct), windows)
        columns = [
            pa.concat_arrays([_taken(column, rows), _taken(state, again)])
            for column, state in zip(self._columns, common.states, strict=True)
        ]
        return _Merged(cells.places, cells.codes, self._kernel.merge(cells.groups, columns))

    def _rows_of(self, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """The numbers of the rows of panes, from one place up to another for each window, and the window of each."""
        bounds = self._bounds
        pieces = [
            self._by_pane.order[low:high]
            for low, high in zip(bounds[begins].tolist(), bounds[ends].tolist(), strict=True)
        ]
        return np.concatenate(pieces), np.repeat(np.arange(len(pieces)), list(map(len, pieces)))

    def _by_key(self, rows: Ints, windows: Ints) -> _Merged:
        """Rows merged by window and key."""
        codes = self._keys.codes[rows]
        cells = cells_of(codes, len(self._keys.distinct), windows)
        if cells.count == len(rows):
            # Each key has one row in each window: they only have to stand in order.
            place = np.empty(len(rows), np.int64)
            place[cells.groups.ids] = rows
            return _Merged(cells.places, cells.codes, [_taken(column, place) for column in self._columns])
        columns = self._columns
        if len(rows) != len(self._by_pane) or not np.array_equal(rows, np.arange(len(rows))):
            columns = [_taken(column, rows) for column in columns]
        return _Merged(cells.places, cells.codes, self._kernel.merge(cells.groups, columns))


def _taken(column: Any, places: Ints) -> Any:
    import pyarrow as pa

    return column.take(pa.array(places))
