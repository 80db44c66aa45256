"""Runs tumbling and sliding windows, and the window of all time, over columns.

State is a row for each key and slice, with what the aggregate holds of the slice's elements. When the watermark reaches
the end of windows, the rows of their slices are merged by key, and leave as columns. Rows of one key and slice may lie
in several chunks; they are merged where they are needed. Neither what is read nor what is merged at a time grows with
the state.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.windows.spec import FARTHEST
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Cells, Keys, cells_of, encode_keys
from windrow_spark.columnar.state import Chunks, DueRows, arrived_in, concatenated
from windrow_spark.columnar.step_operator import (
    ColumnsArrived,
    LateRows,
    Output,
    Times,
    check_on_time,
    late_apart,
    python_results,
)
from windrow_spark.columnar.windows.column_operator import (
    BY_ARRIVAL,
    ColumnOperator,
    Crossing,
    Fired,
    KeptWindows,
    PartialAggregation,
    are_few,
    fired_windows,
    on_time_apart,
)
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.columnar.windows.late import fire_late, fire_late_rows
from windrow_spark.columnar.windows.slice_rows import SliceRows, slices_in
from windrow_spark.storage.group_record import PageStore, StepRecord
from windrow_spark.storage.tuning import ROW_CHUNKS, ChunkTuning, StateTuning


class SliceOperator(ColumnOperator[Slices, Chunks]):
    """Runs windows that hold their elements by slices, on one key group at a time."""

    window_columns: ClassVar[Sequence[str]] = ("slice",)

    @property
    def counts_windows(self) -> bool:
        return False

    def describe(self) -> str:
        return ", slices shared by windows" if self.windows.windows_each > 1 else ""

    @property
    def partial_aggregation(self) -> tuple[PartialAggregation, str]:
        if self.traits.holds_elements:
            return PartialAggregation.NONE, "windows hold their elements"
        late = self.why_late_cross
        # All elements are aggregated in their order, unless late ones cross beside them.
        if self.kernel.is_numbered or (self.kernel.ordered and late):
            return BY_ARRIVAL
        return (PartialAggregation.ON_TIME if late else PartialAggregation.ALL), late

    def _prepare(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[Crossing]:
        # Elements that cross one by one are aggregated where they arrive.
        if not (self.traits.late_leave or self.needs_arrival) and are_few(rows):
            yield False, rows
            return
        rows = yield from on_time_apart(self.windows, rows, bound)
        if rows.num_rows:
            partial_rows, counts = self.aggregate(*self.inputs_of(rows))
            columns = [*partial_rows.columns, pa.array(counts)]
            yield True, pa.RecordBatch.from_arrays(columns, schema=self.partial_schema)

    def aggregate(
        self, keys: pa.Array, stamps: Ints, inputs: Sequence[pa.Array], arrived: int = 0
    ) -> tuple[pa.RecordBatch, Ints]:
        """Makes a row of state for each key and slice of elements that came after ``arrived`` others.

        Returns the number of elements in each row, too.
        """
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
        """Returns the same state with one row for each key and slice."""
        encoded = encode_keys(rows.column(0))
        cells = cells_of(encoded, self.windows.numbers_of(slices_in(rows)))
        if cells.groups.count == rows.num_rows:
            return rows
        return self._rows(encoded, cells, self.kernel.merge(cells.groups, rows.columns[2:]))

    # State

    def shares(
        self, record: StepRecord, store: PageStore, keys: Sequence[pa.Array], times: Times, tuning: StateTuning
    ) -> Iterator[tuple[Chunks, Mask | None]]:
        chunks = self.chunks(record, store, tuning.row_chunks)
        yield chunks, None
        chunks.end_batch()

    def chunks(self, record: StepRecord, store: PageStore, tuning: ChunkTuning) -> Chunks:
        """Opens the state of a key group from its record and its store."""
        measure = partial(self._measure, record.watermark)
        return Chunks(record, self.schema, store, measure, self.merged, tuning, self.defaults)

    def stored_rows(self, record: StepRecord, store: PageStore, tuning: StateTuning) -> Iterator[pa.RecordBatch]:
        chunks = self.chunks(record, store, tuning.row_chunks)
        for rows in (*(rows for _, rows in chunks.read(lambda _: True)), chunks.read_tail()):
            is_live = ~self.windows.held.expired(slices_in(rows), record.watermark)
            yield rows.filter(pa.array(is_live))

    def store_rows(
        self, record: StepRecord, store: PageStore, rows: Iterable[pa.RecordBatch], tuning: StateTuning, arrived: int
    ) -> None:
        chunks = self.chunks(record, store, tuning.row_chunks)
        chunks.arrived = arrived
        for batch in rows:
            self.append(chunks, [batch])
        chunks.end_batch()

    def arrived(self, record: StepRecord) -> int:
        return arrived_in(record)

    def kept_windows(self, rows: pa.RecordBatch, watermark: int) -> Iterator[KeptWindows]:
        windows = self.windows
        if windows.is_global:
            raise DeclinedError("it keeps the window of all time in slices")
        kept = windows.held.lateness
        after = MIN_TIMESTAMP if kept >= FARTHEST else max(watermark - kept, MIN_TIMESTAMP)
        slice_rows = SliceRows(windows, self.kernel, self.merged(rows), ROW_CHUNKS)
        for keys, starts, states in slice_rows.held_by(windows.ending(slice_rows.slices, after, MAX_TIMESTAMP)):
            yield KeptWindows(keys, windows.starts(starts), windows.ends(starts), states)

    def _measure(self, watermark: int, rows: pa.RecordBatch) -> tuple[int, int, int]:
        """Measures rows for the entry of their chunk: when they are due, their first and their last slice."""
        slices = np.unique(slices_in(rows))
        return int(self.windows.held.next_times(slices, watermark).min()), int(slices[0]), int(slices[-1])

    # Time

    def advance(self, state: Chunks, before: int, times: Times) -> Iterator[Output[Fired]]:
        windows, watermark = self.windows, times.watermark
        state.measure = partial(self._measure, watermark)
        if watermark <= before:
            return
        due = DueRows(
            state,
            watermark,
            fires=lambda entry: windows.any_ends(entry.first, entry.last, before, watermark),
            expired=lambda rows: windows.held.expired(slices_in(rows), watermark),
        )
        for rows in due.parts():
            yield from self._fire(rows, before, watermark, state.tuning)
            del rows  # frees them before the next part is read

    def _fire(self, rows: pa.RecordBatch, before: int, watermark: int, tuning: ChunkTuning) -> Iterator[Fired]:
        """Fires the windows that end after one watermark and not after the other."""
        windows, slice_rows = self.windows, SliceRows(self.windows, self.kernel, rows, tuning)
        for keys, starts, states in slice_rows.held_by(windows.ending(slice_rows.slices, before, watermark)):
            yield fired_windows(windows, keys, starts, self.kernel.results(states))

    # Elements

    def add(self, state: Chunks, arrived: ColumnsArrived, times: Times) -> Iterator[Output[Fired]]:
        fresh: list[pa.RecordBatch] = []
        if arrived.partial_rows.num_rows:
            fresh.append((yield from self._partial_rows_kept(arrived.partial_rows, times.watermark)))
        if arrived.elements.num_rows:
            fresh.append((yield from self._elements_aggregated(state, arrived.elements, times.watermark)))
        if any(rows.num_rows for rows in fresh):
            self.append(state, fresh)

    def append(self, state: Chunks, batches: Sequence[pa.RecordBatch]) -> None:
        """Adds rows of state for windows that the watermark has not cleaned up."""
        state.put_tail(self.merged(concatenated([state.read_tail(), *batches])))

    def _partial_rows_kept(self, rows: pa.RecordBatch, watermark: int) -> Generator[LateRows, None, pa.RecordBatch]:
        """Takes the late ones out of partial aggregates, and returns rows of state of the others."""
        slices = slices_in(rows)
        if self.partial_aggregation[0] is PartialAggregation.ALL:
            expired = self.windows.expired(slices, watermark)
            rows = yield from late_apart(rows, expired, watermark, are_partial=True)
        else:
            check_on_time(self.windows.on_time(watermark, slices), watermark)
        return rows.select(self.schema.names)

    def _elements_aggregated(
        self, state: Chunks, elements: pa.RecordBatch, watermark: int
    ) -> Generator[Output[Fired], None, pa.RecordBatch]:
        """Fires windows for elements that are late for them, and returns rows of state of the elements that stay."""
        windows = self.windows
        slices = windows.slices_of(elements.column(1).to_numpy())
        expired = windows.expired(slices, watermark)
        elements = yield from late_apart(elements, expired, watermark)
        slices = slices[~expired]
        if windows.lateness:
            keys, _, inputs = self.inputs_of(elements)
            if self.kernel.is_large and self.traits.row_aggregate is not None:
                rows = self.traits.row_aggregate
                yield from python_results(fire_late_rows(windows, rows, state, keys, slices, inputs, watermark))
            else:
                yield from fire_late(windows, self.kernel, state, keys, slices, inputs, watermark)
            dropped = windows.held.expired(slices, watermark)
            if windows.purges and dropped.any():
                elements = elements.filter(pa.array(~dropped))
        partial_rows, _ = self.aggregate(*self.inputs_of(elements), state.arrived)
        if self.kernel.is_numbered:
            state.arrived += elements.num_rows
        return partial_rows
