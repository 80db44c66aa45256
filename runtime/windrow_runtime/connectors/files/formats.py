"""Reads the files of sources in batches, for the interpreter and for Spark's workers.

Several workers read a large file in parallel: text in parts that are cut at line ends, Parquet by row groups.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from windrow.errors import UnsupportedOperationError
from windrow.sources import FileSource, ParquetFileSource
from windrow_runtime.codecs.malformed import MalformedValue, as_malformed
from windrow_runtime.codecs.pyarrow_check import check_parquet
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import TextRecords, is_compressed, unreadable
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.connectors.files.folders import FolderFields, folder_fields
from windrow_runtime.connectors.files.lines import text_records
from windrow_runtime.connectors.files.systems import MOUNTED, FileSystem, files_of
from windrow_runtime.inputs.batches import SourceBatch, in_batches
from windrow_runtime.inputs.text_rows import TextRows

if TYPE_CHECKING:
    from windrow_runtime.codecs.arrow.parquet import ParquetRows

# Any in this module: records of every type.

_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class TextReader:
    """Reads JSON lines, CSV and plain lines."""

    records: TextRecords
    folders: FolderFields | None = None
    files: FileSystem = MOUNTED

    def read(self, file: str, part: int = 0, parts: int = 1) -> Iterator[SourceBatch]:
        """Reads a part of a file; raises a ``SourceError`` if that fails, or the file does not fit the type."""
        records = self.records
        if self.folders is not None:
            values = self.folders.values_of(file)
            if isinstance(values, MalformedValue):
                yield SourceBatch(malformed=[as_malformed(values, file)] if part == 0 else [])
                return
            records = replace(records, record_type=self.folders.kind_of(values))
        with unreadable(file, "a file that can be opened"), self.files.open(file) as opened:
            content = range_of(opened, file, part, parts if records.has_lines else 1)
            if content is None:
                return
            before = cache(lambda: lines_before(self.files, file, content))
            records_read = records.read(file, content, begins=not part)
            yield from in_batches(records_read, lambda line: f"{file}:{before() + line}", file)


@dataclass(frozen=True)
class ParquetReader:
    """Reads the rows of Parquet files."""

    record_type: RecordType
    only: frozenset[str] | None = None  # the columns that the plan uses; None: all
    folders: FolderFields | None = None
    files: FileSystem = MOUNTED

    def read(self, file: str, part: int = 0, parts: int = 1) -> Iterator[ParquetRows | TextRows]:
        """Reads a part of a file by its row groups; raises a ``SourceError`` if that fails."""
        # Arrow only where Parquet is read: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.parquet import read_parquet

        if self.folders is None:
            yield from read_parquet(file, self.record_type, part, parts, self.only, self.files.open_columns)
            return
        values = self.folders.values_of(file)
        if isinstance(values, MalformedValue):
            from windrow_runtime.codecs.arrow.text_blocks import no_rows

            malformed = [as_malformed(values, file)] if part == 0 else []
            yield TextRows(no_rows(self.record_type), self.record_type, [(0, SourceBatch(malformed=malformed))])
            return
        only = None if self.only is None else self.only - {field.column for field in self.folders.fields}
        from windrow_runtime.codecs.arrow.encoding import with_constants

        for rows in read_parquet(file, self.folders.rest, part, parts, only, self.files.open_columns):
            full = with_constants(rows.rows, self.record_type, self.folders.fields, values)
            yield replace(rows, rows=full, record_type=self.record_type)


FileReader = TextReader | ParquetReader


def file_reader(source: FileSource[Any]) -> FileReader:
    """Returns the reader for the files of a source; raises an ``UnsupportedOperationError`` for unknown formats."""
    files = files_of(source.path) or MOUNTED
    if isinstance(source, ParquetFileSource):
        check_parquet()
        element_type = record_type(source.record_type).in_timezone(source.timezone)
        return ParquetReader(element_type, None, folder_fields(source, element_type), files)
    records = text_records(source)
    if records is None:
        raise UnsupportedOperationError(
            "files of this format cannot be read",
            given=source.describe(),
            expected="text, json, csv or parquet",
            hint="a CustomSource reads files of other formats",
        )
    return TextReader(records, folder_fields(source, records.record_type), files)


def range_of(file: BinaryIO, name: str, part: int, parts: int) -> BinaryIO | None:
    """Opens a part of a text file, cut at line ends; None if it is empty. A compressed file has one part."""
    if parts == 1 or is_compressed(name):
        return file if part == 0 else None
    size = file.seek(0, os.SEEK_END)
    begin, end = (_line_start(file, size * bound // parts) for bound in (part, part + 1))
    if begin >= end:
        return None
    file.seek(begin)
    return cast(BinaryIO, io.BufferedReader(_Range(file, begin, end), _CHUNK))


def _line_start(file: BinaryIO, offset: int) -> int:
    """Returns the offset of the first line that begins at ``offset`` or later."""
    if offset == 0:
        return 0
    file.seek(offset - 1)
    while chunk := file.readline(_CHUNK):
        if chunk.endswith(b"\n"):
            break
    return file.tell()


class _Range(io.RawIOBase):
    """Reads a range of bytes of a file."""

    def __init__(self, file: BinaryIO, begin: int, end: int) -> None:
        self._file = file
        self.begin = begin
        self._left = end - begin

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        data = self._file.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)


def lines_before(files: FileSystem, name: str, content: BinaryIO) -> int:
    """Counts the lines of a file before a part of it, with universal newlines."""
    begin = content.raw.begin if isinstance(content, io.BufferedReader) and isinstance(content.raw, _Range) else 0
    lines = 0
    after_return = False
    with files.open(name) as file:
        while begin > 0 and (data := file.read(min(_CHUNK, begin))):
            begin -= len(data)
            lines += data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
            if after_return and data.startswith(b"\n"):
                lines -= 1
            after_return = data.endswith(b"\r")
    return lines
