"""The kernels of first, last and collect_list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa

from windrow.aggregates.arrival import Edge
from windrow_runtime.columnar.kernels.arrays import by_number, dense_codes, list_type, numbers, take, valid
from windrow_runtime.columnar.kernels.kernel import (
    Array,
    ArrowType,
    Decode,
    Kernel,
    Selector,
    plain_values,
)
from windrow_runtime.columnar.kernels.lists import lists, rows_of_items, split
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["CollectListKernel", "EdgeKernel"]

# Any: accumulators of every type, as in Kernel.


@final
class EdgeKernel(Kernel):
    """``first`` and ``last``; the state is whether there is a value, the value, which may be null, maybe its number."""

    def __init__(self, aggregate: Edge[Any, Any], kind: ArrowType, *, is_numbered: bool = False) -> None:
        self.ordered, self.is_numbered = not is_numbered, is_numbered
        self.inputs = (aggregate.selector,)
        self.state_types = (pa.bool_(), kind, *[pa.int64()] * is_numbered)
        self.result_type = kind
        self._aggregate = aggregate

    def numbered(self) -> EdgeKernel:
        return EdgeKernel(self._aggregate, self.result_type, is_numbered=True)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        if self._aggregate.ignore_nulls and columns[0].null_count:
            return self._edges(groups, columns, np.flatnonzero(valid(columns[0])))
        return self._edges(groups, columns, None)

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        held = numbers(states[0])
        rows = None if held.all() else np.flatnonzero(held)
        if self.is_numbered:
            rows = by_number(states[-1], rows)
        return self._edges(groups, states[1:], rows)

    def _edges(self, groups: Groups, columns: Sequence[Array], rows: Any) -> list[Array]:
        """The states of some rows in their order, or of all (None)."""
        if rows is not None:
            groups = groups.where(rows)
        found = groups.last_rows if self._aggregate.newest else groups.first_rows
        there = found >= 0
        if rows is not None and len(rows):
            found = np.where(there, rows[found], -1)
        return [pa.array(there), *[take(column, found) for column in columns]]

    def results(self, states: Sequence[Array]) -> Array:
        return states[1]

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        values = decode(self.inputs[0], states[1])
        return [(value,) if held else () for held, value in zip(states[0].to_pylist(), values, strict=True)]


@final
class CollectListKernel(Kernel):
    """``collect_list``; the state is the list, and maybe that of the items' numbers."""

    def __init__(self, selector: Selector | None, kind: ArrowType, *, is_numbered: bool = False) -> None:
        self.ordered, self.is_numbered = not is_numbered, is_numbered
        self.inputs = (selector,)
        self.state_types = (list_type(kind), *[list_type(pa.int64())] * is_numbered)
        self.result_type = list_type(kind)
        self._kind = kind

    def numbered(self) -> CollectListKernel:
        return CollectListKernel(self.inputs[0], self._kind, is_numbered=True)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        if columns[0].null_count:
            rows = np.flatnonzero(valid(columns[0]))
            groups = groups.where(rows)
            order = pa.array(rows[groups.order])
        else:
            order = pa.array(groups.order)
        return [lists(column.take(order), groups.sizes) for column in columns]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        items = rows_of_items(groups, states[0])
        if not self.is_numbered:
            return [lists(states[0].take(pa.array(groups.order)).flatten(), items.sizes)]
        values, places = (state.flatten() for state in states)
        order = pa.array(items.ordered_by(*dense_codes(places.to_numpy())))
        return [lists(column.take(order), items.sizes) for column in (values, places)]

    def results(self, states: Sequence[Array]) -> Array:
        return states[0]

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        return split(decode(self.inputs[0], states[0].flatten()), states[0])
