"""Timestamps of the oldest form in Parquet files, which have nanoseconds: Arrow cuts them off, or has no late years."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# Any in this module: pyarrow has no types.


def int96_columns(opened: pq.ParquetFile, names: Sequence[str]) -> list[str]:
    """Finds the columns of a file that are such timestamps; not those that lie within others."""
    leaves = [opened.schema.column(index) for index in range(len(opened.schema))]
    oldest = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    return [name for name in names if name in oldest]


def with_nanoseconds(
    batches: Iterator[pa.RecordBatch], file: str, names: Sequence[str], rows_at_once: int, groups: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Divides batches, in which such columns have microseconds, such that those that are finer have nanoseconds.

    Nanoseconds of 64 bits end in the year 2262, so other rows keep their microseconds.
    """
    with pq.ParquetFile(file, coerce_int96_timestamp_unit="ns") as opened:
        finer = opened.iter_batches(rows_at_once, row_groups=groups, columns=list(names), use_threads=False)
        for batch, nanoseconds in zip(batches, finer, strict=True):
            is_finer = np.zeros(batch.num_rows, np.bool_)
            for name in names:
                # The remainder is right even where the number of nanoseconds has more than 64 bits.
                whole, exact = (_numbers(rows.column(name)) for rows in (batch, nanoseconds))
                is_finer |= (exact - whole * np.int64(1000)) != 0
            begin = 0
            for end in [*(np.flatnonzero(np.diff(is_finer)) + 1).tolist(), batch.num_rows]:
                rows = batch.slice(begin, end - begin)
                if end > begin and is_finer[begin]:
                    for name in names:
                        index = rows.schema.get_field_index(name)
                        column = nanoseconds.column(name).slice(begin, end - begin)
                        rows = rows.set_column(index, pa.field(name, column.type), column)
                yield rows
                begin = end


def _numbers(column: pa.Array) -> Any:
    return column.view(pa.int64()).fill_null(0).to_numpy()
