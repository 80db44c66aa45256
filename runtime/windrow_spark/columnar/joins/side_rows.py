"""Makes pairs of the elements of two streams, which are rows of the same columns: the base of operators of joins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from windrow.functions.marked import LEFT, RIGHT
from windrow_runtime.codecs.malformed import damaged_state
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.joins.ranges import Ranges
from windrow_spark.columnar.step_operator import LateRows, S, StepOperator, late_apart

FIRST_SLOT: Final = 3
"""The index of the first slot among the columns of rows."""


_BYTES_AT_ONCE: Final = 256 << 20


def _longest(rows: pa.RecordBatch) -> int:
    """Returns the bytes of the longest text of each column together."""
    columns = [column for column in rows.columns if types.is_string(column.type) or types.is_binary(column.type)]
    return sum(pc.max(pc.binary_length(column)).as_py() or 0 for column in columns)


class ValueOrigin(NamedTuple):
    """Where a value of a join's result comes from: a slot of one side's rows, or the key if there is no side."""

    side: int | None  # LEFT or RIGHT
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of elements that a join makes, as columns side by side."""

    keys: pa.Array
    stamps: Ints  # the timestamps of the results, in milliseconds
    values: Sequence[pa.Array]  # a column for each value of the results

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.stamps)

    def slice(self, start: int, count: int) -> Pairs:
        """Returns up to ``count`` of them that follow each other."""
        part = slice(start, start + count)
        return Pairs(self.keys[part], self.stamps[part], [column[part] for column in self.values])


@dataclass(frozen=True)
class JoinOperator(StepOperator[S, Pairs]):
    """Joins the elements of two streams by key.

    The elements of both are rows of the same columns. The values that results take lie in slots, columns that both
    sides share if the types are the same.
    """

    key_type: pa.DataType
    slots: tuple[pa.DataType, ...]
    origins: tuple[ValueOrigin, ...]  # one for each value of the result

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
    def describe(self) -> str:
        """Tells when pairs are made, for ``explain()``."""

    def on_time(self, elements: pa.RecordBatch, watermark: int) -> Generator[LateRows, None, pa.RecordBatch]:
        """Emits the elements that are late, and returns the others."""
        return late_apart(elements, self.late(elements.column(1).to_numpy(), watermark), watermark)

    def open_windows(self, state: S) -> int:
        return 0

    def pairs_of(
        self,
        rows: tuple[pa.RecordBatch, pa.RecordBatch],
        pairs: Ranges,
        portion: int,
        *,
        by_left: bool = True,
        stamps: Ints | None = None,
    ) -> Iterator[Pairs]:
        """Yields joined pairs, with the values that results take from them.

        Args:
            rows: The rows of which the ranges are, and those in them.
            pairs: Which of them make pairs.
            portion: How many pairs are made at a time.
            by_left: Whether the ranges are those of left rows.
            stamps: The timestamp of each range's results; None: they carry the later one of both.
        """
        paired = np.flatnonzero(pairs.counts)
        if len(paired) < len(pairs.rows):
            # Rows without a partner are left out, so that their values are not copied.
            pairs = pairs._replace(rows=pairs.rows[paired], starts=pairs.starts[paired], counts=pairs.counts[paired])
            stamps = None if stamps is None else stamps[paired]
        one, other = rows[0].take(pa.array(pairs.rows)), rows[1].take(pa.array(pairs.others))
        # Long texts and bytes are repeated in each of their pairs.
        portion = min(portion, max(1, _BYTES_AT_ONCE // (1 + _longest(one) + _longest(other))))
        of_one, of_other = one.column(1).to_numpy(), other.column(1).to_numpy()
        for places, partners in pairs.portions(portion):
            of_pairs = np.maximum(of_one[places], of_other[partners]) if stamps is None else stamps[places]
            at = {LEFT if by_left else RIGHT: (one, pa.array(places))}
            at[RIGHT if by_left else LEFT] = (other, pa.array(partners))
            yield self._pairs_of(one.column(0).take(pa.array(places)), of_pairs, at)

    def alone(self, rows: pa.RecordBatch, side: int, stamps: Ints, portion: int) -> Iterator[Pairs]:
        """Makes the results of rows of a side that have no partner."""
        for start in range(0, rows.num_rows, portion):
            part = rows.slice(start, portion)
            every = pa.array(np.arange(part.num_rows))
            yield self._pairs_of(part.column(0), stamps[start : start + portion], {side: (part, every)})

    def _pairs_of(self, keys: pa.Array, stamps: Ints, at: Mapping[int, tuple[pa.RecordBatch, pa.Array]]) -> Pairs:
        """Takes the values of results from rows of either side, at some places; a side that is not there gives None."""
        columns: list[pa.Array] = []
        for side, slot in self.origins:
            if side is None:
                columns.append(keys)
            elif side in at:
                rows, row_numbers = at[side]
                columns.append(rows.column(FIRST_SLOT + slot).take(row_numbers))
            else:
                columns.append(pa.nulls(len(keys), self.slots[slot]))
        return Pairs(keys, stamps, columns)
