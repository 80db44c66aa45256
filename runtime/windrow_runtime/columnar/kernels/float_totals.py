"""The kernels of sum and mean for floats: totals that carry what rounding took away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.aggregates.numbers import merge_totals
from windrow_runtime.columnar.kernels.arrays import nullable, numbers, present
from windrow_runtime.columnar.kernels.floats import Floats, exact_totals
from windrow_runtime.columnar.kernels.kernel import Array, Decode, Kernel, Selector, plain_values
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["FloatTotalKernel"]

# Any: accumulators of every type, as in Kernel.

_NEAR_OVERFLOW: Final = 1000
"""Where the sum of the magnitudes of a group may reach 2 ** 1000, its values are added one by one."""


@final
class FloatTotalKernel(Kernel):
    """``sum`` and ``mean`` of floats.

    The state is the count of values, their total, and what rounding took away.

    Args:
        selector: What is added.
        mean: Whether the result is the mean.
    """

    def __init__(self, selector: Selector, *, mean: bool) -> None:
        self.inputs = (selector,)
        self.state_types = (pa.int64(), pa.float64(), pa.float64())
        self.result_type = pa.float64()
        self._mean = mean

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        values = numbers(column).astype(np.float64, copy=False)
        totals = _totals(groups, values, None)
        return [pa.array(groups.sizes, type=pa.int64()), *map(pa.array, totals)]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        held, totals, lost = (numbers(state) for state in states)
        merged = _totals(groups, totals, lost)
        return [pa.array(groups.int_totals(held)), *map(pa.array, merged)]

    def results(self, states: Sequence[Array]) -> Array:
        held, totals, lost = (numbers(state) for state in states)
        values = totals.copy()
        # Behind an infinity, what rounding took away means nothing. A sum may still become infinite here.
        with np.errstate(over="ignore"):
            np.add(totals, lost, out=values, where=np.isfinite(totals))
        if self._mean:
            values = values / np.maximum(held, 1)
        return nullable(values, held > 0, pa.float64())

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        rows = zip(*(state.to_pylist() for state in states), strict=True)
        return [(held, total, lost) if held else (0, 0, 0.0) for held, total, lost in rows]


def _totals(groups: Groups, values: Floats, lost: Floats | None) -> tuple[Floats, Floats]:
    """The totals of each group, and what rounding took away.

    Args:
        groups: The group of each value.
        values: The values.
        lost: What belongs to each value besides; None: nothing.
    """
    all_groups, all_values, all_lost = groups, values, lost
    special = None
    magnitudes = _magnitudes(groups, values)
    if not np.isfinite(magnitudes).all():
        finite = np.isfinite(values)
        with np.errstate(invalid="ignore"):  # infinities of both signs are no number
            special = groups.where(~finite).totals(values[~finite])
        groups, values = groups.where(finite), values[finite]
        lost = None if lost is None else lost[finite]
        magnitudes = _magnitudes(groups, values)
    # For each group a power of two above the magnitude of all its values.
    exponents = np.frexp(magnitudes)[1]
    near = exponents + groups.largest.bit_length() > _NEAR_OVERFLOW
    if near.any():
        far = ~near[groups.ids]
        groups, values = groups.where(far), values[far]
        lost = None if lost is None else lost[far]
        exponents = np.where(near, 0, exponents)
    totals, rests = exact_totals(groups, values, exponents)
    if lost is not None:
        rests = rests + groups.totals(lost)
    if special is not None:
        special_there = ~np.isfinite(special)
        totals[special_there] = special[special_there]
        rests[special_there] = 0.0
    if near.any():
        _add_one_by_one(all_groups, all_values, all_lost, near, totals, rests)
    return totals, rests


def _magnitudes(groups: Groups, values: Floats) -> Floats:
    """The largest magnitude of each group; no finite number where one of its values is none."""
    found = np.zeros(groups.count)
    with np.errstate(invalid="ignore"):
        for rows, ids in groups.blocks():
            np.maximum.at(found, ids, np.abs(values[rows]))
    return found


def _add_one_by_one(
    groups: Groups,
    values: Floats,
    lost: Floats | None,
    chosen: NDArray[np.bool_],
    totals: Floats,
    rests: Floats,
) -> None:
    """As the aggregate adds: near the largest float, the order decides whether a total overflows."""
    for group in np.flatnonzero(chosen).tolist():
        totals[group] = rests[group] = 0.0
    for row in np.flatnonzero(chosen[groups.ids]).tolist():
        group = int(groups.ids[row])
        other = 0.0 if lost is None else float(lost[row])
        total, rest = merge_totals(float(totals[group]), float(rests[group]), float(values[row]), other)
        totals[group], rests[group] = total, rest
