"""Writes the files of a Delta Lake table in workers; the driver adds those of a batch to the table in one commit.

No reader sees a file that the log of the table does not have. So files get their final names at once. A task that fails
deletes its files; those of a worker that is killed stay until somebody runs ``VACUUM``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from windrow_runtime.codecs.arrow.parquet import ParquetWriter
from windrow_runtime.codecs.value_type import RecordType

# Any in this module: pyarrow has no types.

_LONGEST: Final = 32
"""The longest text that the statistics of a file have."""


class TableFile:
    """Writes the elements of one task to a file, which is made with the first of them.

    Args:
        record_type: The type of the elements.
        folder: The folder of the table, which is in a mounted file system.
    """

    def __init__(self, record_type: RecordType, folder: Path) -> None:
        self._writer = ParquetWriter(record_type)
        self._file = folder / f"part-{uuid4().hex}.parquet"
        self._is_open = self._is_new = False

    def write(self, rows: pa.RecordBatch) -> int:
        """Writes rows; returns about how many bytes they take before they are compressed."""
        if not self._is_open:
            self._writer.open(self._file)
            self._is_open = self._is_new = True
        return self._writer.append(rows)

    def take_names(self) -> list[str]:
        """Returns the name of the file if it was made since the last call."""
        names = [self._file.name] if self._is_new else []
        self._is_new = False
        return names

    def close(self) -> None:
        """Finishes the file."""
        if self._is_open:
            self._writer.close()

    def delete(self) -> None:
        """Deletes the file: the task has failed."""
        try:
            self.close()
        finally:
            self._file.unlink(missing_ok=True)


def added_file(folder: Path, name: str) -> tuple[AddAction, int]:
    """Returns what adds a file to the log of its table, and how many rows it has.

    Args:
        folder: The folder of the table.
        name: The name of the file.
    """
    file = folder / name
    status, footer = file.stat(), pq.read_metadata(file)
    action = AddAction(
        path=name,
        size=status.st_size,
        partition_values={},
        modification_time=status.st_mtime_ns // 1_000_000,
        data_change=True,
        stats=json.dumps(_statistics(footer)),
    )
    return action, footer.num_rows


def read_rows(folder: Path, names: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Returns the rows of files, in the columns of a schema."""
    tables = []
    for name in names:
        with pq.ParquetFile(folder / name) as file:
            tables.append(file.read().select(schema.names))
    return pa.concat_tables(tables)


def _bound(value: object) -> object:
    """Returns a bound as the log has it; None: it has no such bounds."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    is_kept = type(value) is int or (isinstance(value, str) and len(value) <= _LONGEST)
    return value if is_kept else None


def _statistics(footer: pq.FileMetaData) -> Mapping[str, Any]:
    """Returns the statistics of a file, by which readers pass over files that have none of the rows that they look for.

    They have bounds where all columns are whole numbers, short texts, days or times: where one column lacks a bound and
    others have one, the dataset of ``deltalake`` passes over the file for each condition on the first.
    """
    stats: dict[str, Any] = {"numRecords": footer.num_rows}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    least: dict[str, object] = {}
    most: dict[str, object] = {}
    for index in range(footer.num_columns):
        name = footer.schema.column(index).name
        of_groups = [group.column(index).statistics for group in groups]
        if footer.schema.column(index).path != name or not all(each and each.has_null_count for each in of_groups):
            return stats
        bounds = [(each.min, each.max) for each in of_groups if each.has_min_max]
        if not bounds or len(bounds) < sum(each.num_values > 0 for each in of_groups):
            return stats
        least[name], most[name] = _bound(min(low for low, _ in bounds)), _bound(max(high for _, high in bounds))
        if least[name] is None or most[name] is None:
            return stats
    nulls = {
        footer.schema.column(index).name: sum(group.column(index).statistics.null_count for group in groups)
        for index in range(footer.num_columns)
    }
    return {**stats, "minValues": least, "maxValues": most, "nullCount": nulls}
