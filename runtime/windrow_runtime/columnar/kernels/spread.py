"""The kernels of variance and standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from windrow.aggregates.arithmetic import Spread
from windrow_runtime.columnar.array_types import Array, ArrowType, Floats, Ints
from windrow_runtime.columnar.kernels.arrays import is_number, nullable, numbers, present
from windrow_runtime.columnar.kernels.kernel import Kernel
from windrow_runtime.columnar.rows.groups import Groups

# Any: accumulators of every type, as in Kernel.

_NEAR_OVERFLOW: Final = 2.0**480
"""Where sums of a group may reach this, it is merged one by one: squares may overflow, and the order decides."""


@final
class SpreadKernel(Kernel):
    """``variance``, ``stddev`` and their relations.

    The state is the count of values, their mean, and the sum of the squares of their distances from it.
    """

    accepts = staticmethod(is_number)
    state_types = (pa.int64(), pa.float64(), pa.float64())
    result_type = pa.float64()

    def __init__(self, aggregate: Spread[Any], kind: ArrowType) -> None:
        self.inputs = (aggregate.selector,)
        # What is left to merge one by one are numbers: they are selected already.
        self._aggregate: Spread[Any] = Spread(float, aggregate.kind, aggregate.sample, aggregate.root)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        values = numbers(column).astype(np.float64, copy=False)
        held = groups.sizes.astype(np.int64, copy=False)
        means, squares = _moments(groups, held, values, None)
        for group, rows in _near_overflow(groups, values, None):
            moments = self._aggregate.create_accumulator()
            for value in values[rows].tolist():
                moments = self._aggregate.add(value, moments)
            _, means[group], squares[group] = moments
        return [*map(pa.array, (held, means, squares))]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        weights, values, spreads = (numbers(state) for state in states)
        held = groups.int_totals(weights)
        means, squares = _moments(groups, held, values, weights)
        squares += groups.totals(spreads)
        for group, rows in _near_overflow(groups, values, weights):
            moments = self._aggregate.create_accumulator()
            for other in self.accumulators([state.take(pa.array(rows)) for state in states]):
                moments = self._aggregate.merge(moments, other)
            _, means[group], squares[group] = moments
        return [*map(pa.array, (held, means, squares))]

    def results(self, states: Sequence[Array]) -> Array:
        held, _, squares = (numbers(state) for state in states)
        freedom = held - 1 if self._aggregate.sample else held
        found = squares / np.maximum(freedom, 1)
        return nullable(np.sqrt(found) if self._aggregate.root else found, freedom > 0, pa.float64())

    def accumulator(self, *state: Any) -> tuple[Any, ...]:
        return state


def _moments(groups: Groups, held: Ints, values: Floats, weights: Ints | None) -> tuple[Floats, Floats]:
    """The mean of each group, and the sum of the squares of distances from it; values weigh 1 without weights."""
    divisors = np.maximum(held, 1)
    # An infinity or a NaN makes all of its group NaN.
    with np.errstate(over="ignore", invalid="ignore"):
        rough = groups.totals(values if weights is None else values * weights)
        rough /= divisors
        moved = np.zeros(groups.count)
        for rows, ids in groups.blocks():
            distances = values[rows] - rough[ids]
            np.add.at(moved, ids, distances if weights is None else distances * weights[rows])
        # Equal values have this mean exactly, whatever rounding did to their sum: their spread is 0.
        moved /= divisors
        means = rough + moved
        off, squares = np.zeros(groups.count), np.zeros(groups.count)
        for rows, ids in groups.blocks():
            distances = values[rows] - means[ids]
            weighted = distances if weights is None else distances * weights[rows]
            np.add.at(off, ids, weighted)
            np.add.at(squares, ids, weighted * distances)
        # The mean is rounded; what that adds to the squares is taken off.
        squares -= off * (off / divisors)
        return means, np.maximum(squares, 0.0, out=squares)


def _near_overflow(groups: Groups, values: Floats, weights: Ints | None) -> list[tuple[int, Ints]]:
    """The groups whose sums may come near the largest float, and the rows of each."""
    magnitudes = np.abs(values)
    if weights is None:
        # Infinite values make NaNs in every order. Infinite means do not: they come from what overflowed.
        magnitudes[np.isinf(magnitudes)] = 0.0
    heaviest = 1 if weights is None else int(weights.max(initial=1))
    limit = _NEAR_OVERFLOW / max(groups.largest * heaviest, 1)
    far = magnitudes >= limit
    if not far.any():
        return []
    found = np.unique(groups.ids[far])
    pieces = zip(groups.starts[found].tolist(), groups.sizes[found].tolist(), strict=True)
    return [
        (int(group), groups.order[start : start + size]) for group, (start, size) in zip(found, pieces, strict=True)
    ]
