"""Reads the files of a part of a hybrid source, which were listed when the stream began."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from windrow.addresses.paths import PathGuard
from windrow.addresses.redaction import redact_address
from windrow.errors import warn
from windrow.plan import Step
from windrow.sources import FileSource
from windrow_runtime.connectors.files.formats import FileReader, TextReader
from windrow_runtime.connectors.files.listing import FileOrder
from windrow_runtime.connectors.files.text_blocks import TextBlockReader
from windrow_runtime.inputs.offsets import ALL, CountedReads, Offsets, Range
from windrow_runtime.operators.errors import errors_at

# Any in this module: records of every type.

Chunk = list[tuple[str, int, int]]
"""What one task reads: files, each with the number of a part and how many parts it has."""


def _one_chunk(names: Sequence[str]) -> list[Chunk]:
    return [[(name, 0, 1) for name in names]]


@dataclass(frozen=True)
class FileReads(CountedReads):
    """Reads the files that were listed when the stream began."""

    path: str
    pattern: str  # the end of the path if it is a pattern
    reader: FileReader | TextBlockReader
    listed: Callable[[], Sequence[str]]
    divide: Callable[[Sequence[str]], list[Chunk]]  # for the tasks of a batch

    @classmethod
    def of(
        cls,
        source: FileSource[Any],
        order: FileOrder,
        reader: FileReader | TextBlockReader,
        listed: Callable[[], Sequence[str]],
        divide: Callable[[Sequence[str]], list[Chunk]] = _one_chunk,
    ) -> FileReads:
        """Returns the reads of a part; by default a batch is one chunk."""
        record_type, path = (
            None if isinstance(reader, TextReader) else reader.record_type,
            order.literal + order.pattern,
        )
        return cls(order.where, record_type, source.files_per_batch, path, order.pattern, reader, listed, divide)

    def count(self) -> int:
        return len(self.listed())

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """Returns a range for each task, which has the names of its files in place of offsets."""
        files = [self.listed()[each.start : each.end] for each in super().ranges(start, end)]
        return [Range(ALL, chunk, None) for portion in files for chunk in self.divide(portion)]

    def read(self, range_: Range) -> Iterator[Any]:
        guard = PathGuard(self.path, self.pattern)
        for file, part, parts in range_.start:
            with errors_at(self.where):
                guard.check(file)  # a link may lead elsewhere since it was listed
            with errors_at(f"{self.where}, {file}"):
                yield from self.reader.read(file, part, parts)


def list_files(order: FileOrder, step: Step) -> list[str]:
    """Returns the files of a part, as they are when the stream begins; warns if there are none."""
    files = order.sorted_files()
    if not files:
        warn(
            "a part of a hybrid source has no files, so it gives nothing",
            given=redact_address(order.path),
            where=step.where,
            hint="the files are there before the first run; those that come later are not read",
            location=step.node.location,
        )
    return files
