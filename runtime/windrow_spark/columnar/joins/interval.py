"""Joins elements of two streams whose timestamps lie within bounds of each other, over columns.

A batch is joined in two passes: its left elements with all right ones, then its right elements with stored left ones.
Of the stored rows it reads the pages that may have its keys, and of each segment a part of the index for each key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from windrow.functions.marked import LEFT, RIGHT
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.operators.timed_joins import kept_for_late
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.joins.ranges import Side, near_in_time
from windrow_spark.columnar.joins.side_rows import JoinOperator, Pairs
from windrow_spark.columnar.joins.side_segments import SideSegments
from windrow_spark.columnar.rows.groups import encode_keys
from windrow_spark.columnar.state import joined
from windrow_spark.columnar.step_operator import ColumnsArrived, Output, Times
from windrow_spark.storage.group_record import PageStore, StepRecord
from windrow_spark.storage.tuning import StateTuning


@dataclass(frozen=True)
class IntervalOperator(JoinOperator[SideSegments]):
    """Emits a pair as soon as its second element arrives; drops an element once all partners to come would be late."""

    lower: int  # how long after the left element the right one may come at least, in milliseconds
    upper: int  # and at most
    lateness: int = 0  # how long after the watermark elements still come, in milliseconds

    def late(self, stamps: Ints, watermark: int) -> Mask:
        return stamps < max(MIN_TIMESTAMP, watermark - self.lateness)

    def describe(self) -> str:
        return "pairs as elements arrive"

    def shares(
        self, record: StepRecord, store: PageStore, keys: Sequence[pa.Array], times: Times, tuning: StateTuning
    ) -> Iterator[tuple[SideSegments, Mask | None]]:
        segments = self._segments(record, store, tuning)
        yield segments, None
        segments.end_batch()

    def _segments(self, record: StepRecord, store: PageStore, tuning: StateTuning) -> SideSegments:
        return SideSegments(record, self.schema, store, self._ends, self.check, tuning, self.defaults)

    def stored_rows(self, record: StepRecord, store: PageStore, tuning: StateTuning) -> Iterator[pa.RecordBatch]:
        return self._segments(record, store, tuning).stored_rows()

    def store_rows(
        self, record: StepRecord, store: PageStore, rows: Iterable[pa.RecordBatch], tuning: StateTuning, arrived: int
    ) -> None:
        # Each batch may become a segment, as those of a run do.
        for batch in joined(rows, tuning.portions.side_bytes):
            segments = self._segments(record, store, tuning)
            segments.add(batch)
            segments.end_batch()

    def _ends(self, rows: pa.RecordBatch) -> Ints:
        """Returns the watermark at which each row is dropped."""
        is_left = rows.column(2).to_numpy() == LEFT
        ends: Ints = rows.column(1).to_numpy() + np.where(is_left, max(0, self.upper), max(0, -self.lower))
        return ends + kept_for_late(self.lateness)

    def advance(self, state: SideSegments, before: int, times: Times) -> Iterator[Output[Pairs]]:
        if times.watermark > before:
            state.advance(times.watermark)
        yield from ()

    def add(self, state: SideSegments, arrived: ColumnsArrived, times: Times) -> Iterator[Output[Pairs]]:
        elements = yield from self.on_time(arrived.elements, times.watermark)
        sides = elements.column(2).to_numpy()
        left, right = (elements.filter(pa.array(sides == side)) for side in (LEFT, RIGHT))
        portions = state.tuning.portions
        # New left elements pair with all right ones, and new right elements with the stored left ones.
        for stored_right in joined(chain(state.matching(RIGHT, left.column(0)), [right]), portions.side_bytes):
            yield from self._pairs(left, stored_right, portions.pairs, by_left=True)
        for stored_left in joined(state.matching(LEFT, right.column(0)), portions.side_bytes):
            yield from self._pairs(stored_left, right, portions.pairs, by_left=False)
        state.add(elements)

    def _pairs(self, left: pa.RecordBatch, right: pa.RecordBatch, portion: int, *, by_left: bool) -> Iterator[Pairs]:
        """Pairs left rows with right ones; ``by_left`` says that the left ones are the new elements."""
        encoded = encode_keys(pa.concat_arrays([left.column(0), right.column(0)]))
        codes = encoded.codes[: left.num_rows], encoded.codes[left.num_rows :]
        left_rows, right_rows = (
            Side(side_codes, rows.column(1).to_numpy()) for side_codes, rows in zip(codes, (left, right), strict=True)
        )
        rows, sides, bounds = (left, right), (left_rows, right_rows), (self.lower, self.upper)
        if not by_left:
            rows, sides, bounds = (right, left), (right_rows, left_rows), (-self.upper, -self.lower)
        ranges = near_in_time(*sides, len(encoded.distinct), *bounds)
        if ranges.counts.any():
            yield from self.pairs_of(rows, ranges, portion, by_left=by_left)
