"""The kernels of min_by, max_by and top_k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from typing_extensions import final

from windrow.aggregates.order import ExtremeBy, TopK
from windrow_runtime.columnar.groups import Groups
from windrow_runtime.columnar.kernels.arrays import dense_codes, list_type, order_keys, take, valid
from windrow_runtime.columnar.kernels.extremes import best_rows
from windrow_runtime.columnar.kernels.kernel import Array, ArrowType, Decode, Kernel, plain_values
from windrow_runtime.columnar.kernels.lists import lists, rows_of_items, split

__all__ = ["ExtremeByKernel", "TopKKernel"]

# Any: accumulators of every type, as in Kernel.


@final
class ExtremeByKernel(Kernel):
    """``min_by`` and ``max_by``; the state is what was compared, null for nothing, and the value.

    Args:
        aggregate: The aggregate.
        rank: The type of what is compared.
        kind: The type of the values.
    """

    ordered = True

    def __init__(self, aggregate: ExtremeBy[Any, Any], rank: ArrowType, kind: ArrowType) -> None:
        self.inputs = (aggregate.by, aggregate.selector)
        self.state_types = (rank, kind)
        self.result_type = kind
        self._highest = aggregate.highest

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        rows = best_rows(groups, columns[0], highest=self._highest)
        return [take(column, rows) for column in columns]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        return self.partial(groups, states)

    def results(self, states: Sequence[Array]) -> Array:
        return states[1]

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        pairs = zip(*map(decode, self.inputs, states), strict=True)
        return [pair if held else () for held, pair in zip(valid(states[0]).tolist(), pairs, strict=True)]


@final
class TopKKernel(Kernel):
    """``top_k``; the state is the list of what was compared, highest first, and the list of the values."""

    ordered = True

    def __init__(self, aggregate: TopK[Any, Any], rank: ArrowType, kind: ArrowType) -> None:
        self.inputs = (aggregate.by, aggregate.selector)
        self.state_types = (list_type(rank), list_type(kind))
        self.result_type = list_type(kind)
        self._k = aggregate.k

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        ranks, values = columns
        there = None
        if ranks.null_count:
            there = np.flatnonzero(valid(ranks))
            groups, ranks = groups.where(there), ranks.drop_null()
        rows, lengths = _top(groups, ranks, self._k)
        taken = values.take(pa.array(rows if there is None else there[rows]))
        return [lists(ranks.take(pa.array(rows)), lengths), lists(taken, lengths)]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        return self.partial(rows_of_items(groups, states[0]), [state.flatten() for state in states])

    def results(self, states: Sequence[Array]) -> Array:
        return states[1]

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        columns = (
            split(decode(selector, state.flatten()), state)
            for selector, state in zip(self.inputs, states, strict=True)
        )
        return list(zip(*columns, strict=True))


def _top(groups: Groups, ranks: Array, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of the highest of each group, highest first, of equals the earliest; and how many each group has."""
    rows = groups.ordered_by(*dense_codes(~order_keys(ranks)))
    places = np.arange(len(rows)) - np.repeat(groups.starts, groups.sizes)
    return rows[places < k], np.minimum(groups.sizes, k)
