"""Converts between Arrow arrays and numpy: values, lists, and int64 keys that compare as the values do."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.errors import AggregateOverflowError
from windrow_runtime.columnar.array_types import Array, ArrowType, Floats, Ints, Mask
from windrow_runtime.columnar.rows.groups import Groups

_INT_MAX: Final = 2**63 - 1


def is_number(kind: ArrowType) -> bool:
    """Returns whether values are ints, floats or bools."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def has_order(kind: ArrowType) -> bool:
    """Returns whether :func:`order_keys` knows the type."""
    return is_number(kind) or _is_temporal(kind) or _is_ranked(kind)


def _is_temporal(kind: ArrowType) -> bool:
    # An interval has no order, though pyarrow counts it among these.
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_interval(kind)


def _is_ranked(kind: ArrowType) -> bool:
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return bool(is_text or is_bytes or types.is_decimal(kind))


def list_type(kind: ArrowType) -> ArrowType:
    """Lists of values of a type; the items are named as Spark names them."""
    return pa.list_(pa.field("element", kind))


def valid(column: Array) -> Mask:
    """Marks the values that are not null."""
    mask: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def present(groups: Groups, column: Array) -> tuple[Groups, Array]:
    """The rows whose value is there, and the values."""
    if not column.null_count:
        return groups, column
    return groups.where(valid(column)), column.drop_null()


def present_rows(column: Array) -> Ints | None:
    """The numbers of the rows whose value is there; None: all."""
    return np.flatnonzero(valid(column)) if column.null_count else None


def numbers(column: Array) -> NDArray[Any]:
    """The values of a column without nulls as numbers; times as the ints that they are stored as."""
    kind = column.type
    if _is_temporal(kind):
        column = column.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def order_keys(column: Array) -> Ints:
    """Ints that compare as the values of a column without nulls do.

    Zeros have one key, and all NaNs have the highest. Keys of two columns cannot be compared.
    """
    kind = column.type
    if _is_ranked(kind):
        return _ranks(column)
    values = numbers(column)
    if pa.types.is_floating(kind):
        return _float_keys(values.astype(np.float64, copy=False))
    if values.dtype == np.uint64:
        signed: Ints = (values ^ np.uint64(1 << 63)).view(np.int64)
        return signed
    return values.astype(np.int64, copy=False)


def _float_keys(values: Floats) -> Ints:
    bits = (values + 0.0).view(np.int64)  # no negative zero is left
    # Bits of positive floats ascend with the floats, those of negative ones descend.
    keys: Ints = bits ^ ((bits >> 63) & _INT_MAX)
    keys[np.isnan(values)] = _INT_MAX
    return keys


def _ranks(column: Array) -> Ints:
    # Arrow orders texts by their UTF-8 bytes, which is the order of code points: Python's.
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order), dtype=np.int64)
    found: Ints = ranks[encoded.indices.to_numpy()]
    return found


def dense_codes(keys: Ints) -> tuple[Ints, int]:
    """Keys in the same order, from 0 on and without large gaps; and a bound that all are below."""
    if not len(keys):
        return keys, 1
    low, high = int(keys.min()), int(keys.max())
    if high - low <= max(4 * len(keys), 1 << 16):
        return keys - low, high - low + 1
    found, codes = np.unique(keys, return_inverse=True)
    return codes, len(found)


def value_codes(column: Array) -> tuple[Ints, int]:
    """Codes from 0 on that equal values of a column without nulls share, and no others; and a bound above all."""
    if not _is_ranked(column.type):
        return dense_codes(order_keys(column))
    encoded = column.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary) + 1


def nullable(values: NDArray[Any], there: Mask, kind: ArrowType) -> Array:
    """An array of values, null where they are not there."""
    if there.all():
        return pa.array(values, type=kind)
    return pa.array(values, type=kind, mask=~there)


def by_number(column: Array, rows: Ints | None = None) -> Ints:
    """Row numbers, of some rows or of all, in the order of the numbers in a column of int64."""
    if rows is None:
        return np.argsort(column.to_numpy(), kind="stable")
    return rows[np.argsort(column.take(pa.array(rows)).to_numpy(), kind="stable")]


def take(column: Array, rows: Ints) -> Array:
    """The values of some rows; null for row -1."""
    there = rows >= 0
    return column.take(pa.array(rows) if there.all() else pa.array(rows, mask=~there))


def lists(items: Array, lengths: Ints) -> Array:
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


def lengths_of(column: Array) -> Ints:
    """The number of items of each list."""
    lengths: NDArray[Any] = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def rows_of_items(groups: Groups, column: Array) -> Groups:
    """The items of a column of lists, in the groups of their lists."""
    return Groups(np.repeat(groups.ids, lengths_of(column)), groups.count)
