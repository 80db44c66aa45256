"""The kernels of first, last and collect_list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa

from windrow.aggregates.arrival import CollectList, Edge
from windrow_runtime.columnar.array_types import Array, ArrowType, Ints
from windrow_runtime.columnar.kernels.arrays import (
    by_number,
    dense_codes,
    list_type,
    lists,
    numbers,
    present_rows,
    rows_of_items,
    take,
)
from windrow_runtime.columnar.kernels.kernel import Kernel
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["CollectListKernel", "EdgeKernel"]

# Any: accumulators of every type, as in Kernel.


@final
class EdgeKernel(Kernel):
    """``first`` and ``last``; the state is whether there is a value, the value, which may be null, maybe its number."""

    number_type = pa.int64()
    _result_state = 1

    def __init__(self, aggregate: Edge[Any, Any], kind: ArrowType) -> None:
        self.inputs = (aggregate.selector,)
        self.state_types = (pa.bool_(), kind)
        self.result_type = kind
        self._aggregate = aggregate

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        return self._edges(
            groups, columns, present_rows(columns[0]) if self._aggregate.ignore_nulls else None
        )

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        held = numbers(states[0])
        rows = None if held.all() else np.flatnonzero(held)
        if self.is_numbered:
            rows = by_number(states[-1], rows)
        return self._edges(groups, states[1:], rows)

    def _edges(self, groups: Groups, columns: Sequence[Array], rows: Ints | None) -> list[Array]:
        """The states of some rows in their order, or of all (None)."""
        if rows is not None:
            groups = groups.where(rows)
        found = groups.last_rows if self._aggregate.newest else groups.first_rows
        there = found >= 0
        if rows is not None and len(rows):
            found = np.where(there, rows[found], -1)
        return [pa.array(there), *[take(column, found) for column in columns]]

    def accumulator(self, *state: Any) -> tuple[Any, ...]:
        held, value, *_ = state
        return (value,) if held else ()


@final
class CollectListKernel(Kernel):
    """``collect_list``; the state is the list, and maybe that of the items' numbers."""

    number_type = list_type(pa.int64())

    def __init__(self, aggregate: CollectList[Any, Any], kind: ArrowType) -> None:
        self.inputs = (aggregate.selector,)
        self.state_types = (list_type(kind),)
        self.result_type = list_type(kind)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        rows = present_rows(columns[0])
        if rows is not None:
            groups = groups.where(rows)
        order = pa.array(groups.order if rows is None else rows[groups.order])
        return [lists(column.take(order), groups.sizes) for column in columns]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        items = rows_of_items(groups, states[0])
        if not self.is_numbered:
            return [lists(states[0].take(pa.array(groups.order)).flatten(), items.sizes)]
        values, places = (state.flatten() for state in states)
        order = pa.array(items.ordered_by(*dense_codes(places.to_numpy())))
        return [lists(column.take(order), items.sizes) for column in (values, places)]

    def accumulator(self, *state: list[Any]) -> list[Any]:
        return state[0]
