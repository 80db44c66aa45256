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
from windrow_spark.columnar.state import concatenated
from windrow_spark.columnar.step_operator import ColumnsArrived, Increment, Output, StateRows, Times
from windrow_spark.columnar.windows.column_operator import Fired, PartialAggregation, fired_windows
from windrow_spark.columnar.windows.keyed_windows import (
    KeyedWindowOperator,
    KeyedWindows,
    Runs,
    States,
    at,
    keyed_windows_of,
)


class CountOperator(KeyedWindowOperator[Counts]):
    """Runs windows that count their elements, on some keys at a time."""

    window_columns: ClassVar[Sequence[str]] = ("start", "until")

    @property
    def counts_windows(self) -> bool:
        return self.rule.runs_each == 1

    def describe(self) -> str:
        return ", elements counted" + (", runs shared by firings" if self.rule.runs_each > 1 else "")

    @property
    def partial_aggregation(self) -> tuple[PartialAggregation, str]:
        return PartialAggregation.NONE, "each element is counted"

    def advance(self, state: StateRows, before: int, times: Times) -> Iterator[Increment]:
        """Drops the windows that are cleaned up, and counts the elements that no firing has output."""
        rows, slices, time = state.rows, self.windows.slices, times.watermark
        are_cleaned = self.cleaned(rows.column(1).to_numpy(), time)
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
        return Increment(UNFIRED, int((last % self.rule.every).sum()))

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
        elements = yield from self.not_late(arrived.elements, times.watermark)
        yield from self.count(state, elements, times.watermark)

    def count(self, state: StateRows, elements: pa.RecordBatch, time: int) -> Iterator[Fired]:
        """Adds elements that are not late in portions, and fires in their order."""
        every, runs, portions = self.rule.every, self.rule.runs_each, state.portions
        portion = max(portions.elements, portions.runs * min(every, runs) // runs // self.windows.slices.windows_each)
        if self.kernel.is_large:
            portion = min(portion, portions.large_elements)
        for start in range(0, elements.num_rows, portion):
            fired = self._add_portion(state, elements.slice(start, portion), time)
            if fired is not None:
                yield fired

    def _add_portion(self, state: StateRows, elements: pa.RecordBatch, time: int) -> Fired | None:
        rule, rows, stored_count = self.rule, state.rows, state.rows.num_rows
        keys, stamps, inputs = self.inputs_of(elements)
        copied, starts = self.windows_for(stamps, time)
        keyed_windows = keyed_windows_of(self.windows.slices, rows, at([keys], copied)[0], starts)
        of_stored, ends = keyed_windows.of_rows[:stored_count], rows.column(2).to_numpy()
        arrived = Groups(keyed_windows.of_rows[stored_count:], len(keyed_windows.keys))
        counts = np.zeros(arrived.count, np.int64)  # how many elements each keyed window had
        np.maximum.at(counts, of_stored, ends)
        numbers = counts[arrived.ids] + arrived.ranks + 1
        fresh = Runs(arrived, numbers % rule.run_length == 0)
        get_elements = arrived.sizes[of_stored] > 0
        # A stored run takes more elements if it is not full, or if firings accumulate.
        goes_on = get_elements & (rule.accumulates | (ends % rule.run_length > 0))
        full, opened = np.flatnonzero(get_elements & ~goes_on), np.flatnonzero(goes_on)
        stored = rows.columns[3:]
        states = self.continued(
            fresh,
            self.kernel.partial(fresh.of_elements, at(inputs, copied)),
            at(stored, opened),
            of_stored[opened],
            accumulates=rule.accumulates,
        )
        if len(full):
            states = [pa.concat_arrays(both) for both in zip(at(stored, full), states, strict=True)]
        windows = np.concatenate([of_stored[full], fresh.keyed_windows])
        places = Groups(windows, arrived.count).order
        windows, until = windows[places], np.concatenate([ends[full], numbers[fresh.last_elements]])[places]
        # Firings, in the order of the elements that close their last runs.
        firing = np.flatnonzero((until % rule.every == 0) & (places >= len(full)))
        firing = firing[np.argsort(fresh.last_elements[places[firing] - len(full)])]
        fired = self._fired(keyed_windows, windows, states, places, firing) if len(firing) else None
        kept = np.flatnonzero(self._are_kept(windows, until, counts + arrived.sizes))
        of_kept = windows[kept]
        facts = [pa.array(keyed_windows.starts[of_kept]), pa.array(until[kept])]
        kept_rows = self.rows([keyed_windows.keys.take(pa.array(of_kept)), *facts, *at(states, places[kept])])
        state.rows = concatenated([rows.filter(pa.array(~get_elements)), kept_rows])
        return fired

    def _fired(self, keyed_windows: KeyedWindows, windows: Ints, states: States, places: Ints, last: Ints) -> Fired:
        """Makes the results of firings from runs by keyed window, and the places of their states.

        ``last`` are the indices of the runs that fire.
        """
        runs_each = self.rule.runs_each
        if runs_each == 1:
            fired = at(states, places[last])
        else:
            first = np.maximum(np.searchsorted(windows, windows[last]), last - (runs_each - 1))
            counts = last - first + 1
            firings = np.repeat(np.arange(len(last)), counts)
            runs = np.arange(len(firings)) - np.repeat(np.cumsum(counts) - counts - first, counts)
            fired = self.kernel.merge(Groups(firings, len(last)), at(states, places[runs]))
        keys = keyed_windows.keys.take(pa.array(windows[last]))
        return fired_windows(self.windows.slices, keys, keyed_windows.starts[windows[last]], self.kernel.results(fired))

    def _are_kept(self, windows: Ints, until: Ints, counts: Ints) -> Mask:
        """Marks the runs that later firings take, and the newest of each keyed window that cannot begin anew."""
        every, size = self.rule.every, self.rule.size
        is_last = np.append(windows[1:] != windows[:-1], True)[: len(windows)]
        if size is None:
            return is_last
        reached = counts[windows]
        kept: Mask = (until > (reached // every + 1) * every - size) | (is_last & (reached % every > 0))
        return kept
