"""Chooses the kernel of an aggregate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa

from windrow.aggregates import DeclaredAggregate, Opaque, recognise
from windrow.aggregates.arithmetic import Count, Mean, Spread, Sum
from windrow.aggregates.arrival import CollectList, Edge
from windrow.aggregates.combined import Combined
from windrow.aggregates.distinct import CountDistinct
from windrow.aggregates.order import Extreme, ExtremeBy, TopK
from windrow.aggregates.sketches import ApproxCountDistinct, ApproxQuantiles
from windrow.functions.aggregate import AggregateFunction
from windrow_runtime.columnar.kernels import kept_values, totals
from windrow_runtime.columnar.kernels.kernel import CombinedKernel, Kernel, Selector
from windrow_runtime.operators.errors import DeclinedError

# Any in this module: aggregates of elements and results of every type.

InputTypes: TypeAlias = Callable[[Selector | None], pa.DataType | None]
"""The type of the column of what a selector takes, or of the element itself (None); None: there is no such column.

A column must hold what compares in Python as it does in Arrow: enums and UUIDs, which are stored as texts, do not.
"""

# Any: each class takes the aggregate that it stands beside.
_KERNELS: Final[dict[type, tuple[Any, ...]]] = {
    Count: (totals.CountKernel,),
    Sum: (totals.DecimalTotalKernel, totals.SpanTotalKernel, totals.FloatTotalKernel, totals.IntTotalKernel),
    Mean: (totals.FloatTotalKernel, totals.IntTotalKernel),
    Spread: (totals.SpreadKernel,),
    Extreme: (kept_values.ExtremeKernel,),
    ExtremeBy: (kept_values.ExtremeByKernel,),
    TopK: (kept_values.TopKKernel,),
    Edge: (kept_values.EdgeKernel,),
    CollectList: (kept_values.CollectListKernel,),
    CountDistinct: (kept_values.CountDistinctKernel,),
    ApproxCountDistinct: (kept_values.ApproxCountDistinctKernel,),
    ApproxQuantiles: (kept_values.ApproxQuantilesKernel,),
}
"""The kernels of each aggregate: the first that accepts the type of the first input computes it."""


def kernel_for(aggregate: AggregateFunction[Any, Any, Any], input_types: InputTypes) -> Kernel:
    """The kernel of an aggregate whose inputs have these types; declined where there is none, as a "sum of texts"."""
    if isinstance(aggregate, Combined):
        return CombinedKernel([(name, kernel_for(member, input_types)) for name, member in aggregate.members])
    if not isinstance(aggregate, DeclaredAggregate):
        raise DeclinedError(f"{aggregate.describe()} is an aggregate function of yours")
    name = aggregate.declaration.kind
    if type(aggregate) not in _KERNELS:
        raise DeclinedError(f"{name} has no kernel")
    kernels = _KERNELS[type(aggregate)]
    types: list[pa.DataType] = []
    selectors = _selectors(aggregate)
    for selector in selectors:
        types.append(_type_of(name, selector, input_types))
        kernels = tuple(kernel for kernel in kernels if kernel.accepts(types[0]))
        if not kernels:
            raise DeclinedError(f"{name} of {plural(types[0])}")
    kernel: Kernel = kernels[0](aggregate, *types)
    kernel.inputs = selectors
    return kernel


def _selectors(aggregate: DeclaredAggregate[Any, Any, Any]) -> tuple[Selector | None, ...]:
    """The selectors of an aggregate, first the one that the kernel has to understand; None is the element itself."""
    match aggregate:
        case Count(selector=None):
            return ()
        case ExtremeBy(selector=selector, by=by) | TopK(selector=selector, by=by):
            return by, selector
    # Any: each aggregate that has a kernel has one.
    declared: Any = aggregate
    return (declared.selector,)


def _type_of(name: str, selector: Selector | None, input_types: InputTypes) -> pa.DataType:
    kind = input_types(selector)
    if kind is not None:
        return kind
    if selector is None:
        raise DeclinedError(f"{name} takes the element, which is no column")
    found = recognise(selector)
    reason = found.reason if isinstance(found, Opaque) else f"takes {found}, which is no column"
    raise DeclinedError(f"the selector of {name} {reason}")


def plural(kind: pa.DataType) -> str:
    """Returns the name of the values of a type."""
    names = (
        (pa.types.is_null, "nothing but None"),
        (pa.types.is_decimal, "decimals"),
        (pa.types.is_duration, "time spans"),
        (pa.types.is_temporal, "times"),
        (pa.types.is_string, "texts"),
        (pa.types.is_large_string, "texts"),
        (pa.types.is_binary, "bytes"),
        (pa.types.is_struct, "records"),
        (pa.types.is_map, "dicts"),
        (pa.types.is_list, "lists"),
    )
    return next((name for has_type, name in names if has_type(kind)), f"{kind} values")
