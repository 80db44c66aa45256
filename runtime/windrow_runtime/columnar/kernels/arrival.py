"""The kernels of first, last and collect_list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from typing_extensions import final

from windrow.aggregates.arrival import Edge
from windrow_runtime.columnar.groups import Groups
from windrow_runtime.columnar.kernels.arrays import list_type, numbers, present, take, valid
from windrow_runtime.columnar.kernels.kernel import (
    Array,
    ArrowType,
    Decode,
    Kernel,
    Selector,
    plain_values,
)
from windrow_runtime.columnar.kernels.lists import lengths_of, lists, split

__all__ = ["CollectListKernel", "EdgeKernel"]

# Any: accumulators of every type, as in Kernel.


@final
class EdgeKernel(Kernel):
    """``first`` and ``last``; the state is whether there is a value, and the value, which may be null."""

    ordered = True

    def __init__(self, aggregate: Edge[Any, Any], kind: ArrowType) -> None:
        self.inputs = (aggregate.selector,)
        self.state_types = (pa.bool_(), kind)
        self.result_type = kind
        self._aggregate = aggregate

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        column = columns[0]
        if self._aggregate.ignore_nulls and column.null_count:
            return self._edges(groups, column, np.flatnonzero(valid(column)))
        return self._edges(groups, column, None)

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        held = numbers(states[0])
        return self._edges(groups, states[1], None if held.all() else np.flatnonzero(held))

    def _edges(self, groups: Groups, column: Array, rows: Any) -> list[Array]:
        """The states of some rows, or of all (None)."""
        if rows is not None:
            groups = groups.where(rows)
        found = groups.last_rows if self._aggregate.newest else groups.first_rows
        there = found >= 0
        if rows is not None and len(rows):
            found = np.where(there, rows[found], -1)
        return [pa.array(there), take(column, found)]

    def results(self, states: Sequence[Array]) -> Array:
        return states[1]

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        values = decode(self.inputs[0], states[1])
        return [(value,) if held else () for held, value in zip(states[0].to_pylist(), values, strict=True)]


@final
class CollectListKernel(Kernel):
    """``collect_list``; the state is the list."""

    ordered = True

    def __init__(self, selector: Selector | None, kind: ArrowType) -> None:
        self.inputs = (selector,)
        self.state_types = (list_type(kind),)
        self.result_type = list_type(kind)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        return [lists(column.take(pa.array(groups.order)), groups.sizes)]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        lengths = groups.int_totals(lengths_of(states[0]))
        return [lists(states[0].take(pa.array(groups.order)).flatten(), lengths)]

    def results(self, states: Sequence[Array]) -> Array:
        return states[0]

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        return split(decode(self.inputs[0], states[0].flatten()), states[0])
