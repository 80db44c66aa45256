"""Writes the files of a Delta Lake table in workers; the driver adds those of a batch to the table in one commit.

No reader sees a file that the log of the table does not have. So files get their final names at once. A task that fails
deletes its files; those of a worker that is killed stay until somebody runs ``VACUUM``.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from windrow_runtime.codecs.arrow.parquet import ParquetWriter
from windrow_sql.delta.output import DeltaOutput

__all__ = ["TableFiles", "added_file", "read_rows"]

# Any in this module: elements of every type, and pyarrow has no types.

_OPEN_FILES: Final = 64
"""The most files that a task has open, each of another partition of the table."""

_LONGEST: Final = 32
"""The longest text that the statistics of a file have, as Delta Lake's own writers keep them."""

Values = tuple[str | None, ...]
"""The values of the partition columns of a file."""


class TableFiles:
    """Writes the elements of one task to files below a table that is in a mounted file system, one a partition.

    Args:
        output: Knows the columns of the table.
        folder: The folder of the table.
    """

    def __init__(self, output: DeltaOutput, folder: Path) -> None:
        self._output = output
        self._folder = folder
        self._open: OrderedDict[Values, ParquetWriter] = OrderedDict()
        self._files: list[Path] = []
        self._new: list[str] = []

    def write(self, rows: pa.RecordBatch) -> int:
        """Writes rows; returns about how many bytes they take before they are compressed."""
        return sum(self._writer(values).append(portion) for values, portion in self._output.by_partition(rows))

    def _writer(self, values: Values) -> ParquetWriter:
        writer = self._open.get(values)
        if writer is None:
            if len(self._open) >= _OPEN_FILES:
                self._open.popitem(last=False)[1].close()
            file = self._folder / f"part-{uuid4().hex}.parquet"
            self._files.append(file)
            writer = ParquetWriter(self._output.stored_type)
            writer.open(file)
            self._open[values] = writer
            self._new.append(json.dumps([file.name, values]))
        self._open.move_to_end(values)
        return writer

    def take_names(self) -> list[str]:
        """Returns the names and the partitions of the files that were made since the last call, as JSON."""
        names, self._new = self._new, []
        return names

    def close(self) -> None:
        """Finishes all files."""
        with ExitStack() as stack:
            for writer in self._open.values():
                stack.callback(writer.close)
        self._open.clear()

    def delete(self) -> None:
        """Deletes all files: the task has failed."""
        try:
            self.close()
        finally:
            for file in self._files:
                file.unlink(missing_ok=True)


def added_file(folder: Path, name: str, columns: Sequence[str]) -> tuple[AddAction, int]:
    """Returns what adds a file to the log of its table, and how many rows it has.

    Args:
        folder: The folder of the table.
        name: What :meth:`TableFiles.take_names` has returned.
        columns: The columns by which the table is partitioned.
    """
    file_name, values = json.loads(name)
    file = folder / file_name
    status, footer = file.stat(), pq.read_metadata(file)
    action = AddAction(
        path=file_name,
        size=status.st_size,
        partition_values=dict(zip(columns, values, strict=True)),
        modification_time=status.st_mtime_ns // 1_000_000,
        data_change=True,
        stats=json.dumps(_statistics(footer)),
    )
    return action, footer.num_rows


def read_rows(folder: Path, names: Sequence[str], columns: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Returns the rows of files, with the columns of their partitions; see :func:`added_file` for the arguments."""
    tables = []
    for file_name, values in map(json.loads, names):
        with pq.ParquetFile(folder / file_name) as file:
            table = file.read()
        for column, value in zip(columns, values, strict=True):
            texts = pa.array([value] * table.num_rows, pa.string())
            table = table.append_column(column, texts.cast(schema.field(column).type))
        tables.append(table.select(schema.names))
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

    They have bounds of whole numbers, short texts, days and times; NaN has no place among numbers.
    """
    stats: dict[str, Any] = {"numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for index in range(footer.num_columns):
        name = footer.schema.column(index).name
        found = [group.column(index).statistics for group in groups]
        if footer.schema.column(index).path != name or not all(each and each.has_null_count for each in found):
            continue
        stats["nullCount"][name] = sum(each.null_count for each in found)
        with_values = [each for each in found if each.num_values]
        if with_values and all(each.has_min_max for each in with_values):
            least = _bound(min(each.min for each in with_values))
            most = _bound(max(each.max for each in with_values))
            if least is not None and most is not None:
                stats["minValues"][name], stats["maxValues"][name] = least, most
    return stats
