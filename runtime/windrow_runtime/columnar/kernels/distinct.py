"""The kernel of count_distinct, and how the different values of groups are found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow_runtime.columnar.kernels.arrays import list_type, present, value_codes
from windrow_runtime.columnar.kernels.kernel import (
    Array,
    ArrowType,
    Decode,
    Kernel,
    Selector,
    plain_values,
)
from windrow_runtime.columnar.kernels.lists import lengths_of, lists, rows_of_items, split
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["CountDistinctKernel", "distinct"]

# Any: accumulators of every type, as in Kernel.


@final
class CountDistinctKernel(Kernel):
    """``count_distinct``; the state is the list of the different values. Of several NaNs it holds one."""

    def __init__(self, selector: Selector, kind: ArrowType) -> None:
        self.inputs = (selector,)
        self.state_types = (list_type(kind),)
        self.result_type = pa.int64()

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        rows, sizes = distinct(groups, column)
        return [lists(column.take(pa.array(rows)), sizes)]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        return self.partial(rows_of_items(groups, states[0]), [states[0].flatten()])

    def results(self, states: Sequence[Array]) -> Array:
        return pa.array(lengths_of(states[0]))

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        held = split(decode(self.inputs[0], states[0].flatten()), states[0])
        # Only a NaN is not equal to itself.
        sets = [{value for value in values if value == value} for values in held]  # noqa: PLR0124
        return [(kept, len(kept) < len(values)) for kept, values in zip(sets, held, strict=True)]


def distinct(groups: Groups, column: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A row for each different value of each group, group by group; and how many each group has.

    The row is one that has the value, though maybe in another group.
    """
    codes, bound = value_codes(column)
    rows = np.empty(bound, dtype=np.int64)
    rows[codes] = np.arange(len(codes), dtype=np.int64)
    # Group and value in one word. There are fewer codes than 2 ** 32, and fewer groups than 2 ** 31.
    bits = bound.bit_length()
    words = (groups.ids << bits) | codes
    words.sort()
    if len(words):
        words = words[np.concatenate(([True], words[1:] != words[:-1]))]
    sizes = np.bincount(words >> bits, minlength=groups.count)
    return rows[words & ((1 << bits) - 1)], sizes
