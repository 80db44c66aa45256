"""Converts Arrow columns to pandas: where Arrow makes floats of ints beside a missing value, they stay ints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

# Any in this module: pyarrow and pandas have no types.


def pandas_series(column: pa.ChunkedArray, pandas: Any) -> Any:
    """Converts a column to a series of equal values: ints beside a missing value stay ints, also in nested columns.

    Lists become arrays, of objects where an item is missing or has parts; structs and maps become dicts.
    """
    arrow_type = column.type
    if not types.is_nested(arrow_type):
        nullable = {"int64": pandas.Int64Dtype(), "bool": pandas.BooleanDtype()} if column.null_count else {}
        return column.to_pandas(types_mapper=lambda each: nullable.get(str(each)))
    is_flat = types.is_list(arrow_type) and not types.is_nested(arrow_type.value_type)
    if is_flat and not any(chunk.flatten().null_count for chunk in column.chunks):
        return column.to_pandas()
    rows = column.to_pylist(maps_as_pydicts="strict")
    if types.is_list(arrow_type):
        rows = [None if row is None else np.fromiter(row, np.object_, len(row)) for row in rows]
    return pandas.Series(rows, dtype=object)
