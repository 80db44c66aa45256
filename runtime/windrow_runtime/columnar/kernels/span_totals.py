"""The kernel of sums of time spans: microseconds, added as ints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa

from windrow.aggregates.numbers import checked_span, span_total
from windrow_runtime.columnar.kernels.arrays import nullable, numbers
from windrow_runtime.columnar.kernels.int_totals import IntTotalKernel
from windrow_runtime.columnar.kernels.kernel import Array, Decode, Kernel, Selector, plain_values
from windrow_runtime.columnar.kernels.wide import fits, whole
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["SpanTotalKernel"]

# Any: accumulators of every type, as in Kernel.


@final
class SpanTotalKernel(Kernel):
    """``sum`` of time spans, which are columns of microseconds; the state is that of a sum of ints.

    Args:
        selector: What is added.
        aggregate: Its name, for errors.
    """

    def __init__(self, selector: Selector, aggregate: str) -> None:
        self._ints = IntTotalKernel(selector, aggregate, mean=False)
        self.inputs = self._ints.inputs
        self.state_types = self._ints.state_types
        self.result_type = pa.duration("us")
        self._aggregate = aggregate

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        return self._ints.partial(groups, columns)

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        return self._ints.merge(groups, states)

    def results(self, states: Sequence[Array]) -> Array:
        held, upper, lower = (numbers(state) for state in states)
        narrow = fits([lower, upper])
        if not narrow.all():
            place = int(np.argmin(narrow))
            checked_span(whole([int(lower[place]), int(upper[place])]), self._aggregate)
        return nullable(lower, held > 0, pa.int64()).view(self.result_type)

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        return [
            (held, *span_total(microseconds)) if held else (0, 0, 0.0)
            for held, microseconds, _ in self._ints.accumulators(states)
        ]
