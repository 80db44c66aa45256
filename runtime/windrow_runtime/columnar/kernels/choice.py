"""Which kernel computes an aggregate."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
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
from windrow_runtime.columnar.declined import DeclinedError
from windrow_runtime.columnar.kernels.arrays import has_order, is_number
from windrow_runtime.columnar.kernels.arrival import CollectListKernel, EdgeKernel
from windrow_runtime.columnar.kernels.combined import CombinedKernel
from windrow_runtime.columnar.kernels.counting import CountKernel
from windrow_runtime.columnar.kernels.decimal_totals import DecimalTotalKernel
from windrow_runtime.columnar.kernels.distinct import CountDistinctKernel
from windrow_runtime.columnar.kernels.extremes import ExtremeKernel
from windrow_runtime.columnar.kernels.float_totals import FloatTotalKernel
from windrow_runtime.columnar.kernels.int_totals import IntTotalKernel
from windrow_runtime.columnar.kernels.kernel import ArrowType, Kernel, Selector
from windrow_runtime.columnar.kernels.ranking import ExtremeByKernel, TopKKernel
from windrow_runtime.columnar.kernels.sketches import ApproxCountDistinctKernel, ApproxQuantilesKernel
from windrow_runtime.columnar.kernels.span_totals import SpanTotalKernel
from windrow_runtime.columnar.kernels.spread import SpreadKernel

__all__ = ["InputTypes", "kernel_for"]

# Any in this module: aggregates of elements and results of every type.

InputTypes: TypeAlias = Callable[["Selector | None"], "ArrowType | None"]
"""The type of the column of what a selector takes, or of the element itself (None); None: there is no such column.

A column must hold what compares in Python as it does in Arrow: enums and UUIDs, which are stored as texts, do not.
"""


_TIMES: Final = (pa.timestamp("us", tz="UTC"), pa.date32(), pa.duration("us"))
"""The types of columns of datetimes, dates and time spans."""


def kernel_for(aggregate: AggregateFunction[Any, Any, Any], input_types: InputTypes) -> Kernel:
    """The kernel of an aggregate whose inputs have these types.

    Raises:
        DeclinedError: If there is none; it says of what, as ``explain()`` shows it: ``sum of texts``.
    """
    return _kernel(aggregate, input_types)


@singledispatch
def _kernel(aggregate: AggregateFunction[Any, Any, Any], input_types: InputTypes) -> Kernel:
    if isinstance(aggregate, DeclaredAggregate):
        raise DeclinedError(f"{aggregate.declaration.kind} has no kernel")
    raise DeclinedError(f"{aggregate.describe()} is an aggregate function of yours")


@_kernel.register(Count)
def _(aggregate: Count[Any], input_types: InputTypes) -> Kernel:
    if aggregate.selector is not None:
        _type_of(aggregate, aggregate.selector, input_types)
    return CountKernel(aggregate.selector)


@_kernel.register(Sum)
def _(aggregate: Sum[Any, Any], input_types: InputTypes) -> Kernel:
    kind = _type_of(aggregate, aggregate.selector, input_types)
    if pa.types.is_decimal128(kind):
        return DecimalTotalKernel(aggregate.selector, kind)
    if kind == pa.duration("us"):
        return SpanTotalKernel(aggregate.selector, aggregate.describe())
    return _total(aggregate, aggregate.selector, input_types, mean=False)


@_kernel.register(Mean)
def _(aggregate: Mean[Any, Any], input_types: InputTypes) -> Kernel:
    return _total(aggregate, aggregate.selector, input_types, mean=True)


def _total(
    aggregate: DeclaredAggregate[Any, Any, Any], selector: Selector, input_types: InputTypes, *, mean: bool
) -> Kernel:
    if pa.types.is_floating(_number_type(aggregate, selector, input_types)):
        return FloatTotalKernel(selector, mean=mean)
    return IntTotalKernel(selector, aggregate.describe(), mean=mean)


@_kernel.register(Extreme)
def _(aggregate: Extreme[Any, Any], input_types: InputTypes) -> Kernel:
    kind = _ordered_type(aggregate, aggregate.selector, input_types)
    return ExtremeKernel(aggregate.selector, kind, highest=aggregate.highest)


@_kernel.register(Spread)
def _(aggregate: Spread[Any], input_types: InputTypes) -> Kernel:
    _number_type(aggregate, aggregate.selector, input_types)
    return SpreadKernel(aggregate)


@_kernel.register(Edge)
def _(aggregate: Edge[Any, Any], input_types: InputTypes) -> Kernel:
    return EdgeKernel(aggregate, _type_of(aggregate, aggregate.selector, input_types))


@_kernel.register(CollectList)
def _(aggregate: CollectList[Any, Any], input_types: InputTypes) -> Kernel:
    return CollectListKernel(aggregate.selector, _type_of(aggregate, aggregate.selector, input_types))


@_kernel.register(ExtremeBy)
def _(aggregate: ExtremeBy[Any, Any], input_types: InputTypes) -> Kernel:
    rank = _ordered_type(aggregate, aggregate.by, input_types)
    return ExtremeByKernel(aggregate, rank, _type_of(aggregate, aggregate.selector, input_types))


@_kernel.register(TopK)
def _(aggregate: TopK[Any, Any], input_types: InputTypes) -> Kernel:
    rank = _ordered_type(aggregate, aggregate.by, input_types)
    return TopKKernel(aggregate, rank, _type_of(aggregate, aggregate.selector, input_types))


@_kernel.register(CountDistinct)
def _(aggregate: CountDistinct[Any], input_types: InputTypes) -> Kernel:
    return CountDistinctKernel(aggregate.selector, _ordered_type(aggregate, aggregate.selector, input_types))


@_kernel.register(ApproxCountDistinct)
def _(aggregate: ApproxCountDistinct[Any], input_types: InputTypes) -> Kernel:
    kind = _ordered_type(aggregate, aggregate.selector, input_types)
    # A sketch takes a time for what it is in Python, which a column of another unit, or without a zone, does not tell.
    if pa.types.is_temporal(kind) and kind not in _TIMES:
        raise DeclinedError(f"{aggregate.declaration.kind} of {_plural(kind)}")
    return ApproxCountDistinctKernel(aggregate)


@_kernel.register(ApproxQuantiles)
def _(aggregate: ApproxQuantiles[Any, Any, Any], input_types: InputTypes) -> Kernel:
    _number_type(aggregate, aggregate.selector, input_types)
    return ApproxQuantilesKernel(aggregate)


@_kernel.register(Combined)
def _(aggregate: Combined[Any, Any, Any, Any], input_types: InputTypes) -> Kernel:
    return CombinedKernel([(name, _kernel(member, input_types)) for name, member in aggregate.members])


def _type_of(
    aggregate: DeclaredAggregate[Any, Any, Any], selector: Selector | None, input_types: InputTypes
) -> ArrowType:
    kind = input_types(selector)
    if kind is not None:
        return kind
    name = aggregate.declaration.kind
    if selector is None:
        raise DeclinedError(f"{name} takes the element, which is no column")
    found = recognise(selector)
    said = found.reason if isinstance(found, Opaque) else f"takes {found}, which is no column"
    raise DeclinedError(f"the selector of {name} {said}")


def _number_type(
    aggregate: DeclaredAggregate[Any, Any, Any], selector: Selector, input_types: InputTypes
) -> ArrowType:
    kind = _type_of(aggregate, selector, input_types)
    if not is_number(kind):
        raise DeclinedError(f"{aggregate.declaration.kind} of {_plural(kind)}")
    return kind


def _ordered_type(
    aggregate: DeclaredAggregate[Any, Any, Any], selector: Selector, input_types: InputTypes
) -> ArrowType:
    kind = _type_of(aggregate, selector, input_types)
    if not has_order(kind):
        raise DeclinedError(f"{aggregate.declaration.kind} of {_plural(kind)}")
    return kind


def _plural(kind: ArrowType) -> str:
    """What values of a type are called."""
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
    return next((name for is_kind, name in names if is_kind(kind)), f"{kind} values")
