"""The kernel of sums of decimals: exact, and of any size that rows can add up to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow_runtime.columnar.kernels.arrays import numbers, present
from windrow_runtime.columnar.kernels.kernel import (
    Array,
    ArrowType,
    Decode,
    Kernel,
    Selector,
    plain_values,
)
from windrow_runtime.columnar.kernels.wide import Ints, totals
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["DecimalTotalKernel"]

# Any: accumulators of every type, as in Kernel.

_DIGITS: Final = 76  # of a decimal of 256 bits
_WORDS: Final = 4


@final
class DecimalTotalKernel(Kernel):
    """``sum`` of decimals of 128 bits.

    The state is the count of values, and their total. A value has at most 38 digits, so the 76 of a total are enough
    for 10 ** 38 rows, and nothing is rounded. The result has as many digits, which is more than a sink's column takes.

    Args:
        selector: What is added.
        kind: The type of the values.
    """

    def __init__(self, selector: Selector, kind: ArrowType) -> None:
        self.inputs = (selector,)
        self.result_type = pa.decimal256(_DIGITS, kind.scale)
        self.state_types = (pa.int64(), self.result_type)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        return [pa.array(groups.sizes, type=pa.int64()), self._total(groups, column)]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        held = groups.int_totals(numbers(states[0]))
        return [pa.array(held), self._total(groups, states[1])]

    def results(self, states: Sequence[Array]) -> Array:
        there = pa.array(numbers(states[0]) > 0)
        return pc.if_else(there, states[1], pa.scalar(None, self.result_type))

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        rows = zip(*(state.to_pylist() for state in states), strict=True)
        return [(held, total, 0.0) if held else (0, 0, 0.0) for held, total in rows]

    def _total(self, groups: Groups, column: Array) -> Array:
        """The totals of a column without nulls."""
        words = np.stack(totals(groups, _words_of(column), _WORDS), axis=1)
        data = pa.py_buffer(np.ascontiguousarray(words, dtype="<i8"))
        return pa.Array.from_buffers(self.result_type, groups.count, [None, data])


def _words_of(column: Array) -> list[Ints]:
    """The digits of decimals without the point, as words of 64 bits, the lowest first."""
    width = column.type.bit_width // 64
    data = column.buffers()[1]
    if data is None or not len(column):
        return [np.zeros(0, np.int64)] * width
    table = np.frombuffer(data, dtype="<i8", count=(column.offset + len(column)) * width).reshape(-1, width)
    return [table[column.offset :, place] for place in range(width)]
