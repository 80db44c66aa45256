"""Reads the files of a source for the interpreter, and answers what engines ask of such a source."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from windrow.sources import FileSource
from windrow_runtime.connectors.files.checks import check_files
from windrow_runtime.connectors.files.formats import FileReader, file_reader
from windrow_runtime.connectors.files.listing import FileOrder
from windrow_runtime.connectors.files.objects import not_opened
from windrow_runtime.connectors.files.reads import FileReads, list_files
from windrow_runtime.connectors.files.systems import files_of
from windrow_runtime.inputs.batches import OpenPartitions, SourceBatch
from windrow_runtime.inputs.reader import Held, SourceReader
from windrow_runtime.operators.errors import errors_at

# Any in this module: records of every type.


class FileSourceReader(SourceReader[FileSource[Any]]):
    """Reads text, JSON, CSV and Parquet files."""

    identity_is_exact = True

    def batches(self, held: Held = tuple) -> Iterator[SourceBatch]:
        return self.batches_of(set)

    def batches_of(self, chosen: Callable[[Iterable[str]], Container[str]]) -> Iterator[SourceBatch]:
        """Yields the batches of the files that are ``chosen`` among those that are there."""
        reader = self._format()  # refuses unsuitable options even if there are no files
        self._check_opened()
        there = FileOrder.of(self.source, self.step).sorted_files()
        wanted = chosen(there)
        files = [file for file in there if file in wanted]
        size = self.source.files_per_batch or max(len(files), 1)
        starts = range(0, len(files), size)
        return self.warned(self._batch(reader, files[start : start + size]) for start in starts)

    def _check_opened(self) -> None:
        if files_of(self.source.path) is None:
            raise not_opened(self.source.path, self.source.describe(), self.step.where)

    def batch_of(self, files: Iterable[str]) -> SourceBatch:
        """Reads some files of the source, in order, as one batch."""
        return self._batch(self._format(), files)

    def _format(self) -> FileReader:
        with errors_at(self.step.where):
            return file_reader(self.source)

    def _batch(self, reader: FileReader, files: Iterable[str]) -> SourceBatch:
        batch = SourceBatch()
        for file in files:
            before = len(batch.values)
            with errors_at(f"{self.step.where}, {file}"):
                for portion in reader.read(file):
                    self.take(batch, portion)
            batch.partitions.append((file, len(batch.values) - before))
        batch.open_partitions = OpenPartitions([file for file, _ in batch.partitions])
        return batch

    def as_part(self, place: int) -> FileReads:
        self._check_opened()
        order = FileOrder.of(self.source, self.step)
        listed = list_files(order, self.step)
        return FileReads.of(self.source, order, self._format(), lambda: listed)

    def check(self, *, waits: bool = False) -> None:
        check_files(self.source, self.step, waits=waits)

    @property
    def has_partitions(self) -> bool:
        # A batch of one file has no other beside it.
        return (self.source.files_per_batch or 1) > 1 and files_of(self.source.path) is not None

    @property
    def files_per_batch(self) -> int | None:
        return self.source.files_per_batch

    @property
    def identity(self) -> str | None:
        return self.source.path

    @property
    def timezone(self) -> object:
        return getattr(self.source, "timezone", None)  # plain lines have no times
