"""Rows of tests as columns, and the aggregates that are compared on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tests.aggregates.naive import Row, one_nan
from windrow.aggregates import DeclaredAggregate
from windrow.aggregates.distinct import CollectSet
from windrow_spark.columnar.kernels.choice import kernel_for
from windrow_spark.columnar.kernels.kernel import Kernel
from windrow_spark.columnar.rows.groups import Groups

__all__ = ["TYPES", "column", "decode", "folded", "groups_of", "input_types", "kernel_of", "rebuilt_as", "states_of"]

# Any in this module: pyarrow ships no types, and aggregates are of every type.

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
