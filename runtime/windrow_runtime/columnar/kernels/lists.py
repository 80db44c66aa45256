"""Columns of lists, in which some states are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.errors import AggregateOverflowError
from windrow_runtime.columnar.kernels.arrays import list_type
from windrow_runtime.columnar.kernels.kernel import Array
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["lengths_of", "lists", "rows_of_items", "split"]

# Any: items of every type.


def lists(items: Array, lengths: NDArray[np.int64]) -> Array:
    """A column of lists of these lengths, which hold the items one after the other.

    Raises:
        AggregateOverflowError: If there are 2 ** 31 items or more.
    """
    if len(items) >> 31:
        raise AggregateOverflowError(
            "the lists of a batch do not fit into one column",
            given=f"{len(items)} items",
            expected="fewer than 2 ** 31",
            hint="let more partitions share the keys",
        )
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=list_type(items.type))


def lengths_of(column: Array) -> NDArray[np.int64]:
    """How many items each list has."""
    lengths: NDArray[Any] = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def rows_of_items(groups: Groups, column: Array) -> Groups:
    """The items of a column of lists, in the groups of their lists."""
    return Groups(np.repeat(groups.ids, lengths_of(column)), groups.count)


def split(items: list[Any], column: Array) -> list[list[Any]]:
    """Python values of the items, list by list."""
    ends = np.cumsum(lengths_of(column)).tolist()
    return [items[start:end] for start, end in zip([0, *ends], ends, strict=False)]
