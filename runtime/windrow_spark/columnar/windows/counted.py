"""Runs windows that fire whenever a fixed number of elements has come to them, over columns.

A keyed window is a key and a window, whose elements are numbered from 1 in order of arrival. They are aggregated in
runs: as firings begin and end where runs do, each takes whole ones. State is a row for each run that a later
firing takes, with the number of its last element, and for the newest run, which is continued::

    every 4, size 6   elements  |1 2|3 4|5 6|7 8|9 10|11
    runs of 2         firings       4
                                  |-----------8|       takes 3 to 8
                      state                 |7 8|9 10|11|

A firing that takes all elements of its keyed window makes one row of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP
from windrow.windows.spec import FARTHEST, UNFIRED, Counts
from windrow_runtime.codecs.malformed import damaged_state
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Groups
from windrow_spark.columnar.step_operator import ColumnsArrived, Increment, Output, StateRows, Times, late_apart
from windrow_spark.columnar.windows.column_operator import Fired, KeyedRowsOperator, PartialAggregation
from windrow_spark.columnar.windows.keyed_windows import KeyedWindows, cleaned, keyed_windows_of, late, windows_for
from windrow_spark.columnar.windows.step_windows import RuledWindows

_States = Sequence[pa.Array]


class CountOperator(KeyedRowsOperator[RuledWindows[Counts]]):
    """Runs windows that count their elements, on some keys at a time."""

    window_columns: ClassVar[Sequence[str]] = ("start", "until")

    @property
    def counts_windows(self) -> bool:
        return self.windows.rule.runs_each == 1

    def describe(self) -> str:
        return ", elements counted" + (", runs shared by firings" if self.windows.rule.runs_each > 1 else "")

    @property
    def partial_aggregation(self) -> tuple[PartialAggregation, str]:
        return PartialAggregation.NONE, "each element is counted"

    def advance(self, state: StateRows, before: int, times: Times) -> Iterator[Increment]:
        """Drops the windows that are cleaned up, and counts the elements that no firing has output."""
        rows, slices, time = state.rows, self.windows.slices, times.watermark
        are_cleaned = cleaned(slices, rows.column(1).to_numpy(), time)
        if are_cleaned.any():
            state.rows = rows.filter(pa.array(~are_cleaned))
        if before < time or slices.by_clock:
            at_end = time == MAX_TIMESTAMP and not slices.by_clock
            unfired = rows if at_end else rows.filter(pa.array(are_cleaned))
            if unfired.num_rows:
                yield self._unfired(unfired)

    def end_stream(self, state: StateRows) -> Iterable[Increment]:
        return (self._unfired(state.rows),)

    def _unfired(self, rows: pa.RecordBatch) -> Increment:
        """Counts the elements that came to keyed windows since these fired, by the numbers of their last elements."""
        keyed_windows = keyed_windows_of(self.windows.slices, rows[:0], rows.column(0), rows.column(1).to_numpy())
        last = np.zeros(len(keyed_windows.keys), np.int64)
        np.maximum.at(last, keyed_windows.of_rows, rows.column(2).to_numpy())
        return Increment(UNFIRED, int((last % self.windows.rule.every).sum()))

    def check(self, rows: pa.RecordBatch) -> None:
        super().check(rows)
        ends = rows.column(2).to_numpy()
        if len(ends) and not 0 < ends.min() <= ends.max() < FARTHEST:
            raise damaged_state(f"windows that end with their elements {ends.min()} to {ends.max()}")

    def next_time(self, time: int, rows: pa.RecordBatch) -> int:
        slices = self.windows.slices
        if slices.is_global or slices.lateness >= FARTHEST:
            return MAX_TIMESTAMP
        return int(slices.last_times(rows.column(1).to_numpy()).min()) + slices.lateness

    def add(self, state: StateRows, arrived: ColumnsArrived, times: Times) -> Iterator[Output[Fired]]:
        elements, time = arrived.elements, times.watermark
        are_late = late(self.windows.slices, elements.column(1).to_numpy(), time)
        elements = yield from late_apart(elements, are_late, time)
        yield from self.count(state, elements, time)

    def count(self, state: StateRows, elements: pa.RecordBatch, time: int) -> Iterator[Fired]:
        """Adds elements that are not late in portions, and fires in their order."""
        slices, every, portions = self.windows.slices, self.windows.rule.every, state.portions
        runs = self.windows.rule.runs_each
        portion = max(portions.elements, portions.runs * min(every, runs) // runs // slices.windows_each)
        if self.kernel.is_large:
            portion = min(portion, portions.large_elements)
        for start in range(0, elements.num_rows, portion):
            fired, state.rows = self._add_portion(state.rows, elements.slice(start, portion), time)
            if fired is not None:
                yield fired

    def _add_portion(
        self, rows: pa.RecordBatch, elements: pa.RecordBatch, time: int
    ) -> tuple[Fired | None, pa.RecordBatch]:
        slices, stored_count = self.windows.slices, rows.num_rows
        keys, stamps, inputs = self.inputs_of(elements)
        copied, starts = windows_for(slices, stamps, time)
        if slices.windows_each > 1:
            copies = pa.array(copied)
            keys, inputs = keys.take(copies), [column.take(copies) for column in inputs]
        keyed_windows = keyed_windows_of(slices, rows, keys, starts)
        runs = _Runs(self.windows.rule, keyed_windows, rows.column(2).to_numpy(), stored_count)
        fresh = self.kernel.partial(Groups(runs.of_elements, len(runs.fresh_windows)), inputs)
        both = [pa.concat_arrays([old, new]) for old, new in zip(rows.columns[3:], fresh, strict=True)]
        states = self._continued(runs, both)
        if self.windows.rule.size is None:
            states = self.kernel.running(states, runs.first_of_window)
        return self._fired(runs, keyed_windows, states), self._kept(runs, keyed_windows, states)

    def _continued(self, runs: _Runs, states: _States) -> _States:
        """Merges the newest runs of keyed windows with the elements that continue them; returns all runs in order."""
        source = runs.order
        if len(runs.open_rows):
            pairs = pa.array(np.concatenate([runs.open_rows, runs.continued]))
            count = len(runs.open_rows)
            merged = self.kernel.merged_pairs([column.take(pairs) for column in states], count)
            states = [pa.concat_arrays([old, new]) for old, new in zip(states, merged, strict=True)]
            rows = np.arange(len(states[0]), dtype=np.int64)
            rows[runs.continued] = np.arange(len(rows) - count, len(rows))
            source = rows[source]
        return [column.take(pa.array(source)) for column in states]

    def _fired(self, runs: _Runs, keyed_windows: KeyedWindows, states: _States) -> Fired | None:
        """Makes the results of the firings, in the order of the elements that caused them."""
        last = runs.firing
        if not len(last):
            return None
        runs_each = self.windows.rule.runs_each
        if runs_each == 1:
            fired = [column.take(pa.array(last)) for column in states]
        else:
            first = np.maximum(runs.first_of_window[last], last - (runs_each - 1))
            counts = last - first + 1
            firings = np.repeat(np.arange(len(last)), counts)
            rows = np.arange(len(firings)) - np.repeat(np.cumsum(counts) - counts - first, counts)
            of_firings = [column.take(pa.array(rows)) for column in states]
            fired = self.kernel.merge(Groups(firings, len(last)), of_firings)
        windows, slices = runs.keyed_windows[last], self.windows.slices
        starts = keyed_windows.starts[windows]
        keys = keyed_windows.keys.take(pa.array(windows))
        return Fired(keys, starts, starts + slices.size, slices.last_times(starts), self.kernel.results(fired))

    def _kept(self, runs: _Runs, keyed_windows: KeyedWindows, states: _States) -> pa.RecordBatch:
        kept = pa.array(np.flatnonzero(runs.kept))
        windows, until = runs.keyed_windows[runs.kept], pa.array(runs.until[runs.kept])
        keys, starts = keyed_windows.keys.take(pa.array(windows)), pa.array(keyed_windows.starts[windows])
        return self.rows([keys, starts, until, *[column.take(kept) for column in states]])


class _Runs:
    """The runs of keyed windows, in order: those of the state first in each window, then those of elements."""

    def __init__(self, rule: Counts, keyed_windows: KeyedWindows, ends: Ints, stored_count: int) -> None:
        count, length = len(keyed_windows.keys), rule.run_length
        of_stored, arrived = keyed_windows.of_rows[:stored_count], Groups(keyed_windows.of_rows[stored_count:], count)
        before = np.zeros(count, np.int64)  # how many elements each keyed window had
        np.maximum.at(before, of_stored, ends)
        total = before + arrived.sizes
        has_new = arrived.sizes > 0
        # The runs of elements, by keyed window.
        counts = np.where(has_new, (total - 1) // length - before // length + 1, 0)
        begins = np.cumsum(counts) - counts
        self.fresh_windows = np.repeat(np.arange(count), counts)
        ordinals = (before // length - begins)[self.fresh_windows] + np.arange(len(self.fresh_windows)) + 1
        fresh_until = np.minimum(ordinals * length, total[self.fresh_windows])
        in_order = keyed_windows.of_rows[stored_count:][arrived.order]
        numbers = np.arange(len(in_order)) + (before - arrived.starts)[in_order]  # from 0
        self.of_elements = np.empty(len(in_order), np.int64)
        self.of_elements[arrived.order] = numbers // length + (begins - before // length)[in_order]
        # Rows are those of the state, then fresh runs; an open row goes on in the first fresh run of its keyed
        # window.
        is_open = (ends % length > 0) & has_new[of_stored]
        self.open_rows = np.flatnonzero(is_open)
        self.continued = stored_count + begins[of_stored[self.open_rows]]
        both, until = np.concatenate([of_stored, self.fresh_windows]), np.concatenate([ends, fresh_until])
        rows = np.flatnonzero(~np.concatenate([is_open, np.zeros(len(fresh_until), np.bool_)]))
        self.order = rows[np.lexsort((until[rows], both[rows]))]
        self.keyed_windows, self.until = both[self.order], until[self.order]
        is_first = np.concatenate([[True], self.keyed_windows[1:] != self.keyed_windows[:-1]])[: len(self.order)]
        self.first_of_window = np.maximum.accumulate(np.where(is_first, np.arange(len(self.order)), 0))
        # Firings, in the order of the elements that close their last runs.
        firing = np.flatnonzero((self.until % rule.every == 0) & (self.until > before[self.keyed_windows]))
        own = self.keyed_windows[firing]
        closing = arrived.order[arrived.starts[own] + self.until[firing] - 1 - before[own]]
        self.firing = firing[np.argsort(closing)]
        self.kept = self._kept(rule, total)

    def _kept(self, rule: Counts, total: Ints) -> Mask:
        """Marks the runs that later firings take, and the newest of each keyed window that cannot begin anew."""
        every, size = rule.every, rule.size
        is_last = np.concatenate([self.keyed_windows[1:] != self.keyed_windows[:-1], [True]])[: len(self.keyed_windows)]
        if size is None:
            return is_last
        reached = total[self.keyed_windows]
        taken = self.until > (reached // every + 1) * every - size
        kept: Mask = taken | (is_last & (reached % every > 0))
        return kept
