"""The kernels of min_by, max_by and top_k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.aggregates.order import ExtremeBy, TopK
from windrow_runtime.columnar.kernels.arrays import (
    by_number,
    dense_codes,
    list_type,
    order_keys,
    take,
    valid,
)
from windrow_runtime.columnar.kernels.extremes import best_rows
from windrow_runtime.columnar.kernels.kernel import Array, ArrowType, Decode, Kernel, plain_values
from windrow_runtime.columnar.kernels.lists import lists, rows_of_items, split
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["ExtremeByKernel", "TopKKernel"]

# Any: accumulators of every type, as in Kernel.


@final
class ExtremeByKernel(Kernel):
    """``min_by`` and ``max_by``; the state is what was compared, null for nothing, and the value; maybe its number.

    Args:
        aggregate: The aggregate.
        rank: The type of what is compared.
        kind: The type of the values.
        is_numbered: Whether states hold numbers.
    """

    def __init__(
        self,
        aggregate: ExtremeBy[Any, Any],
        rank: ArrowType,
        kind: ArrowType,
        *,
        is_numbered: bool = False,
    ) -> None:
        self.ordered, self.is_numbered = not is_numbered, is_numbered
        self.inputs = (aggregate.by, aggregate.selector)
        self.state_types = (rank, kind, *[pa.int64()] * is_numbered)
        self.result_type = kind
        self._aggregate = aggregate

    def numbered(self) -> ExtremeByKernel:
        rank, kind, *_ = self.state_types
        return ExtremeByKernel(self._aggregate, rank, kind, is_numbered=True)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        rows = best_rows(groups, columns[0], highest=self._aggregate.highest)
        return [take(column, rows) for column in columns]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        if not self.is_numbered:
            return self.partial(groups, states)
        rows = by_number(states[-1], np.flatnonzero(valid(states[-1])))
        return self.partial(groups.where(rows), [state.take(pa.array(rows)) for state in states])

    def results(self, states: Sequence[Array]) -> Array:
        return states[1]

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        pairs = zip(*map(decode, self.inputs, states), strict=True)
        return [pair if held else () for held, pair in zip(valid(states[0]).tolist(), pairs, strict=True)]


@final
class TopKKernel(Kernel):
    """``top_k``; the state is the list of what was compared, highest first, that of the values, maybe of numbers."""

    def __init__(
        self, aggregate: TopK[Any, Any], rank: ArrowType, kind: ArrowType, *, is_numbered: bool = False
    ) -> None:
        self.ordered, self.is_numbered = not is_numbered, is_numbered
        self.inputs = (aggregate.by, aggregate.selector)
        self.state_types = (list_type(rank), list_type(kind), *[list_type(pa.int64())] * is_numbered)
        self.result_type = list_type(kind)
        self._aggregate, self._rank, self._kind = aggregate, rank, kind

    def numbered(self) -> TopKKernel:
        return TopKKernel(self._aggregate, self._rank, self._kind, is_numbered=True)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        ranks, *others = columns
        there = None
        if ranks.null_count:
            there = np.flatnonzero(valid(ranks))
            groups, ranks = groups.where(there), ranks.drop_null()
        rows, lengths = _top(groups, ranks, self._aggregate.k)
        places = pa.array(rows if there is None else there[rows])
        found = [ranks.take(pa.array(rows)), *[column.take(places) for column in others]]
        return [lists(items, lengths) for items in found]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        items, columns = rows_of_items(groups, states[0]), [state.flatten() for state in states]
        if self.is_numbered:
            rows = by_number(columns[-1])
            items, columns = items.where(rows), [column.take(pa.array(rows)) for column in columns]
        return self.partial(items, columns)

    def results(self, states: Sequence[Array]) -> Array:
        return states[1]

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        columns = (
            split(decode(selector, state.flatten()), state)
            for selector, state in zip(self.inputs, states[:2], strict=True)
        )
        return list(zip(*columns, strict=True))


def _top(groups: Groups, ranks: Array, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of the highest of each group, highest first, of equals the earliest; and how many each group has."""
    rows = groups.ordered_by(*dense_codes(~order_keys(ranks)))
    places = np.arange(len(rows)) - np.repeat(groups.starts, groups.sizes)
    return rows[places < k], np.minimum(groups.sizes, k)
