"""Converts between Arrow arrays and numpy: values, lists, and int64 codes that sort as the values do."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.errors import AggregateOverflowError
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Groups

_INT_MAX: Final = 2**63 - 1


def is_number(arrow_type: pa.DataType) -> bool:
    """Returns whether values are ints, floats or bools."""
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_boolean(arrow_type))


def has_order(arrow_type: pa.DataType) -> bool:
    """Returns whether values of the type can be sorted, by :func:`order_keys`."""
    return is_number(arrow_type) or _is_temporal(arrow_type) or _is_ranked(arrow_type) or _is_tuple(arrow_type)


def _is_tuple(arrow_type: pa.DataType) -> bool:
    """Returns whether values are tuples that can be sorted; those with floats cannot, as a NaN has no order in them."""
    return bool(pa.types.is_struct(arrow_type)) and all(
        has_order(field.type) and not pa.types.is_floating(field.type) and field.name == f"_{number}"
        for number, field in enumerate(arrow_type, start=1)
    )


def _is_temporal(arrow_type: pa.DataType) -> bool:
    # An interval has no order, though pyarrow counts it among these.
    return bool(pa.types.is_temporal(arrow_type)) and not pa.types.is_interval(arrow_type)


def _is_ranked(arrow_type: pa.DataType) -> bool:
    types = pa.types
    is_text = types.is_string(arrow_type) or types.is_large_string(arrow_type)
    is_bytes = (
        types.is_binary(arrow_type) or types.is_large_binary(arrow_type) or types.is_fixed_size_binary(arrow_type)
    )
    return bool(is_text or is_bytes or types.is_decimal(arrow_type))


def list_type(arrow_type: pa.DataType) -> pa.DataType:
    """Returns the type of lists of values; their items have the name that Spark gives them."""
    return pa.list_(pa.field("element", arrow_type))


def valid(column: pa.Array) -> Mask:
    """Marks the values that are not null."""
    return np.asarray(column.is_valid())


def present(groups: Groups, column: pa.Array) -> tuple[Groups, pa.Array]:
    """Drops nulls: the groups and the values of non-null rows."""
    return (groups.where(valid(column)), column.drop_null()) if column.null_count else (groups, column)


def present_rows(column: pa.Array) -> Ints | None:
    """Returns the numbers of the non-null rows; None if no row is null."""
    return np.flatnonzero(valid(column)) if column.null_count else None


def numbers(column: pa.Array) -> NDArray[Any]:
    """Returns a column without nulls as numpy numbers, times as the ints that Arrow stores."""
    arrow_type = column.type
    if _is_temporal(arrow_type):
        column = column.view(pa.int64() if arrow_type.bit_width == 64 else pa.int32())
    return np.asarray(column)


def order_keys(column: pa.Array) -> Ints:
    """Returns ints that sort as the values of a column without nulls; 0.0 equals -0.0, and NaNs are the highest."""
    arrow_type = column.type
    if pa.types.is_struct(arrow_type):
        return _tuple_keys(column)
    if _is_ranked(arrow_type):
        # Arrow orders texts by their UTF-8 bytes, which is the order of code points: Python's.
        encoded = column.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order), dtype=np.int64)
        return np.asarray(ranks[encoded.indices.to_numpy()])
    values = numbers(column)
    if pa.types.is_floating(arrow_type):
        values = values.astype(np.float64, copy=False)
        bits = (values + 0.0).view(np.int64)  # adding 0.0 turns -0.0 into 0.0
        # The bits of positive floats ascend with the floats, those of negative ones descend.
        keys: Ints = bits ^ ((bits >> 63) & _INT_MAX)
        keys[np.isnan(values)] = _INT_MAX
        return keys
    if values.dtype == np.uint64:
        return (values ^ np.uint64(1 << 63)).view(np.int64)
    return values.astype(np.int64, copy=False)


def _tuple_keys(column: pa.Array) -> Ints:
    """Returns ints that sort as tuples do; a further part is compared only among rows that are equal so far."""
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
    """Renumbers keys from 0 on in the same order, without large gaps; returns also a bound above all of them."""
    if not len(keys):
        return keys, 1
    low, high = int(keys.min()), int(keys.max())
    if high - low <= max(4 * len(keys), 1 << 16):
        return keys - low, high - low + 1
    distinct, codes = np.unique(keys, return_inverse=True)
    return codes, len(distinct)


def value_codes(column: pa.Array) -> tuple[Ints, int]:
    """Returns the same code, from 0 on, for equal values of a column without nulls; and a bound above all codes."""
    if not _is_ranked(column.type):
        return dense_codes(order_keys(column))
    encoded = column.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary) + 1


def nullable(values: NDArray[Any], present_mask: Mask, arrow_type: pa.DataType) -> pa.Array:
    """Returns an Arrow array of the values, null where ``present_mask`` is false."""
    return pa.array(values, type=arrow_type, mask=None if present_mask.all() else ~present_mask)


def by_number(column: pa.Array, rows: Ints | None = None) -> Ints:
    """Returns the numbers of some rows (None: of all), sorted by a column of int64."""
    if rows is None:
        return np.argsort(column.to_numpy(), kind="stable")
    return rows[np.argsort(column.take(pa.array(rows)).to_numpy(), kind="stable")]


def take(column: pa.Array, rows: Ints) -> pa.Array:
    """Returns the values at some row numbers; null for -1."""
    is_row = rows >= 0
    return column.take(pa.array(rows) if is_row.all() else pa.array(rows, mask=~is_row))


def lists(items: pa.Array, lengths: Ints) -> pa.Array:
    """Cuts the items into a column of lists of these lengths."""
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
    """Returns the number of items in each list of a column; none in a null."""
    return np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)


def values_in(column: pa.Array) -> Ints:
    """Returns the number of values in each row of a column, at least one: those in lists and structs count."""
    if pa.types.is_list(column.type):
        return np.maximum(lengths_of(column), 1)
    fields = column.flatten() if pa.types.is_struct(column.type) else ()
    return sum(map(values_in, fields), np.full(len(column), 0 if fields else 1))


def rows_of_items(groups: Groups, column: pa.Array) -> Groups:
    """Returns the groups of the items of a column of lists, which are the groups of their lists."""
    return Groups(np.repeat(groups.ids, lengths_of(column)), groups.count)
