"""The base class of joins over columns, whose state is one table with the elements of both streams."""

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
"""The index of the first slot among the columns of rows."""


class Taken(NamedTuple):
    """Where a value of a join's result comes from: a slot of one side's rows, or the key if there is no side."""

    side: int | None  # LEFT or RIGHT
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Pairs:
    """Joined pairs of elements, as columns of equal length."""

    keys: pa.Array
    stamps: Ints  # the timestamps of the results, in milliseconds
    values: Sequence[pa.Array]  # a column for each value of the results

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.stamps)

    def slice(self, start: int, count: int) -> Pairs:
        """Returns the pairs from ``start`` on, at most ``count``."""
        rows = slice(start, start + count)
        return Pairs(self.keys[rows], self.stamps[rows], [column[rows] for column in self.values])


@dataclass(frozen=True)
class JoinOperator(PagedOperator[Pairs]):
    """Joins the elements of two streams by key, for the keys of some pages at a time.

    The elements of both are rows of the same columns. The values that results take lie in slots, columns that both
    sides share if the types are the same.
    """

    key_type: pa.DataType
    slots: tuple[pa.DataType, ...]
    taken: tuple[Taken, ...]  # what the result is made of

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of elements as they arrive and as they are stored: key, timestamp, side and slots."""
        fields = [pa.field("key", self.key_type), pa.field("at", pa.int64()), pa.field("side", pa.int8())]
        return pa.schema([*fields, *[pa.field(f"s{slot}", slot_type) for slot, slot_type in enumerate(self.slots)]])

    def check(self, rows: pa.RecordBatch) -> None:
        sides = rows.column(2)
        if rows.column(1).null_count or sides.null_count or not np.isin(sides.to_numpy(), (LEFT, RIGHT)).all():
            raise damaged_state("an element of a join has no place in time, or is of no stream")

    @abstractmethod
    def late(self, stamps: Ints, watermark: int) -> Mask:
        """Marks the elements that are late."""

    @abstractmethod
    def pairs(self, rows: pa.RecordBatch, arrived: pa.RecordBatch) -> Iterable[Pairs]:
        """Returns the pairs to emit as elements arrive."""

    @abstractmethod
    def describe(self) -> str:
        """When pairs are made, for ``explain()``."""

    def advance(self, rows: pa.RecordBatch, before: int, times: Times) -> tuple[Iterable[Pairs], pa.RecordBatch]:
        if times.watermark <= before or not rows.num_rows:
            return (), rows
        return self.due(rows, before, times.watermark), rows.filter(pa.array(~self.expired(rows, times.watermark)))

    def due(self, rows: pa.RecordBatch, before: int, watermark: int) -> Iterable[Pairs]:
        """Returns the pairs to emit when the watermark advances."""
        return ()

    @abstractmethod
    def expired(self, rows: pa.RecordBatch, watermark: int) -> Mask:
        """Marks the rows that can be dropped: all partners to come would be late."""

    def made(
        self,
        rows: tuple[pa.RecordBatch, pa.RecordBatch],
        pairs: Ranges,
        *,
        by_left: bool = True,
        stamps: Ints | None = None,
    ) -> Iterator[Pairs]:
        """Yields joined pairs, with the values that results take from them.

        Args:
            rows: The rows that have ranges, and the rows that ranges consist of.
            pairs: The range of partners of each row.
            by_left: Whether left rows have the ranges.
            stamps: The timestamp of each range's results; None: the later one of the pair's timestamps.
        """
        paired = np.flatnonzero(pairs.counts)
        if len(paired) < len(pairs.rows):
            # Rows without a partner are left out, so that their values are not copied.
            pairs = pairs._replace(rows=pairs.rows[paired], starts=pairs.starts[paired], counts=pairs.counts[paired])
            stamps = None if stamps is None else stamps[paired]
        one, other = rows[0].take(pa.array(pairs.rows)), rows[1].take(pa.array(pairs.others))
        of_one, of_other = one.column(1).to_numpy(), other.column(1).to_numpy()
        for indices, partners in pairs.portions(PAIRS_AT_ONCE):
            later = np.maximum(of_one[indices], of_other[partners]) if stamps is None else stamps[indices]
            at = {LEFT if by_left else RIGHT: (one, pa.array(indices))}
            at[RIGHT if by_left else LEFT] = (other, pa.array(partners))
            yield self._taken(one.column(0).take(pa.array(indices)), later, at)

    def alone(self, rows: pa.RecordBatch, side: int, stamps: Ints) -> Iterator[Pairs]:
        """Yields the results of one side's rows that have no partner."""
        for start in range(0, rows.num_rows, PAIRS_AT_ONCE):
            portion = rows.slice(start, PAIRS_AT_ONCE)
            row_numbers = pa.array(np.arange(portion.num_rows))
            yield self._taken(portion.column(0), stamps[start : start + PAIRS_AT_ONCE], {side: (portion, row_numbers)})

    def _taken(self, keys: pa.Array, stamps: Ints, at: Mapping[int, tuple[pa.RecordBatch, pa.Array]]) -> Pairs:
        """Returns pairs whose values are taken from row numbers of either side; a missing side's values are null."""
        columns: list[pa.Array] = []
        for side, slot in self.taken:
            if side is None:
                columns.append(keys)
            elif side in at:
                rows, row_numbers = at[side]
                columns.append(rows.column(FIRST_SLOT + slot).take(row_numbers))
            else:
                columns.append(pa.nulls(len(keys), self.slots[slot]))
        return Pairs(keys, stamps, columns)
