"""Rows of elements of two streams, of which joins make pairs, and the operators of these joins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from windrow.functions.marked import LEFT, RIGHT
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.joins.ranges import Ranges
from windrow_runtime.columnar.windows.column_operator import PagedOperator, Times

PAIRS_AT_ONCE: Final = 1 << 17
"""Pairs are made in portions of this size, so that memory does not grow with the number of pairs of a batch."""

FIRST_SLOT: Final = 3
"""The place of the first slot among the columns of rows."""


class Taken(NamedTuple):
    """A value of a result: a slot of the rows of one side; no side is the key."""

    side: int | None  # LEFT or RIGHT
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of elements that a join has found, as columns side by side."""

    keys: pa.Array
    stamps: Ints  # which the results carry, in milliseconds
    values: Sequence[pa.Array]  # a column for each value of the results

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.stamps)

    def slice(self, start: int, count: int) -> Pairs:
        """Up to ``count`` of them that follow each other."""
        some = slice(start, start + count)
        return Pairs(self.keys[some], self.stamps[some], [column[some] for column in self.values])


@dataclass(frozen=True)
class JoinOperator(PagedOperator[Pairs]):
    """Joins the elements of two streams by key, on some keys at a time.

    The elements of both are rows of the same columns. What the result takes from them lies in slots, which both sides
    share where their types are the same.
    """

    key_type: pa.DataType
    slots: tuple[pa.DataType, ...]
    taken: tuple[Taken, ...]  # what the result is made of

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of elements, which are those of state: key, timestamp, side and slots."""
        fields = [pa.field("key", self.key_type), pa.field("at", pa.int64()), pa.field("side", pa.int8())]
        return pa.schema([*fields, *[pa.field(f"s{place}", kind) for place, kind in enumerate(self.slots)]])

    def check(self, rows: pa.RecordBatch) -> None:
        sides = rows.column(2)
        if rows.column(1).null_count or sides.null_count or not np.isin(sides.to_numpy(), (LEFT, RIGHT)).all():
            raise damaged_state("an element of a join has no place in time, or is of no stream")

    @abstractmethod
    def late(self, stamps: Ints, watermark: int) -> Mask:
        """Marks the elements that are late."""

    @abstractmethod
    def pairs(self, rows: pa.RecordBatch, arrived: pa.RecordBatch) -> Iterable[Pairs]:
        """The pairs that elements make as they arrive."""

    @abstractmethod
    def describe(self) -> str:
        """When pairs are made, for ``explain()``."""

    def advance(self, rows: pa.RecordBatch, before: int, times: Times) -> tuple[Iterable[Pairs], pa.RecordBatch]:
        if times.watermark <= before or not rows.num_rows:
            return (), rows
        return self.due(rows, before, times.watermark), rows.filter(pa.array(~self.expired(rows, times.watermark)))

    def due(self, rows: pa.RecordBatch, before: int, watermark: int) -> Iterable[Pairs]:
        """The pairs that are made when the watermark advances."""
        return ()

    @abstractmethod
    def expired(self, rows: pa.RecordBatch, watermark: int) -> Mask:
        """Marks the rows that no element can join any more that is not late."""

    def made(
        self,
        rows: tuple[pa.RecordBatch, pa.RecordBatch],
        pairs: Ranges,
        *,
        by_left: bool = True,
        stamps: Ints | None = None,
    ) -> Iterator[Pairs]:
        """Makes pairs of rows.

        Args:
            rows: The rows of which the ranges are, and those in them.
            pairs: Which of them make pairs.
            by_left: Whether the ranges are those of left rows.
            stamps: The timestamp of each range's results; None: they carry the later one of both.
        """
        having = np.flatnonzero(pairs.counts)
        if len(having) < len(pairs.rows):
            # Most elements of a stream may have no partner, and nobody takes their values.
            pairs = pairs._replace(rows=pairs.rows[having], starts=pairs.starts[having], counts=pairs.counts[having])
            stamps = None if stamps is None else stamps[having]
        one, other = rows[0].take(pa.array(pairs.rows)), rows[1].take(pa.array(pairs.others))
        of_one, of_other = one.column(1).to_numpy(), other.column(1).to_numpy()
        for places, partners in pairs.portions(PAIRS_AT_ONCE):
            found = np.maximum(of_one[places], of_other[partners]) if stamps is None else stamps[places]
            at = {LEFT if by_left else RIGHT: (one, pa.array(places))}
            at[RIGHT if by_left else LEFT] = (other, pa.array(partners))
            yield self._taken(one.column(0).take(pa.array(places)), found, at)

    def alone(self, rows: pa.RecordBatch, side: int, stamps: Ints) -> Iterator[Pairs]:
        """The results of rows of a side that have no partner."""
        for start in range(0, rows.num_rows, PAIRS_AT_ONCE):
            some = rows.slice(start, PAIRS_AT_ONCE)
            every = pa.array(np.arange(some.num_rows))
            yield self._taken(some.column(0), stamps[start : start + PAIRS_AT_ONCE], {side: (some, every)})

    def _taken(self, keys: pa.Array, stamps: Ints, at: Mapping[int, tuple[pa.RecordBatch, pa.Array]]) -> Pairs:
        """What results take from rows of either side, at some places; a side that is not there gives None."""
        columns: list[pa.Array] = []
        for side, slot in self.taken:
            if side is None:
                columns.append(keys)
            elif side in at:
                rows, places = at[side]
                columns.append(rows.column(FIRST_SLOT + slot).take(places))
            else:
                columns.append(pa.nulls(len(keys), self.slots[slot]))
        return Pairs(keys, stamps, columns)
