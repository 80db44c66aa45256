"""Joins elements of two streams whose timestamps lie within bounds of each other, over columns.

A batch is joined in two passes: its left elements with all right ones, then its right elements with stored left ones.
Of the stored rows it reads the pages that may have its keys, and of each segment a part of the index for each key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from windrow.functions.marked import LEFT, RIGHT, JoinKind
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.operators.timed_joins import Retention
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.joins.ranges import Ranges, Side, near_in_time
from windrow_spark.columnar.joins.side_rows import JoinOperator, Pairs
from windrow_spark.columnar.joins.side_segments import SideSegments
from windrow_spark.columnar.rows.groups import encode_keys
from windrow_spark.columnar.state import joined
from windrow_spark.columnar.step_operator import ColumnsArrived, Output, Times
from windrow_spark.storage.group_record import NO_TIMER, PageStore, StepRecord
from windrow_spark.storage.tuning import StateTuning


@dataclass(frozen=True)
class IntervalOperator(JoinOperator[SideSegments]):
    """Emits a pair as soon as its second element arrives; drops an element once all partners to come would be late."""

    lower: int  # how long after the left element the right one may come at least, in milliseconds
    upper: int  # and at most
    lateness: int = 0  # how long after the watermark elements still come, in milliseconds
    kind: JoinKind = JoinKind.INNER  # the sides whose elements are emitted without a partner, too

    def late(self, stamps: Ints, watermark: int) -> Mask:
        return stamps < max(MIN_TIMESTAMP, watermark - self.lateness)

    def describe(self) -> str:
        alone = "" if self.kind is JoinKind.INNER else ", others when the watermark is past their last partner"
        return f"pairs as elements arrive{alone}"

    def shares(
        self, record: StepRecord, store: PageStore, keys: Sequence[pa.Array], times: Times, tuning: StateTuning
    ) -> Iterator[tuple[SideSegments, Mask | None]]:
        segments = self.segments(record, store, tuning)
        yield segments, None
        segments.end_batch()

    def segments(self, record: StepRecord, store: PageStore, tuning: StateTuning) -> SideSegments:
        """Opens the rows of a key group."""
        decisions = None if self.kind is JoinKind.INNER else self._decisions
        return SideSegments(record, self.schema, store, self._ends, self.check, tuning, self.defaults, decisions)

    @cached_property
    def _retention(self) -> Retention:
        return Retention.of(self.lower, self.upper, self.lateness, self.kind.missing)

    def stored_rows(self, record: StepRecord, store: PageStore, tuning: StateTuning) -> Iterator[pa.RecordBatch]:
        return self.segments(record, store, tuning).stored_rows()

    def store_rows(
        self, record: StepRecord, store: PageStore, rows: Iterable[pa.RecordBatch], tuning: StateTuning, arrived: int
    ) -> None:
        # Each batch may become a segment, as those of a run do.
        for batch in joined(rows, tuning.portions.side_bytes):
            segments = self.segments(record, store, tuning)
            segments.add(batch)
            segments.end_batch()

    def _ends(self, rows: pa.RecordBatch) -> Ints:
        """Returns the watermark at which each row is dropped."""
        return self._after(rows, self._retention.kept)

    def _decisions(self, rows: pa.RecordBatch) -> Ints:
        """Returns the watermark at which each row comes out if it is alone; ``NO_TIMER`` where it never does."""
        sides = rows.column(2).to_numpy()
        never = np.zeros(len(sides), np.bool_)
        for side in {LEFT, RIGHT}.difference(map(_other, self.kind.missing)):
            never |= sides == side
        return np.where(never, NO_TIMER, self._after(rows, self._retention.decided))

    def _after(self, rows: pa.RecordBatch, delays: Mapping[int, int]) -> Ints:
        is_left = rows.column(2).to_numpy() == LEFT
        times: Ints = rows.column(1).to_numpy() + np.where(is_left, delays[LEFT], delays[RIGHT])
        return times

    def advance(self, state: SideSegments, before: int, times: Times) -> Iterator[Output[Pairs]]:
        if times.watermark > before:
            if self.kind is not JoinKind.INNER:
                yield from self._alone(state, times.watermark)
            state.advance(times.watermark)

    def _alone(self, state: SideSegments, watermark: int) -> Iterator[Pairs]:
        """Emits the elements without a partner that are decided by an advance to a watermark."""
        portions = state.tuning.portions
        for rows in joined(state.decided(watermark), portions.side_bytes):
            for side in map(_other, self.kind.missing):
                decided = rows.filter(pa.array(rows.column(2).to_numpy() == side))
                has_partner = np.zeros(decided.num_rows, np.bool_)
                for partners in joined(state.matching(_other(side), decided.column(0)), portions.side_bytes):
                    ranges = self._near(decided, partners, by_left=side == LEFT)
                    has_partner[ranges.rows[ranges.counts > 0]] = True
                alone = decided.filter(pa.array(~has_partner))
                yield from self.alone(alone, side, self._decisions(alone), portions.pairs)

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
        ranges = self._near(*((left, right) if by_left else (right, left)), by_left=by_left)
        if ranges.counts.any():
            yield from self.pairs_of((left, right) if by_left else (right, left), ranges, portion, by_left=by_left)

    def _near(self, rows: pa.RecordBatch, others: pa.RecordBatch, *, by_left: bool) -> Ranges:
        """Finds the partners of rows of a side, the left one if ``by_left``, among rows of the other."""
        encoded = encode_keys(pa.concat_arrays([rows.column(0), others.column(0)]))
        codes = encoded.codes[: rows.num_rows], encoded.codes[rows.num_rows :]
        of_rows, of_others = (
            Side(side_codes, each.column(1).to_numpy()) for side_codes, each in zip(codes, (rows, others), strict=True)
        )
        bounds = (self.lower, self.upper) if by_left else (-self.upper, -self.lower)
        return near_in_time(of_rows, of_others, len(encoded.distinct), *bounds)


def _other(side: int) -> int:
    return LEFT + RIGHT - side
