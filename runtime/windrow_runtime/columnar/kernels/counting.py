"""The kernel of count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import pyarrow as pa

from windrow_runtime.columnar.kernels.arrays import numbers, valid
from windrow_runtime.columnar.kernels.kernel import Array, Decode, Kernel, Selector, plain_values
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["CountKernel"]

# Any: accumulators of every type, as in Kernel.


@final
class CountKernel(Kernel):
    """``count``; the state is the count. Without a selector it takes no column."""

    def __init__(self, selector: Selector | None) -> None:
        self.inputs = () if selector is None else (selector,)
        self.state_types = (pa.int64(),)
        self.result_type = pa.int64()

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        if columns and columns[0].null_count:
            groups = groups.where(valid(columns[0]))
        return [pa.array(groups.sizes, type=pa.int64())]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        return [pa.array(groups.int_totals(numbers(states[0])))]

    def results(self, states: Sequence[Array]) -> Array:
        return states[0]

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        counts: list[Any] = states[0].to_pylist()
        return counts
