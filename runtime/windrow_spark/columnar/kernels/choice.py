"""Chooses the kernel of an aggregate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa

from windrow.aggregates import DeclaredAggregate, Opaque, recognise
from windrow.aggregates.arithmetic import Count, Mean, Spread, Sum
from windrow.aggregates.arrival import CollectList, Edge
from windrow.aggregates.combined import Combined
from windrow.aggregates.distinct import CollectSet, CountDistinct
from windrow.aggregates.order import Extreme, ExtremeBy, TopK
from windrow.aggregates.sketches import ApproxCountDistinct, ApproxQuantiles
from windrow.functions.aggregate import AggregateFunction
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.kernels import kept_values, totals
from windrow_spark.columnar.kernels.kernel import CombinedKernel, Kernel, Selector

# Any in this module: aggregates of elements and results of every type.

InputTypes: TypeAlias = Callable[[Selector | None], pa.DataType | None]
"""Returns the Arrow type of what a selector takes (None: of the element itself), or None if that is no column.

Values must compare in Arrow as they do in Python: enums and UUIDs, which are stored as texts, do not.
"""

# Any: the constructor of each kernel takes another class of aggregates.
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
    CollectSet: (kept_values.CollectSetKernel,),
    CountDistinct: (kept_values.CountDistinctKernel,),
    ApproxCountDistinct: (kept_values.ApproxCountDistinctKernel,),
    ApproxQuantiles: (kept_values.ApproxQuantilesKernel,),
}
"""The kernels of each aggregate: the first that accepts the type of the first input computes it."""


def kernel_for(aggregate: AggregateFunction[Any, Any, Any], input_types: InputTypes) -> Kernel:
    """Returns the kernel of an aggregate for its input types; raises a DeclinedError if there is none."""
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
    """Returns the selectors of an aggregate, the one that decides the kernel first; None is the element itself."""
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
    expression = recognise(selector)
    reason = expression.reason if isinstance(expression, Opaque) else f"takes {expression}, which is no column"
    raise DeclinedError(f"the selector of {name} {reason}")


def plural(arrow_type: pa.DataType) -> str:
    """Returns a type's name in the plural, for messages."""
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
    return next((name for has_type, name in names if has_type(arrow_type)), f"{arrow_type} values")
