"""Parquet files, read and written with Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from windrow_runtime.codecs.arrow import encode_batch
from windrow_runtime.codecs.record_type import RecordType

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_parquet", "write_parquet"]


def read_parquet(file: Path) -> Iterator[pa.RecordBatch]:
    """The record batches of a file."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        yield from opened.iter_batches()


def write_parquet(values: Sequence[object], record_type: RecordType, file: Path) -> None:
    """Write elements to a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_batches([encode_batch(values, record_type)]), file)
