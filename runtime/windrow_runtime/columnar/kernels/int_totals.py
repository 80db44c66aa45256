"""The kernels of sum and mean for ints: 128-bit totals, which never wrap around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from typing_extensions import final

from windrow.aggregates.numbers import checked_int
from windrow_runtime.columnar.groups import Groups
from windrow_runtime.columnar.kernels.arrays import nullable, numbers, present
from windrow_runtime.columnar.kernels.floats import quotient, two_sum
from windrow_runtime.columnar.kernels.kernel import Array, Decode, Kernel, Selector, plain_values

__all__ = ["IntTotalKernel"]

# Any: arrays of several types of numbers; accumulators as in Kernel.

Ints = NDArray[np.int64]

_HALF: Final = 0xFFFFFFFF


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
        upper, lower = _total(groups, numbers(column))
        return [pa.array(groups.sizes, type=pa.int64()), pa.array(upper), pa.array(lower)]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        held, upper, lower = (numbers(state) for state in states)
        merged = (
            _total(groups, lower) if _fits(upper, lower).all() else _total_of_totals(groups, upper, lower)
        )
        return [pa.array(groups.int_totals(held)), *map(pa.array, merged)]

    def results(self, states: Sequence[Array]) -> Array:
        held, upper, lower = (numbers(state) for state in states)
        if self._mean:
            return nullable(_means(held, upper, lower), held > 0, pa.float64())
        fits = _fits(upper, lower)
        if not fits.all():
            place = int(np.argmin(fits))
            checked_int(_whole(int(upper[place]), int(lower[place])), self._aggregate)
        return nullable(lower, held > 0, pa.int64())

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        rows = zip(*(state.to_pylist() for state in states), strict=True)
        return [(held, _whole(upper, lower), 0.0) for held, upper, lower in rows]


def _total(groups: Groups, values: NDArray[Any]) -> tuple[Ints, Ints]:
    """The 128-bit totals of values of any type of ints."""
    farthest = max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0
    if farthest * groups.largest < 1 << 63:
        lower = groups.int_totals(values.astype(np.int64, copy=False))
        return lower >> 63, lower
    uppers = (values >> 32).astype(np.int64, copy=False)
    lowers = (values & values.dtype.type(_HALF)).astype(np.int64, copy=False)
    return _carried(np.zeros(groups.count, np.int64), groups.int_totals(uppers), groups.int_totals(lowers))


def _total_of_totals(groups: Groups, upper: Ints, lower: Ints) -> tuple[Ints, Ints]:
    return _carried(
        groups.int_totals(upper),
        groups.int_totals((lower >> 32) & _HALF),
        groups.int_totals(lower & _HALF),
    )


def _carried(upper: Ints, middle: Ints, lower: Ints) -> tuple[Ints, Ints]:
    """``upper * 2**64 + middle * 2**32 + lower`` in 128 bits."""
    middle = middle + (lower >> 32)
    return upper + (middle >> 32), (middle << 32) | (lower & _HALF)


def _fits(upper: Ints, lower: Ints) -> NDArray[np.bool_]:
    """Which totals fit into 64 bits."""
    fits: NDArray[np.bool_] = upper == lower >> 63
    return fits


def _whole(upper: int, lower: int) -> int:
    return (upper << 64) | (lower & 0xFFFFFFFFFFFFFFFF)


def _means(held: Ints, upper: Ints, lower: Ints) -> NDArray[np.float64]:
    divisors = np.maximum(held, 1).astype(np.float64)
    if _fits(upper, lower).all() and bool((np.abs(lower >> 1) < 1 << 52).all()):
        exact: NDArray[np.float64] = lower / divisors  # such totals are floats without rounding
        return exact
    # A quarter of a total is a float without rounding, and so are the first sums of a negative total.
    quarters = [
        np.ldexp(part.astype(np.float64), place)
        for part, place in (
            (upper >> 32, 96),
            (upper & _HALF, 64),
            ((lower >> 32) & _HALF, 32),
            (lower & _HALF, 0),
        )
    ]
    total, lost = two_sum(quarters[0], quarters[1])
    for quarter in quarters[2:]:
        total, more = two_sum(total, quarter)
        lost = lost + more
    return quotient(total, lost, divisors)
