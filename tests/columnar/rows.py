"""Rows of tests as columns, and the aggregates that are compared on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from tests.aggregates.naive import Row, one_nan
from windrow import aggregates as agg
from windrow.aggregates import DeclaredAggregate
from windrow.aggregates.distinct import CollectSet
from windrow.errors import AggregateOverflowError
from windrow_spark.columnar.kernels.choice import kernel_for
from windrow_spark.columnar.kernels.kernel import Kernel
from windrow_spark.columnar.rows.groups import Groups

# Any in this module: pyarrow ships no types, and aggregates are of every type.

ORDERED = ("min_by", "max_by", "top_k", "first", "last", "collect_list")
"""Aggregates whose result depends on the order of elements."""
_PLAIN = (
    *("count", "sum", "mean", "min", "max", "first", "last", "collect_list", "collect_set", "count_distinct"),
    *("variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop", "approx_count_distinct"),
)
OF_ONE: dict[str, Callable[[Any], DeclaredAggregate[Any, Any, Any]]] = {
    **{name: getattr(agg, name) for name in _PLAIN},
    "min_by": lambda of: agg.min_by(of, of),
    "max_by": lambda of: agg.max_by(of, of),
    "top_k": lambda of: agg.top_k(2, of, of),
    "approx_quantile": lambda of: agg.approx_quantile(of, 0.5),
    "approx_quantiles": lambda of: agg.approx_quantiles(of, [0.1, 0.9]),
}
"""All aggregates, each of what one selector gives."""

TYPES = {"key": pa.string(), "at": pa.int64(), "f": pa.float64(), "i": pa.int64(), "s": pa.string()}
ELEMENT = pa.struct(list(TYPES.items()))


def input_types(selector: Any) -> Any:
    """The type of what a selector of rows takes: the first field that it gives of a row of field names."""
    return ELEMENT if selector is None else TYPES.get(str(selector(Row(*TYPES))))  # type: ignore[arg-type]  # names for values


def kernel_of(aggregate: DeclaredAggregate[Any, Any, Any]) -> Kernel:
    return kernel_for(aggregate, input_types)


def groups_of(ids: Sequence[int], count: int) -> Groups:
    return Groups(np.array(ids, dtype=np.int64), count)


def column(values: Sequence[Any], kind: Any) -> Any:
    """An array that is a slice of a longer one, as columns of batches often are."""
    padding = [None] * 3
    return pa.array([*padding, *values, *padding], type=kind).slice(3, len(values))


def states_of(
    kernel: Kernel, rows: Sequence[Any], ids: Sequence[int], count: int, numbers: Sequence[int] = ()
) -> list[Any]:
    """The states of rows of the groups ``ids``, which arrived by ``numbers`` where the kernel asks for them."""
    columns = [
        column([vars(row) for row in rows], ELEMENT)
        if selector is None
        else column([selector(row) for row in rows], input_types(selector))
        for selector in kernel.inputs
    ]
    if kernel.is_numbered:
        columns.append(column(numbers, pa.int64()))
    return kernel.partial(groups_of(ids, count), columns)


def decode(array: Any) -> list[Any]:
    """The values as selectors give them: rows as rows."""
    return list(map(rebuilt, array.to_pylist()))


def rebuilt_as(aggregate: DeclaredAggregate[Any, Any, Any], result: Any) -> Any:
    """A result of an aggregate from a column, in which a set is a list."""
    found = rebuilt(result)
    return frozenset(map(one_nan, found)) if isinstance(aggregate, CollectSet) else found


def rebuilt(result: Any) -> Any:
    """A result from a column, in which a row is a dict."""
    if isinstance(result, dict) and result.keys() == TYPES.keys():
        return Row(**result)
    if isinstance(result, dict):
        return tuple(map(rebuilt, result.values()))
    return list(map(rebuilt, result)) if isinstance(result, list) else result


def folded(aggregate: DeclaredAggregate[Any, Any, Any], elements: Sequence[Any], held: Any = None) -> Any:
    """The accumulator of some elements, after others."""
    held = aggregate.create_accumulator() if held is None else held
    for element in elements:
        held = aggregate.add(element, held)
    return held


def kernel_of_numbers(aggregate: DeclaredAggregate[Any, Any, Any], kind: Any) -> Kernel:
    """The kernel of an aggregate whose selectors all give values of a type."""
    return kernel_for(aggregate, lambda _: kind)


def merged(aggregate: DeclaredAggregate[Any, Any, Any], accumulators: Sequence[Any]) -> Any:
    """Accumulators as one, in their order."""
    return reduce(aggregate.merge, accumulators)


def merged_states(kernel: Kernel, states: Sequence[Sequence[Any]], count: int) -> list[Any]:
    """The states of pieces, each with all groups, as those of one piece."""
    # Slices of longer arrays, as states of a page are.
    stacked = [pa.concat_arrays([parts[0].slice(0, 1), *parts]).slice(1) for parts in zip(*states, strict=True)]
    return kernel.merge(groups_of(list(range(count)) * len(states), count), stacked)


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call gives, or the error that it raises."""
    try:
        return call(*arguments)
    except AggregateOverflowError as error:
        return str(error)
