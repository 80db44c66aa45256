"""Converts between Arrow arrays and numpy: values, lists, and int64 keys that compare as the values do."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.errors import AggregateOverflowError
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.rows.groups import Groups

_INT_MAX: Final = 2**63 - 1


def is_number(kind: pa.DataType) -> bool:
    """Returns whether values are ints, floats or bools."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def has_order(kind: pa.DataType) -> bool:
    """Returns whether :func:`order_keys` knows the type."""
    return is_number(kind) or _is_temporal(kind) or _is_ranked(kind) or _is_tuple(kind)


def _is_tuple(kind: pa.DataType) -> bool:
    """Returns whether values are tuples that compare part by part; a NaN in one has no place of its own."""
    return bool(pa.types.is_struct(kind)) and all(
        has_order(part.type) and not pa.types.is_floating(part.type) and part.name == f"_{place}"
        for place, part in enumerate(kind, start=1)
    )


def _is_temporal(kind: pa.DataType) -> bool:
    # An interval has no order, though pyarrow counts it among these.
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_interval(kind)


def _is_ranked(kind: pa.DataType) -> bool:
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return bool(is_text or is_bytes or types.is_decimal(kind))


def list_type(kind: pa.DataType) -> pa.DataType:
    """Lists of values of a type; the items are named as Spark names them."""
    return pa.list_(pa.field("element", kind))


def valid(column: pa.Array) -> Mask:
    """Marks the values that are not null."""
    return np.asarray(column.is_valid())


def present(groups: Groups, column: pa.Array) -> tuple[Groups, pa.Array]:
    """The rows whose value is there, and the values."""
    return (groups.where(valid(column)), column.drop_null()) if column.null_count else (groups, column)


def present_rows(column: pa.Array) -> Ints | None:
    """The numbers of the rows whose value is there; None: all."""
    return np.flatnonzero(valid(column)) if column.null_count else None


def numbers(column: pa.Array) -> NDArray[Any]:
    """The values of a column without nulls as numbers; times as the ints that they are stored as."""
    kind = column.type
    if _is_temporal(kind):
        column = column.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    return np.asarray(column)


def order_keys(column: pa.Array) -> Ints:
    """Ints that compare as a column's values, of which none is null: zeros have one key, all NaNs the highest."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _tuple_keys(column)
    if _is_ranked(kind):
        # Arrow orders texts by their UTF-8 bytes, which is the order of code points: Python's.
        encoded = column.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order), dtype=np.int64)
        return np.asarray(ranks[encoded.indices.to_numpy()])
    values = numbers(column)
    if pa.types.is_floating(kind):
        values = values.astype(np.float64, copy=False)
        bits = (values + 0.0).view(np.int64)  # no negative zero is left
        # Bits of positive floats ascend with the floats, those of negative ones descend.
        keys: Ints = bits ^ ((bits >> 63) & _INT_MAX)
        keys[np.isnan(values)] = _INT_MAX
        return keys
    if values.dtype == np.uint64:
        return (values ^ np.uint64(1 << 63)).view(np.int64)
    return values.astype(np.int64, copy=False)


def _tuple_keys(column: pa.Array) -> Ints:
    """Ints that compare as tuples do; a part is looked at in rows alone whose parts before it are equal to others."""
    codes = np.zeros(len(column), np.int64)
    rows = np.arange(len(column))
    for part in column.flatten():
        keys, bound = dense_codes(order_keys(part.take(pa.array(rows))))
        among = np.zeros(len(column), np.int64)
        among[rows] = keys
        _, codes = np.unique(codes * bound + among, return_inverse=True)
        rows = np.flatnonzero(np.bincount(codes)[codes] > 1)
        if not len(rows):
            break
    return codes.astype(np.int64, copy=False)


def dense_codes(keys: Ints) -> tuple[Ints, int]:
    """Keys in the same order, from 0 on and without large gaps; and a bound that all are below."""
    if not len(keys):
        return keys, 1
    low, high = int(keys.min()), int(keys.max())
    if high - low <= max(4 * len(keys), 1 << 16):
        return keys - low, high - low + 1
    found, codes = np.unique(keys, return_inverse=True)
    return codes, len(found)


def value_codes(column: pa.Array) -> tuple[Ints, int]:
    """Codes from 0 on that equal values of a column without nulls share, and no others; and a bound above all."""
    if not _is_ranked(column.type):
        return dense_codes(order_keys(column))
    encoded = column.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary) + 1


def nullable(values: NDArray[Any], there: Mask, kind: pa.DataType) -> pa.Array:
    """An array of values, null where they are not there."""
    return pa.array(values, type=kind, mask=None if there.all() else ~there)


def by_number(column: pa.Array, rows: Ints | None = None) -> Ints:
    """Row numbers, of some rows or of all, in the order of the numbers in a column of int64."""
    if rows is None:
        return np.argsort(column.to_numpy(), kind="stable")
    return rows[np.argsort(column.take(pa.array(rows)).to_numpy(), kind="stable")]


def take(column: pa.Array, rows: Ints) -> pa.Array:
    """The values of some rows; null for row -1."""
    there = rows >= 0
    return column.take(pa.array(rows) if there.all() else pa.array(rows, mask=~there))


def lists(items: pa.Array, lengths: Ints) -> pa.Array:
    """A column of lists of these lengths, which hold the items one after the other."""
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


def lengths_of(column: pa.Array) -> Ints:
    """The number of items of each list."""
    return np.asarray(pc.list_value_length(column)).astype(np.int64)


def rows_of_items(groups: Groups, column: pa.Array) -> Groups:
    """The items of a column of lists, in the groups of their lists."""
    return Groups(np.repeat(groups.ids, lengths_of(column)), groups.count)
