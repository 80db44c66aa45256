"""Reads text files as Arrow columns, except for rows that have to be read one by one."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from windrow.sources import FileSource
from windrow_runtime.codecs.text_files import (
    CsvRecords,
    DocumentRecords,
    LineRecords,
    TextRecords,
    open_bytes,
    unreadable,
)
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.connectors.files.formats import lines_before, range_of
from windrow_runtime.connectors.files.lines import text_records
from windrow_runtime.connectors.files.systems import MOUNTED, FileSystem, files_of
from windrow_runtime.inputs.batches import SourceBatch, in_batches, source_batch
from windrow_runtime.inputs.text_rows import TextRows
from windrow_runtime.origins import Origin, counted_from, nowhere

if TYPE_CHECKING:
    from windrow_runtime.codecs.arrow.text_blocks import BlockFormat, PlainRows

# Any in this module: elements of every type, and pyarrow has no types.


@dataclass(frozen=True)
class TextBlockReader:
    """Reads the files of a source block by block, by a format that gives columns."""

    records: TextRecords
    format: Callable[[], BlockFormat]  # makes the format for a file
    files: FileSystem = MOUNTED

    @property
    def record_type(self) -> RecordType:
        """The type of the elements."""
        return self.records.record_type

    def read(self, file: str, part: int = 0, parts: int = 1) -> Iterator[TextRows]:
        """Reads a part of a file; raises a ``SourceError`` if that fails, or the file does not fit the type."""
        blocks = self.format()
        with unreadable(file, "a file that can be opened"), self.files.open(file) as opened:
            part_of_file = range_of(opened, file, part, parts if self.records.has_lines else 1)
            if part_of_file is None:
                return
            before = cache(lambda: lines_before(self.files, file, part_of_file))
            with open_bytes(file, part_of_file) as content:
                yield from self._rows(blocks, content, file, before, begins=not part)

    def read_lines(self, lines: Sequence[bytes], origin: Callable[[int], str]) -> TextRows:
        """Reads lines without line ends, each a row; ``origin`` describes where a line, numbered from 0, comes from."""
        blocks = self.format()
        (read,) = blocks.read(b"\n".join(lines))
        place = nowhere if read.others is None else counted_from(0, read.others, origin)
        return TextRows(
            read.columns,
            self.record_type,
            [
                (plain.row, source_batch(blocks.read_plain(io.BytesIO(plain.text)), _numbered(origin, plain.line)))
                for plain in read.plain
            ],
            place,
        )

    def _rows(
        self, blocks: BlockFormat, content: BinaryIO, file: str, before: Callable[[], int], *, begins: bool
    ) -> Iterator[TextRows]:
        # Arrow only where columns are read: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.text_blocks import blocks_of, no_rows

        def batch_of(plain: PlainRows, above: int) -> SourceBatch:
            return source_batch(blocks.read_plain(io.BytesIO(plain.text)), origin(above + plain.line), file)

        def origin(above: int) -> Callable[[int], str]:
            return lambda line: f"{file}:{before() + above + line}"

        above = 0  # lines of the part before the block
        for block, is_whole in blocks_of(content, blocks, self.records.sizes, begins=begins):
            for read in blocks.read(block) if is_whole else ():
                place: Origin = partial(_nowhere_in, file)
                if read.others is not None:
                    place = counted_from(1, read.others, origin(above))
                rows = [(plain.row, batch_of(plain, above)) for plain in read.plain]
                yield TextRows(read.columns, self.record_type, rows, place)
                above += read.lines
            if not is_whole:
                rest = blocks.read_plain(cast(BinaryIO, io.BufferedReader(_Joined(block, content))))
                for batch in in_batches(rest, origin(above), file):
                    yield TextRows(no_rows(self.record_type), self.record_type, [(0, batch)])


def _nowhere_in(file: str, index: int) -> str:
    return file


def _numbered(origin: Callable[[int], str], above: int) -> Callable[[int], str]:
    return lambda line: origin(above + line - 1)


class _Joined(io.RawIOBase):
    """Reads some bytes first, and then a file."""

    def __init__(self, begin: bytes, file: BinaryIO) -> None:
        self._begin = memoryview(begin)
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        data = self._begin[: len(buffer)] or self._file.read(len(buffer))
        self._begin = self._begin[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def text_block_reader(source: FileSource[Any]) -> TextBlockReader | str:
    """Returns a reader if the source's files can be read as columns, else the reason why they cannot."""
    if source.partitions:
        return f"folders give {', '.join(source.partitions)}"
    records, files = text_records(source), files_of(source.path) or MOUNTED
    if isinstance(records, LineRecords) and records.json:
        if not records.has_lines:
            return f"the encoding is {records.encoding}"
        from windrow_runtime.codecs.arrow.json_columns import JsonBlocks, line_by_line

        return line_by_line(records.record_type) or TextBlockReader(records, partial(JsonBlocks, records), files)
    if isinstance(records, DocumentRecords):
        return "its records are no lines"
    if isinstance(records, CsvRecords):
        from windrow_runtime.codecs.arrow.csv_blocks import CsvBlocks, row_by_row

        return row_by_row(records) or TextBlockReader(records, partial(CsvBlocks, records), files)
    return "the format has no columns"
