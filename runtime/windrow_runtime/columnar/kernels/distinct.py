"""The kernels of count_distinct, approx_count_distinct and approx_quantile(s).

Sketches are made group by group in Python, out of arrays; the state is the bytes of the sketch, empty for nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from windrow.aggregates.distinct import CountDistinct
from windrow.aggregates.sketches import ApproxCountDistinct, ApproxQuantiles, HllSketch, KllSketch, hashed
from windrow_runtime.columnar.array_types import Array, ArrowType, Ints
from windrow_runtime.columnar.kernels.arrays import (
    has_order,
    is_number,
    lengths_of,
    list_type,
    lists,
    numbers,
    present,
    rows_of_items,
    value_codes,
)
from windrow_runtime.columnar.kernels.kernel import Kernel
from windrow_runtime.columnar.rows.groups import Groups
from windrow_runtime.columnar.rows.values import python_values

# Any: accumulators of every type, as in Kernel.

_TIMES: Final = (pa.timestamp("us", tz="UTC"), pa.date32(), pa.duration("us"))
"""The types of columns of datetimes, dates and time spans."""


@final
class CountDistinctKernel(Kernel):
    """``count_distinct``; the state is the list of the different values. Of several NaNs it holds one."""

    accepts = staticmethod(has_order)
    result_type = pa.int64()

    def __init__(self, aggregate: CountDistinct[Any], kind: ArrowType) -> None:
        self.inputs = (aggregate.selector,)
        self.state_types = (list_type(kind),)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        rows, sizes = _distinct(groups, column)
        return [lists(column.take(pa.array(rows)), sizes)]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        return self.partial(rows_of_items(groups, states[0]), [states[0].flatten()])

    def results(self, states: Sequence[Array]) -> Array:
        return pa.array(lengths_of(states[0]))

    def accumulator(self, *state: list[Any]) -> tuple[set[Any], bool]:
        # Only a NaN is not equal to itself.
        kept = {value for value in state[0] if value == value}  # noqa: PLR0124
        return kept, len(kept) < len(state[0])


def _distinct(groups: Groups, column: Array) -> tuple[Ints, Ints]:
    """A row for each different value of each group, group by group; and how many each group has.

    The row is one that has the value, though maybe in another group.
    """
    codes, bound = value_codes(column)
    rows = np.empty(bound, dtype=np.int64)
    rows[codes] = np.arange(len(codes), dtype=np.int64)
    # Group and value in one word. There are fewer codes than 2 ** 32, and fewer groups than 2 ** 31.
    bits = bound.bit_length()
    words = (groups.ids << bits) | codes
    words.sort()
    if len(words):
        words = words[np.concatenate(([True], words[1:] != words[:-1]))]
    sizes = np.bincount(words >> bits, minlength=groups.count)
    return rows[words & ((1 << bits) - 1)], sizes


class _SketchKernel(Kernel):
    """An aggregate whose state is a sketch, and maybe how many values it lacks."""

    def __init__(self, aggregate: ApproxCountDistinct[Any] | ApproxQuantiles[Any, Any, Any], kind: ArrowType) -> None:
        self.inputs = (aggregate.selector,)
        self._aggregate: Any = aggregate  # of the one class or the other

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        found = [b""] * groups.count
        for group, state in zip(groups.ids.tolist(), states[0].to_pylist(), strict=True):
            if state:
                # The only sketch of a group stays as it is.
                found[group] = self._union(found[group], state) if found[group] else state
        lacking = [pa.array(groups.int_totals(numbers(counts))) for counts in states[1:]]
        return [pa.array(found, type=pa.binary()), *lacking]

    @abstractmethod
    def _union(self, a: bytes, b: bytes) -> bytes:
        """The sketch of the values of two."""

    def results(self, states: Sequence[Array]) -> Array:
        found = [self._aggregate.get_result(held) for held in self.accumulators(states)]
        return pa.array(found, type=self.result_type)


@final
class ApproxCountDistinctKernel(_SketchKernel):
    """``approx_count_distinct``; each different value of a group is given to its sketch once."""

    state_types = (pa.binary(),)
    result_type = pa.int64()

    @staticmethod
    def accepts(kind: ArrowType) -> bool:
        # A sketch takes a time for what it is in Python, which a column of another unit, or without a zone, does not
        # tell.
        return has_order(kind) and (not pa.types.is_temporal(kind) or kind in _TIMES)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        rows, sizes = _distinct(groups, column)
        known, places = np.unique(rows, return_inverse=True)
        hashes = [hashed(value) for value in python_values(column.take(pa.array(known)))]
        found: list[bytes] = []
        start = 0
        for size in sizes.tolist():
            sketch = HllSketch()
            for place in places[start : start + size].tolist():
                sketch.update(hashes[place], self._aggregate.lg_k)
            found.append(sketch.to_bytes())
            start += size
        return [pa.array(found, type=pa.binary())]

    def _union(self, a: bytes, b: bytes) -> bytes:
        return HllSketch(a).union(HllSketch(b), self._aggregate.lg_k).to_bytes()

    def accumulator(self, *state: bytes) -> HllSketch:
        return HllSketch(state[0])


@final
class ApproxQuantilesKernel(_SketchKernel):
    """``approx_quantile`` and ``approx_quantiles``; the state is the sketch, and how many NaNs there were."""

    accepts = staticmethod(is_number)
    state_types = (pa.binary(), pa.int64())

    def __init__(self, aggregate: ApproxQuantiles[Any, Any, Any], kind: ArrowType) -> None:
        super().__init__(aggregate, kind)
        self.result_type = pa.float64() if aggregate.kind == "approx_quantile" else list_type(pa.float64())

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        values = numbers(column).astype(np.float64, copy=False)
        missing = np.isnan(values)
        numbered = groups.where(~missing)
        ordered = values[~missing][numbered.order]
        found: list[bytes] = []
        for start, size in zip(numbered.starts.tolist(), numbered.sizes.tolist(), strict=True):
            sketch = KllSketch()
            if size:
                sketch.update_all(ordered[start : start + size], self._aggregate.k)
            found.append(sketch.to_bytes())
        not_numbers = groups.where(missing).sizes
        return [pa.array(found, type=pa.binary()), pa.array(not_numbers, type=pa.int64())]

    def _union(self, a: bytes, b: bytes) -> bytes:
        return KllSketch(a).union(KllSketch(b), self._aggregate.k).to_bytes()

    def accumulator(self, *state: Any) -> tuple[KllSketch, int]:
        sketch, not_numbers = state
        return KllSketch(sketch), not_numbers
