"""Numbers keyed windows, which are pairs of a key and a window: each fires by itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.windows.spec import FARTHEST
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Cells, Keys, cells_of, encode_keys
from windrow_spark.columnar.windows.column_operator import KeyedRowsOperator, W
from windrow_spark.columnar.windows.geometry import Slices, expired


class KeyedWindows(NamedTuple):
    """The keyed windows of rows of state and of elements."""

    of_rows: Ints  # the keyed window of each row, and then of each element
    keys: pa.Array  # of keyed windows
    starts: Ints  # of their windows; of no meaning for the window of all time


def keyed_windows_of(slices: Slices, rows: pa.RecordBatch, keys: pa.Array, starts: Ints) -> KeyedWindows:
    """Numbers the keyed windows of rows of state, whose second column is the start of their window, and of elements."""
    encoded = encode_keys(pa.concat_arrays([rows.column(0), keys]))
    if slices.is_global:
        return KeyedWindows(encoded.codes, encoded.distinct, np.zeros(len(encoded.distinct), np.int64))
    both = np.concatenate([rows.column(1).to_numpy(), starts])
    cells = cells_of(Keys(encoded.codes, encoded.distinct), (both - slices.offset) // slices.slide)
    keys = encoded.distinct.take(pa.array(cells.codes))
    return KeyedWindows(cells.groups.ids, keys, cells.places * slices.slide + slices.offset)


def windows_for(slices: Slices, stamps: Ints, time: int) -> tuple[Ints, Ints]:
    """Pairs the index of each element with the starts of its windows that are not cleaned up yet, latest first.

    The time is that of the batch: the watermark, or the clock for windows of processing time.
    """
    if slices.is_global:
        return np.arange(len(stamps)), np.zeros(len(stamps), np.int64)
    if slices.by_clock:
        # Windows that end with this millisecond have fired in this batch; elements open new ones.
        return slices.windows(slices.slices_of(np.full(len(stamps), time)), time - 1, MAX_TIMESTAMP)
    kept = MIN_TIMESTAMP if slices.lateness >= FARTHEST else max(time - slices.lateness, MIN_TIMESTAMP)
    return slices.windows(slices.slices_of(stamps), kept, MAX_TIMESTAMP)


def late(slices: Slices, stamps: Ints, time: int) -> Mask:
    """Marks late elements, whose windows are all cleaned up."""
    if slices.by_clock:
        return np.zeros(len(stamps), np.bool_)
    return slices.expired(slices.slices_of(stamps), time)


def cleaned(slices: Slices, starts: Ints, time: int) -> Mask:
    """Marks the windows that are cleaned up, by their starts."""
    if slices.is_global:
        return np.zeros(len(starts), np.bool_)
    return expired(slices.last_times(starts), slices.lateness, time)


class KeyedWindowOperator(KeyedRowsOperator[W]):
    """The base of operators whose state has a row for each keyed window."""

    @cached_property
    def partial_schema(self) -> pa.Schema:
        """The columns of partial aggregates: key, timestamp of the first element, the kernel's, number of elements."""
        names = [name for name in self.schema.names if name not in self.window_columns]
        key, *states = [self.schema.field(name) for name in names[: 1 + len(self.kernel.state_types)]]
        return pa.schema([key, pa.field("at", pa.int64()), *states, pa.field("elements", pa.int64())])

    def aggregated(
        self, keys: Keys, cells: Cells, stamps: Ints, inputs: Sequence[pa.Array], *, by_arrival: bool
    ) -> pa.RecordBatch:
        """Makes one row of all elements of a cell; ``by_arrival`` in the order in which the first ones came."""
        first = cells.groups.first_rows
        of_cells, at = keys.distinct.take(pa.array(cells.codes)), pa.array(stamps[first])
        columns = [of_cells, at, *self.kernel.partial(cells.groups, inputs), pa.array(cells.groups.sizes)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.partial_schema)
        return rows.take(pa.array(np.argsort(first))) if by_arrival else rows
