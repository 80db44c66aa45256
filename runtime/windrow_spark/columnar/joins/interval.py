"""Joins elements of two streams whose timestamps lie within bounds of each other, over columns.

A batch is joined in two passes: its left elements with all right ones, then its right elements with stored left ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.functions.marked import LEFT
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.operators.timed_joins import kept_for_late
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.joins.ranges import Side, near_in_time
from windrow_spark.columnar.joins.side_rows import JoinOperator, Pairs
from windrow_spark.columnar.rows.groups import encode_keys
from windrow_spark.columnar.state import concatenated
from windrow_spark.columnar.step_operator import Times
from windrow_spark.storage.tuning import PortionTuning


@dataclass(frozen=True)
class IntervalOperator(JoinOperator):
    """Emits a pair as soon as its second element arrives; drops an element once all partners to come would be late."""

    lower: int  # how long after the left element the right one may come at least, in milliseconds
    upper: int  # and at most
    lateness: int = 0  # how long after the watermark elements still come, in milliseconds

    def late(self, stamps: Ints, watermark: int) -> Mask:
        return stamps < max(MIN_TIMESTAMP, watermark - self.lateness)

    def describe(self) -> str:
        return "pairs as elements arrive"

    def expired(self, rows: pa.RecordBatch, watermark: int) -> Mask:
        if watermark == MAX_TIMESTAMP:
            return np.ones(rows.num_rows, np.bool_)
        return self._ends(rows) <= watermark

    def next_times(self, rows: pa.RecordBatch, times: Times) -> tuple[int | None, int | None]:
        return int(self._ends(rows).min()), None

    def _ends(self, rows: pa.RecordBatch) -> Ints:
        """Returns the watermark at which each row is dropped."""
        is_left = rows.column(2).to_numpy() == LEFT
        ends: Ints = rows.column(1).to_numpy() + np.where(is_left, max(0, self.upper), max(0, -self.lower))
        return ends + kept_for_late(self.lateness)

    def pairs_with(self, rows: pa.RecordBatch, elements: pa.RecordBatch, portions: PortionTuning) -> Iterator[Pairs]:
        both = concatenated([rows, elements])
        stored_count = rows.num_rows
        encoded = encode_keys(both.column(0))
        keys, stamps, sides = len(encoded.distinct), both.column(1).to_numpy(), both.column(2).to_numpy()
        is_new = np.arange(len(sides)) >= stored_count
        is_left = sides == LEFT
        right = ~is_left
        # New left elements pair with all right ones, and new right elements with the stored left ones.
        for left_mask, right_mask, by_left in (
            (is_left & is_new, right, True),
            (is_left & ~is_new, right & is_new, False),
        ):
            masks = (left_mask, right_mask) if by_left else (right_mask, left_mask)
            side_rows, other_rows = (Side(encoded.codes[mask], stamps[mask]) for mask in masks)
            bounds = (self.lower, self.upper) if by_left else (-self.upper, -self.lower)
            ranges = near_in_time(side_rows, other_rows, keys, *bounds)
            if ranges.counts.any():
                rows_of = (both.filter(pa.array(masks[0])), both.filter(pa.array(masks[1])))
                yield from self.pairs_of(rows_of, ranges, portions.pairs, by_left=by_left)
