"""The kernels of min and max, and how rows with the lowest or highest value are found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow_runtime.columnar.kernels.arrays import numbers, order_keys, present, take, valid
from windrow_runtime.columnar.kernels.kernel import (
    Array,
    ArrowType,
    Decode,
    Kernel,
    Selector,
    plain_values,
)
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["ExtremeKernel", "best_rows"]

# Any: numbers of several types; accumulators as in Kernel.


@final
class ExtremeKernel(Kernel):
    """``min`` and ``max`` of values that have an order; the state is the value, or null for nothing.

    Args:
        selector: What is compared.
        kind: The type of the values.
        highest: Whether it is ``max``.
    """

    def __init__(self, selector: Selector, kind: ArrowType, *, highest: bool) -> None:
        self.inputs = (selector,)
        self.state_types = (kind,)
        self.result_type = kind
        self._highest = highest

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        return [_best(groups, columns[0], highest=self._highest)]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        return self.partial(groups, states)

    def results(self, states: Sequence[Array]) -> Array:
        return states[0]

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        there = valid(states[0]).tolist()
        return [
            (value,) if held else ()
            for value, held in zip(decode(self.inputs[0], states[0]), there, strict=True)
        ]


def best_rows(groups: Groups, column: Array, *, highest: bool) -> NDArray[np.int64]:
    """The first row with the lowest or highest value of each group; -1 where no row has a value."""
    rows = None
    if column.null_count:
        rows = np.flatnonzero(valid(column))
        groups, column = groups.where(rows), column.drop_null()
    keys = order_keys(column)
    if highest:
        keys = ~keys
    lowest = np.full(groups.count, np.iinfo(np.int64).max)
    np.minimum.at(lowest, groups.ids, keys)
    best = np.empty(len(groups), dtype=np.bool_)
    for block, ids in groups.blocks():
        np.equal(keys[block], lowest[ids], out=best[block])
    having = np.flatnonzero(best)
    firsts = groups.where(having).first_rows
    # An index of -1 takes the last row, and is put back.
    found = having[firsts] if len(having) else firsts
    found = found if rows is None or not len(rows) else rows[found]
    return np.where(firsts < 0, -1, found)


def _best(groups: Groups, column: Array, *, highest: bool) -> Array:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_float64(kind) or pa.types.is_temporal(kind)):
        return take(column, best_rows(groups, column, highest=highest))
    groups, column = present(groups, column)
    values = numbers(column)
    best = _best_floats if values.dtype == np.float64 else _best_ints
    found = pa.array(best(groups, values, highest=highest), mask=groups.sizes == 0)
    # Times are compared as the ints that they are stored as.
    return found.view(kind)


def _best_ints(groups: Groups, values: NDArray[Any], *, highest: bool) -> NDArray[Any]:
    limits = np.iinfo(values.dtype)
    found = np.full(groups.count, limits.min if highest else limits.max, dtype=values.dtype)
    (np.maximum if highest else np.minimum).at(found, groups.ids, values)
    return found


def _best_floats(groups: Groups, values: NDArray[np.float64], *, highest: bool) -> NDArray[np.float64]:
    found = np.full(groups.count, -np.inf if highest else np.inf)
    if highest:
        with np.errstate(invalid="ignore"):
            np.maximum.at(found, groups.ids, values)  # a NaN stays, once it is there
    else:
        numbered = ~np.isnan(values)
        if not numbered.all():
            # A NaN is the lowest only where nothing else is.
            others, values = groups.where(numbered), values[numbered]
            found[(others.sizes == 0) & (groups.sizes > 0)] = np.nan
            groups = others
        np.minimum.at(found, groups.ids, values)
    zero = found == 0.0
    if zero.any():
        # Both zeros are equal, and of equals the first stays.
        rows = np.flatnonzero((values == 0.0) & zero[groups.ids])
        firsts = groups.where(rows).first_rows
        found[zero] = values[rows[firsts[zero]]]
    return found
