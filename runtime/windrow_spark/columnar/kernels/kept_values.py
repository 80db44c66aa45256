"""Defines the kernels of aggregates that keep some values, the distinct values, or a sketch of the values.

Sketches are made group by group in Python, from arrays; the state is the bytes of the sketch, empty without values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from windrow.aggregates.arrival import CollectList, Edge
from windrow.aggregates.distinct import CollectSet, CountDistinct
from windrow.aggregates.order import TopK
from windrow.aggregates.sketches import ApproxQuantiles, HllSketch, KllSketch, hashed
from windrow_spark.columnar import Floats, Ints
from windrow_spark.columnar.kernels.arrays import (
    by_number,
    dense_codes,
    has_order,
    is_number,
    lengths_of,
    list_type,
    lists,
    numbers,
    order_keys,
    present,
    present_rows,
    rows_of_items,
    take,
    value_codes,
)
from windrow_spark.columnar.kernels.kernel import Kernel
from windrow_spark.columnar.rows.columns import python_values
from windrow_spark.columnar.rows.groups import Groups

# Any: numbers of several types; accumulators as in Kernel.

_TIMES: Final = (pa.timestamp("us", tz="UTC"), pa.date32(), pa.duration("us"))
"""The types of columns of datetimes, dates and time spans."""


class _KeptKernel(Kernel):
    """The base of kernels whose results are values that they kept: the last column of the state has their type."""

    def __init__(self, aggregate: Any, *types: pa.DataType) -> None:
        super().__init__(aggregate)
        self.state_types = types
        self.result_type = types[-1]


class ExtremeKernel(_KeptKernel):
    """``min`` and ``max`` of values that have an order; the state is the value, or null without values."""

    accepts = staticmethod(has_order)

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        (column,), kind = columns, self.result_type
        if not (pa.types.is_integer(kind) or pa.types.is_float64(kind) or pa.types.is_temporal(kind)):
            return [take(column, _best_rows(groups, column, highest=self._aggregate.highest))]
        groups, column = present(groups, column)
        values = numbers(column)
        if values.dtype == np.float64:
            best = _best_floats(groups, values, highest=self._aggregate.highest)
        else:
            limits = np.iinfo(values.dtype)
            best = np.full(groups.count, limits.min if self._aggregate.highest else limits.max, dtype=values.dtype)
            (np.maximum if self._aggregate.highest else np.minimum).at(best, groups.ids, values)
        # Times were compared as the ints that Arrow stores.
        return [pa.array(best, mask=groups.sizes == 0).view(kind)]

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        return self.partial(groups, states)

    def accumulator(self, *state: Any) -> tuple[Any, ...]:
        return () if state[0] is None else state[:2]


@final
class ExtremeByKernel(ExtremeKernel):
    """``min_by`` and ``max_by``; the state is the compared value, null for none, the result, its arrival number."""

    number_type = pa.int64()
    _result_state = 1

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        rows = _best_rows(groups, columns[0], highest=self._aggregate.highest)
        return [take(column, rows) for column in columns]

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        if not self.is_numbered:
            return self.partial(groups, states)
        rows = by_number(states[-1], present_rows(states[-1]))
        return self.partial(groups.where(rows), [state.take(pa.array(rows)) for state in states])


@final
class TopKKernel(_KeptKernel):
    """``top_k``; the state is the list of compared values, highest first, that of results, that of arrival numbers."""

    accepts = staticmethod(has_order)
    number_type = list_type(pa.int64())
    _result_state = 1

    def __init__(self, aggregate: TopK[Any, Any], rank: pa.DataType, arrow_type: pa.DataType) -> None:
        super().__init__(aggregate, list_type(rank), list_type(arrow_type))
        self._k = aggregate.k

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        present_numbers = present_rows(columns[0])
        groups, ranks = present(groups, columns[0])
        # Rows are sorted by rank, the best first; of equals the earliest.
        keys = order_keys(ranks)
        codes, bound = dense_codes(keys if self._aggregate.reverse else ~keys)
        rows = groups.ordered_by(codes, bound)
        stays = np.arange(len(rows)) - np.repeat(groups.starts, groups.sizes) < self._k
        sizes = np.minimum(groups.sizes, self._k)
        if self._aggregate.with_ties and len(rows):
            ordered = codes[rows]
            # The rank of each group's k-th row, with which others may tie. An empty group has none, and no rows.
            lasts = ordered[np.minimum(groups.starts + np.maximum(sizes, 1) - 1, len(rows) - 1)]
            stays |= ordered == np.repeat(lasts, groups.sizes)
            sizes = np.bincount(groups.ids[rows[stays]], minlength=groups.count)
        rows = rows[stays]
        row_numbers = pa.array(rows if present_numbers is None else present_numbers[rows])
        return [lists(column.take(row_numbers), sizes) for column in columns]

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        items, columns = rows_of_items(groups, states[0]), [state.flatten() for state in states]
        if self.is_numbered:
            rows = by_number(columns[-1])
            items, columns = items.where(rows), [column.take(pa.array(rows)) for column in columns]
        return self.partial(items, columns)


def _best_rows(groups: Groups, column: pa.Array, *, highest: bool) -> Ints:
    """Returns the first row with each group's lowest or highest value; -1 if all values of the group are null."""
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
    best_rows = np.flatnonzero(best)
    firsts = groups.where(best_rows).first_rows
    # Groups without a row, whose index is -1, take the last row here, and get -1 again below.
    row_numbers = best_rows[firsts] if len(best_rows) else firsts
    row_numbers = row_numbers if rows is None or not len(rows) else rows[row_numbers]
    return np.where(firsts < 0, -1, row_numbers)


def _best_floats(groups: Groups, values: Floats, *, highest: bool) -> Floats:
    best = np.full(groups.count, -np.inf if highest else np.inf)
    if highest:
        with np.errstate(invalid="ignore"):
            np.maximum.at(best, groups.ids, values)  # a NaN stays, once it is there
    else:
        numbered = ~np.isnan(values)
        if not numbered.all():
            # A NaN is the lowest only in a group that has nothing else.
            others, values = groups.where(numbered), values[numbered]
            best[(others.sizes == 0) & (groups.sizes > 0)] = np.nan
            groups = others
        np.minimum.at(best, groups.ids, values)
    zero = best == 0.0
    if zero.any():
        # Both zeros are equal, and of equals the first stays.
        rows = np.flatnonzero((values == 0.0) & zero[groups.ids])
        firsts = groups.where(rows).first_rows
        best[zero] = values[rows[firsts[zero]]]
    return best


@final
class EdgeKernel(_KeptKernel):
    """``first`` and ``last``; the state is whether there is a value, the value (it may be null), its arrival number."""

    number_type = pa.int64()
    _result_state = 1

    def __init__(self, aggregate: Edge[Any, Any], arrow_type: pa.DataType) -> None:
        super().__init__(aggregate, pa.bool_(), arrow_type)

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return self._edges(groups, columns, present_rows(columns[0]) if self._aggregate.ignore_nulls else None)

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        has_value = numbers(states[0])
        rows = None if has_value.all() else np.flatnonzero(has_value)
        if self.is_numbered:
            rows = by_number(states[-1], rows)
        return self._edges(groups, states[1:], rows)

    def _edges(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints | None) -> list[pa.Array]:
        """Returns the states of some rows, in the order given, or of all (None)."""
        if rows is not None:
            groups = groups.where(rows)
        edges = groups.last_rows if self._aggregate.newest else groups.first_rows
        has_edge = edges >= 0
        if rows is not None and len(rows):
            edges = np.where(has_edge, rows[edges], -1)
        return [pa.array(has_edge), *[take(column, edges) for column in columns]]

    def accumulator(self, *state: Any) -> tuple[Any, ...]:
        return state[1:2] if state[0] else ()


@final
class CollectListKernel(_KeptKernel):
    """``collect_list``; the state is the list, and that of the items' arrival numbers if states are numbered."""

    number_type = list_type(pa.int64())

    def __init__(self, aggregate: CollectList[Any, Any], arrow_type: pa.DataType) -> None:
        super().__init__(aggregate, list_type(arrow_type))

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        rows = present_rows(columns[0])
        if rows is not None:
            groups = groups.where(rows)
        order = pa.array(groups.order if rows is None else rows[groups.order])
        return [lists(column.take(order), groups.sizes) for column in columns]

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        items = rows_of_items(groups, states[0])
        if not self.is_numbered:
            return [lists(states[0].take(pa.array(groups.order)).flatten(), items.sizes)]
        values, arrivals = (state.flatten() for state in states)
        order = pa.array(items.ordered_by(*dense_codes(arrivals.to_numpy())))
        return [lists(column.take(order), items.sizes) for column in (values, arrivals)]


class _DistinctKernel(Kernel):
    """The base of kernels whose state is the list of distinct values, in which all NaNs are one."""

    accepts = staticmethod(has_order)

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        groups, column = present(groups, columns[0])
        rows, sizes = _distinct(groups, column)
        return [lists(column.take(pa.array(rows)), sizes)]

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        return self.partial(rows_of_items(groups, states[0]), [states[0].flatten()])

    def gives_none(self, inputs: Sequence[bool]) -> bool:
        return False

    def accumulator(self, *state: list[Any]) -> tuple[set[Any], bool]:
        # Only a NaN is not equal to itself.
        distinct = {value for value in state[0] if value == value}  # noqa: PLR0124
        return distinct, len(distinct) < len(state[0])


@final
class CountDistinctKernel(_DistinctKernel):
    """``count_distinct``; the result is how many values the state has."""

    result_type = pa.int64()

    def __init__(self, aggregate: CountDistinct[Any], arrow_type: pa.DataType) -> None:
        super().__init__(aggregate)
        self.state_types = (list_type(arrow_type),)

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        return pa.array(lengths_of(states[0]))


@final
class CollectSetKernel(_DistinctKernel):
    """``collect_set``; the result is the state, a list from which a frozenset is made later."""

    def __init__(self, aggregate: CollectSet[Any, Any], arrow_type: pa.DataType) -> None:
        super().__init__(aggregate)
        self.state_types = (list_type(arrow_type),)
        self.result_type = list_type(arrow_type)


def _distinct(groups: Groups, column: pa.Array) -> tuple[Ints, Ints]:
    """Returns a row for each distinct value of each group, maybe one of another group, and how many each group has."""
    codes, bound = value_codes(column)
    rows = np.empty(bound, dtype=np.int64)
    rows[codes] = np.arange(len(codes), dtype=np.int64)
    # Group and value are packed into one int64: there are fewer codes than 2 ** 32, and fewer groups than 2 ** 31.
    bits = bound.bit_length()
    words = (groups.ids << bits) | codes
    words.sort()
    if len(words):
        words = words[np.concatenate(([True], words[1:] != words[:-1]))]
    sizes = np.bincount(words >> bits, minlength=groups.count)
    return rows[words & ((1 << bits) - 1)], sizes


class _SketchKernel(Kernel):
    """The base of kernels whose state is a sketch, and for quantiles the number of NaNs, which are not in it."""

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        sketches = [b""] * groups.count
        for group, state in zip(groups.ids.tolist(), states[0].to_pylist(), strict=True):
            if state:
                # The only sketch of a group is kept unchanged.
                sketches[group] = self._union(sketches[group], state) if sketches[group] else state
        lacking = [pa.array(groups.int_totals(numbers(counts))) for counts in states[1:]]
        return [pa.array(sketches, type=pa.binary()), *lacking]

    @abstractmethod
    def _union(self, a: bytes, b: bytes) -> bytes:
        """Returns the union of two sketches."""

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        results = [self._aggregate.get_result(accumulator) for accumulator in self.accumulators(states)]
        return pa.array(results, type=self.result_type)


@final
class ApproxCountDistinctKernel(_SketchKernel):
    """``approx_count_distinct``; a group's sketch is updated once for each distinct value."""

    state_types = (pa.binary(),)
    result_type = pa.int64()

    @staticmethod
    def accepts(arrow_type: pa.DataType) -> bool:
        # A sketch hashes a time as the Python value, which a column of another unit, or without a zone, does not give.
        is_known = not pa.types.is_temporal(arrow_type) or arrow_type in _TIMES
        return has_order(arrow_type) and is_known and not pa.types.is_struct(arrow_type)

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        groups, column = present(groups, columns[0])
        rows, sizes = _distinct(groups, column)
        distinct_rows, hash_numbers = np.unique(rows, return_inverse=True)
        hashes = [hashed(value) for value in python_values(column.take(pa.array(distinct_rows)))]
        sketches: list[bytes] = []
        start = 0
        for size in sizes.tolist():
            sketch = HllSketch()
            for number in hash_numbers[start : start + size].tolist():
                sketch.update(hashes[number], self._aggregate.lg_k)
            sketches.append(sketch.to_bytes())
            start += size
        return [pa.array(sketches, type=pa.binary())]

    def gives_none(self, inputs: Sequence[bool]) -> bool:
        return False

    def _union(self, a: bytes, b: bytes) -> bytes:
        return HllSketch(a).union(HllSketch(b), self._aggregate.lg_k).to_bytes()

    def accumulator(self, *state: bytes) -> HllSketch:
        return HllSketch(state[0])


@final
class ApproxQuantilesKernel(_SketchKernel):
    """``approx_quantile`` and ``approx_quantiles``; the state is the sketch, and the number of NaNs."""

    accepts = staticmethod(is_number)
    state_types = (pa.binary(), pa.int64())

    def __init__(self, aggregate: ApproxQuantiles[Any, Any, Any], arrow_type: pa.DataType) -> None:
        super().__init__(aggregate, arrow_type)
        self.result_type = pa.float64() if aggregate.kind == "approx_quantile" else list_type(pa.float64())

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        groups, column = present(groups, columns[0])
        values = numbers(column).astype(np.float64, copy=False)
        missing = np.isnan(values)
        numbered = groups.where(~missing)
        ordered = values[~missing][numbered.order]
        sketches: list[bytes] = []
        for start, size in zip(numbered.starts.tolist(), numbered.sizes.tolist(), strict=True):
            sketch = KllSketch()
            if size:
                sketch.update_all(ordered[start : start + size], self._aggregate.k)
            sketches.append(sketch.to_bytes())
        not_numbers = groups.where(missing).sizes
        return [pa.array(sketches, type=pa.binary()), pa.array(not_numbers, type=pa.int64())]

    def _union(self, a: bytes, b: bytes) -> bytes:
        return KllSketch(a).union(KllSketch(b), self._aggregate.k).to_bytes()

    def accumulator(self, *state: Any) -> tuple[KllSketch, int]:
        return KllSketch(state[0]), state[1]
