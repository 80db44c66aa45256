"""Runs windows that fire by a rule, over columns: by counting, at intervals, or as panes.

A keyed window is a key and a window: each fires by itself. Its elements are aggregated in runs, which end where the
rule says; a run that fires has with it what the state held, or all runs before it where firings accumulate. How the
columns of state go on, and what time fires, is up to the rules.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property
from typing import Generic, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.windows.spec import FARTHEST
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Cells, Groups, Keys, cells_of, encode_keys
from windrow_spark.columnar.step_operator import LateRows, late_apart
from windrow_spark.columnar.windows.column_operator import KeyedRowsOperator
from windrow_spark.columnar.windows.geometry import Slices, expired
from windrow_spark.columnar.windows.step_windows import R_co, RuledWindows

States: TypeAlias = Sequence[pa.Array]
"""The columns of the kernel's states."""


class KeyedWindows(NamedTuple):
    """Maps each row of state and each element to its keyed window."""

    of_rows: Ints  # the keyed window of each row, and then of each element
    keys: pa.Array  # of keyed windows
    starts: Ints  # of their windows; of no meaning for the window of all time


def keyed_windows_of(slices: Slices, rows: pa.RecordBatch, keys: pa.Array, starts: Ints) -> KeyedWindows:
    """Numbers the keyed windows of rows of state, whose second column is the start of their window, and of elements."""
    encoded = encode_keys(pa.concat_arrays([rows.column(0), keys]))
    if slices.is_global:
        return KeyedWindows(encoded.codes, encoded.distinct, np.zeros(len(encoded.distinct), np.int64))
    both = np.concatenate([rows.column(1).to_numpy(), starts])
    cells = cells_of(Keys(encoded.codes, encoded.distinct), slices.window_numbers(both))
    keys = encoded.distinct.take(pa.array(cells.codes))
    return KeyedWindows(cells.groups.ids, keys, slices.windows_at(cells.places))


class Runs:
    """The elements of keyed windows, cut into runs in order of keyed windows; each ends where elements are marked."""

    def __init__(self, arrived: Groups, ends_run: Mask) -> None:
        """Takes the elements by keyed window, and marks of those that end a run."""
        order = arrived.order
        keyed_windows, closing = arrived.ids[order], ends_run[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = closing[:-1] | (keyed_windows[1:] != keyed_windows[:-1])
        firsts = np.flatnonzero(begins)
        lasts = np.append(firsts[1:], len(order)) - 1
        of_elements = np.empty(len(order), np.int64)
        of_elements[order] = np.cumsum(begins) - 1
        self.of_elements = Groups(of_elements, len(firsts))
        self.keyed_windows = keyed_windows[firsts]
        self.first_elements, self.last_elements = order[firsts], order[lasts]
        self.are_ended = closing[lasts]

    @cached_property
    def ended(self) -> Ints:
        """The runs that have ended, in the order of their last elements."""
        ended = np.flatnonzero(self.are_ended)
        return ended[np.argsort(self.last_elements[ended])]

    @cached_property
    def are_last(self) -> Mask:
        """Marks the last run of each keyed window."""
        return np.append(self.keyed_windows[1:] != self.keyed_windows[:-1], True)


class KeyedWindowOperator(KeyedRowsOperator[RuledWindows[R_co]], Generic[R_co]):
    """Runs the windows of a step by a rule, on some keys at a time; state has a row for each keyed window or run."""

    @property
    def rule(self) -> R_co:
        """The rule by which windows fire."""
        return self.windows.rule

    # Elements

    @cached_property
    def partial_schema(self) -> pa.Schema:
        """The columns of partial aggregates: key, timestamp of the first element, the kernel's, number of elements."""
        names = [name for name in self.schema.names if name not in self.window_columns]
        key, *states = [self.schema.field(name) for name in names[: 1 + len(self.kernel.state_types)]]
        return pa.schema([key, pa.field("at", pa.int64()), *states, pa.field("elements", pa.int64())])

    def aggregated(
        self, elements: pa.RecordBatch, *, by_arrival: bool, one_by_one: bool = False
    ) -> tuple[pa.RecordBatch, Ints]:
        """Makes one row of all elements of a key and a slice, or of each element.

        Rows are in the order of their first elements if that is asked for. Returns the indices of these, too.
        """
        keys, stamps, inputs = self.inputs_of(elements)
        slices, encoded = self.windows.slices, encode_keys(keys)
        numbers = np.zeros(len(keys), np.int64) if slices.by_clock else slices.numbers_of(stamps)
        if one_by_one:
            cells = Cells(Groups(np.arange(len(keys)), len(keys)), encoded.codes, numbers)
        else:
            cells = cells_of(encoded, numbers)
        firsts = cells.groups.first_rows
        of_cells, at = encoded.distinct.take(pa.array(cells.codes)), pa.array(stamps[firsts])
        columns = [of_cells, at, *self.kernel.partial(cells.groups, inputs), pa.array(cells.groups.sizes)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.partial_schema)
        if not by_arrival:
            return rows, firsts
        order = np.argsort(firsts)
        return rows.take(pa.array(order)), firsts[order]

    def not_late(
        self, elements: pa.RecordBatch, time: int, *, are_partial: bool = False
    ) -> Generator[LateRows, None, pa.RecordBatch]:
        """Takes late elements, or partial aggregates of them, out: their windows are all cleaned up."""
        slices = self.windows.slices
        if slices.by_clock or not elements.num_rows:
            return elements
        are_late = slices.expired(slices.slices_of(elements.column(1).to_numpy()), time)
        return (yield from late_apart(elements, are_late, time, are_partial=are_partial))

    def windows_for(self, stamps: Ints, time: int) -> tuple[Ints | None, Ints]:
        """Pairs the index of each element with the starts of its windows that are not cleaned up yet, latest first.

        None stands for all elements in order, where each is in one window. The time is that of the batch: the
        watermark, or the clock for windows of processing time.
        """
        slices = self.windows.slices
        if slices.is_global:
            return None, np.zeros(len(stamps), np.int64)
        if slices.by_clock:
            # Windows that end with this millisecond have fired in this batch; elements open new ones.
            copied, starts = slices.windows(slices.slices_of(np.full(len(stamps), time)), time - 1, MAX_TIMESTAMP)
        else:
            kept = MIN_TIMESTAMP if slices.lateness >= FARTHEST else max(time - slices.lateness, MIN_TIMESTAMP)
            copied, starts = slices.windows(slices.slices_of(stamps), kept, MAX_TIMESTAMP)
        return (None if slices.windows_each == 1 and len(copied) == len(stamps) else copied), starts

    def continued(self, runs: Runs, fresh: States, stored: States, windows: Ints, *, accumulates: bool) -> States:
        """Merges states of runs with what comes before them in their keyed window.

        Args:
            runs: The runs.
            fresh: Their states.
            stored: The states with which the first runs of some keyed windows go on.
            windows: These keyed windows.
            accumulates: Whether a run goes on with the one before it.
        """
        if len(windows):
            first = np.searchsorted(runs.keyed_windows, windows)
            firsts, count = pa.array(first), len(windows)
            pairs = [pa.concat_arrays([old, new.take(firsts)]) for old, new in zip(stored, fresh, strict=True)]
            source = np.arange(len(runs.keyed_windows))
            source[first] = len(source) + np.arange(count)
            merged = self.kernel.merged_pairs(pairs, count)
            fresh = [pa.concat_arrays(both).take(pa.array(source)) for both in zip(fresh, merged, strict=True)]
        if not accumulates:
            return fresh
        return self.kernel.running(fresh, np.searchsorted(runs.keyed_windows, runs.keyed_windows))

    # Time

    def cleaned(self, starts: Ints, time: int) -> Mask:
        """Marks the windows that are cleaned up, by their starts."""
        slices = self.windows.slices
        if slices.is_global:
            return np.zeros(len(starts), np.bool_)
        return expired(slices.last_times(starts), slices.lateness, time)


def at(columns: States, indices: Ints | None) -> States:
    """Returns columns at some indices; None stands for all of them, in order."""
    return columns if indices is None else [column.take(pa.array(indices)) for column in columns]
