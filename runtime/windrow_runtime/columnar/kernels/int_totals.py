"""The kernels of sum and mean for ints: 128-bit totals, which never wrap around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.aggregates.numbers import checked_int
from windrow_runtime.columnar.kernels.arrays import nullable, numbers, present
from windrow_runtime.columnar.kernels.floats import quotient, two_sum
from windrow_runtime.columnar.kernels.kernel import Array, Decode, Kernel, Selector, plain_values
from windrow_runtime.columnar.kernels.wide import Ints, fits, totals, whole
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["IntTotalKernel"]

# Any: arrays of several types of numbers; accumulators as in Kernel.

_DIGIT: Final = 0xFFFFFFFF


@final
class IntTotalKernel(Kernel):
    """``sum`` and ``mean`` of ints and bools.

    The state is the count of values, and their total: its upper and its lower 64 bits.

    Args:
        selector: What is added.
        aggregate: Its name, for errors.
        mean: Whether the result is the mean.
    """

    def __init__(self, selector: Selector, aggregate: str, *, mean: bool) -> None:
        self.inputs = (selector,)
        self.state_types = (pa.int64(), pa.int64(), pa.int64())
        self.result_type = pa.float64() if mean else pa.int64()
        self._aggregate = aggregate
        self._mean = mean

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        lower, upper = totals(groups, [numbers(column)], 2)
        return [pa.array(groups.sizes, type=pa.int64()), pa.array(upper), pa.array(lower)]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        held, upper, lower = (numbers(state) for state in states)
        lower, upper = totals(groups, [lower, upper], 2)
        return [pa.array(groups.int_totals(held)), pa.array(upper), pa.array(lower)]

    def results(self, states: Sequence[Array]) -> Array:
        held, upper, lower = (numbers(state) for state in states)
        if self._mean:
            return nullable(_means(held, upper, lower), held > 0, pa.float64())
        narrow = fits([lower, upper])
        if not narrow.all():
            place = int(np.argmin(narrow))
            checked_int(whole([int(lower[place]), int(upper[place])]), self._aggregate)
        return nullable(lower, held > 0, pa.int64())

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        rows = zip(*(state.to_pylist() for state in states), strict=True)
        return [(held, whole([lower, upper]), 0.0) for held, upper, lower in rows]


def _means(held: Ints, upper: Ints, lower: Ints) -> NDArray[np.float64]:
    divisors = np.maximum(held, 1).astype(np.float64)
    if fits([lower, upper]).all() and bool((np.abs(lower >> 1) < 1 << 52).all()):
        exact: NDArray[np.float64] = lower / divisors  # such totals are floats without rounding
        return exact
    # A quarter of a total is a float without rounding, and so are the first sums of a negative total.
    quarters = [
        np.ldexp(part.astype(np.float64), place)
        for part, place in (
            (upper >> 32, 96),
            (upper & _DIGIT, 64),
            ((lower >> 32) & _DIGIT, 32),
            (lower & _DIGIT, 0),
        )
    ]
    total, lost = two_sum(quarters[0], quarters[1])
    for quarter in quarters[2:]:
        total, more = two_sum(total, quarter)
        lost = lost + more
    return quotient(total, lost, divisors)
