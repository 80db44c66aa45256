"""Joins elements of two streams that share a key and a window, over columns, when the window ends.

A cell is a key and a window that ends. Each left row of a cell pairs with all right rows of it, which are adjacent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from windrow.functions.marked import LEFT, RIGHT, JoinKind
from windrow.time import MAX_TIMESTAMP
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.joins.ranges import Ranges
from windrow_spark.columnar.joins.side_rows import JoinOperator, Pairs
from windrow_spark.columnar.rows.groups import Groups, Keys, cells_of, encode_keys
from windrow_spark.columnar.state import concatenated
from windrow_spark.columnar.step_operator import ColumnsArrived, Output, PagedOperator, StateRows, Times
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.storage.tuning import PortionTuning


@dataclass(frozen=True)
class WindowJoinOperator(JoinOperator[StateRows], PagedOperator[Pairs]):
    """Pairs the elements of a window when it ends; an element of overlapping windows is paired in each of them."""

    windows: Slices
    kind: JoinKind  # whether elements without a partner are emitted, and of which side

    def late(self, stamps: Ints, watermark: int) -> Mask:
        return self.windows.expired(self.windows.slices_of(stamps), watermark)

    def describe(self) -> str:
        return "pairs as windows end"

    def advance(self, state: StateRows, before: int, times: Times) -> Iterator[Output[Pairs]]:
        rows = state.rows
        if times.watermark > before and rows.num_rows:
            expired = self.windows.expired(self._slices(rows), times.watermark)
            state.rows = rows.filter(pa.array(~expired))
            yield from self._pairs_due(rows, before, times.watermark, state.portions)

    def add(self, state: StateRows, arrived: ColumnsArrived, times: Times) -> Iterator[Output[Pairs]]:
        elements = yield from self.on_time(arrived.elements, times.watermark)
        state.rows = concatenated([state.rows, elements])

    def next_times(self, rows: pa.RecordBatch, times: Times) -> tuple[int | None, int | None]:
        return int(self.windows.next_times(self._slices(rows), times.watermark).min()), None

    def _slices(self, rows: pa.RecordBatch) -> Ints:
        return self.windows.slices_of(rows.column(1).to_numpy())

    def _pairs_due(self, rows: pa.RecordBatch, before: int, watermark: int, portions: PortionTuning) -> Iterator[Pairs]:
        windows, slices = self.windows, self._slices(rows)
        keys = encode_keys(rows.column(0))
        while before < watermark:
            first = int(windows.next_times(slices, before).min())
            if first > watermark or first == MAX_TIMESTAMP:
                return
            until = watermark
            if windows.windows_each > 1:
                until = min(
                    watermark, first + (max(1, portions.joined_rows // len(slices)) - 1) * windows.typical_slide
                )
            row_numbers, starts = windows.windows(slices, before, until)
            yield from self._ended(rows, keys, row_numbers, starts, portions.pairs)
            before = until

    def _ended(
        self, rows: pa.RecordBatch, keys: Keys, row_numbers: Ints, starts: Ints, portion: int
    ) -> Iterator[Pairs]:
        """Makes the pairs of windows that end: of numbered rows, each with the start of a window of it."""
        windows = self.windows
        numbers = windows.window_numbers(starts)
        cells = cells_of(Keys(keys.codes[row_numbers], keys.distinct), numbers).groups
        is_left = rows.column(2).to_numpy()[row_numbers] == LEFT
        left, right = (Groups(cells.ids[mask], cells.count) for mask in (is_left, ~is_left))
        left_numbers, right_numbers = row_numbers[is_left][left.order], row_numbers[~is_left][right.order]
        of_left = left.ids[left.order]
        counts = right.sizes[of_left]
        stamps = windows.last_times(starts[is_left][left.order])
        ranges = Ranges(left_numbers, right_numbers, right.starts[of_left], counts)
        yield from self.pairs_of((rows, rows), ranges, portion, stamps=stamps)
        missing = self.kind.missing
        if RIGHT in missing:
            without = counts == 0
            yield from self.alone(rows.take(pa.array(left_numbers[without])), LEFT, stamps[without], portion)
        if LEFT in missing:
            without = left.sizes[right.ids[right.order]] == 0
            stamps = windows.last_times(starts[~is_left][right.order][without])
            yield from self.alone(rows.take(pa.array(right_numbers[without])), RIGHT, stamps, portion)
