"""The kernels of min, max, min_by, max_by, top_k, first, last and collect_list: they keep some of the values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.aggregates.arrival import CollectList, Edge
from windrow.aggregates.order import Extreme, ExtremeBy, TopK
from windrow_runtime.columnar.array_types import Array, ArrowType, Floats, Ints
from windrow_runtime.columnar.kernels.arrays import (
    by_number,
    dense_codes,
    has_order,
    list_type,
    lists,
    numbers,
    order_keys,
    present,
    present_rows,
    rows_of_items,
    take,
)
from windrow_runtime.columnar.kernels.kernel import Kernel
from windrow_runtime.columnar.rows.groups import Groups

# Any: numbers of several types; accumulators as in Kernel.


@final
class ExtremeKernel(Kernel):
    """``min`` and ``max`` of values that have an order; the state is the value, or null for nothing."""

    accepts = staticmethod(has_order)

    def __init__(self, aggregate: Extreme[Any, Any], kind: ArrowType) -> None:
        self.inputs = (aggregate.selector,)
        self.state_types = (kind,)
        self.result_type = kind
        self._highest = aggregate.highest

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        return [_best(groups, columns[0], highest=self._highest)]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        return self.partial(groups, states)

    def accumulator(self, *state: Any) -> tuple[Any, ...]:
        return () if state[0] is None else state


@final
class ExtremeByKernel(Kernel):
    """``min_by`` and ``max_by``; the state is what was compared, null for nothing, and the value; maybe its number."""

    accepts = staticmethod(has_order)
    number_type = pa.int64()
    _result_state = 1

    def __init__(self, aggregate: ExtremeBy[Any, Any], rank: ArrowType, kind: ArrowType) -> None:
        self.inputs = (aggregate.by, aggregate.selector)
        self.state_types = (rank, kind)
        self.result_type = kind
        self._highest = aggregate.highest

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        rows = _best_rows(groups, columns[0], highest=self._highest)
        return [take(column, rows) for column in columns]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        if not self.is_numbered:
            return self.partial(groups, states)
        rows = by_number(states[-1], present_rows(states[-1]))
        return self.partial(groups.where(rows), [state.take(pa.array(rows)) for state in states])

    def accumulator(self, *state: Any) -> tuple[Any, ...]:
        return () if state[0] is None else state[:2]


@final
class TopKKernel(Kernel):
    """``top_k``; the state is the list of what was compared, highest first, that of the values, maybe of numbers."""

    accepts = staticmethod(has_order)
    number_type = list_type(pa.int64())
    _result_state = 1

    def __init__(self, aggregate: TopK[Any, Any], rank: ArrowType, kind: ArrowType) -> None:
        self.inputs = (aggregate.by, aggregate.selector)
        self.state_types = (list_type(rank), list_type(kind))
        self.result_type = list_type(kind)
        self._k = aggregate.k

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        there = present_rows(columns[0])
        rows, lengths = _top(*present(groups, columns[0]), self._k)
        places = pa.array(rows if there is None else there[rows])
        return [lists(column.take(places), lengths) for column in columns]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        items, columns = rows_of_items(groups, states[0]), [state.flatten() for state in states]
        if self.is_numbered:
            rows = by_number(columns[-1])
            items, columns = items.where(rows), [column.take(pa.array(rows)) for column in columns]
        return self.partial(items, columns)

    def accumulator(self, *state: Any) -> tuple[Any, ...]:
        return state[:2]


def _top(groups: Groups, ranks: Array, k: int) -> tuple[Ints, Ints]:
    """The rows of the highest of each group, highest first, of equals the earliest; and how many each group has."""
    rows = groups.ordered_by(*dense_codes(~order_keys(ranks)))
    places = np.arange(len(rows)) - np.repeat(groups.starts, groups.sizes)
    return rows[places < k], np.minimum(groups.sizes, k)


def _best_rows(groups: Groups, column: Array, *, highest: bool) -> Ints:
    """The first row with the lowest or highest value of each group; -1 where no row has a value."""
    rows = present_rows(column)
    groups, column = present(groups, column)
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
        return take(column, _best_rows(groups, column, highest=highest))
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


def _best_floats(groups: Groups, values: Floats, *, highest: bool) -> Floats:
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
        return self._edges(groups, columns, present_rows(columns[0]) if self._aggregate.ignore_nulls else None)

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
