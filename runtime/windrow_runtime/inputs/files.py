"""Readers of the files of sources, for the interpreter and for Spark's workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from windrow.errors import UnsupportedOperationError
from windrow.sources import FileSource, ParquetFileSource
from windrow_runtime.codecs.record_files import TextRecords, text_records
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import check_parquet, opened_file
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.inputs.batch import SourceBatch, in_batches
from windrow_runtime.inputs.file_ranges import lines_before, range_of

if TYPE_CHECKING:
    from windrow_runtime.codecs.arrow.parquet import ParquetRows

# Any in this module: records of every type.


class FileReader(Protocol):
    """Reads files in two steps, since some rows of a file need not become elements."""

    def read(self, file: str, part: int = 0, parts: int = 1) -> Iterator[Any]:
        """Reads a part of a file.

        Raises:
            SourceError: If the file cannot be read, or does not fit the record type.
        """
        ...

    def decode(self, batch: Any) -> SourceBatch:
        """Makes elements of what ``read`` gives."""
        ...


@dataclass(frozen=True)
class TextReader:
    """Reads JSON lines, CSV and plain lines.

    Attributes:
        records: How records are read from a file.
    """

    records: TextRecords

    def read(self, file: str, part: int = 0, parts: int = 1) -> Iterator[SourceBatch]:
        records = self.records
        with opened_file(file) as opened:
            given = range_of(opened, file, part, parts if records.has_lines else 1)
            if given is None:
                return
            before = cache(lambda: lines_before(file, given))
            found = records.read(file, given, begins=not part)
            yield from in_batches(found, lambda line: f"{file}:{before() + line}", file)

    def decode(self, batch: Any) -> SourceBatch:
        assert isinstance(batch, SourceBatch)
        return batch


@dataclass(frozen=True)
class ParquetReader:
    """Reads Parquet files.

    Attributes:
        kind: The type of the records.
    """

    kind: RecordType

    def read(self, file: str, part: int = 0, parts: int = 1) -> Iterator[ParquetRows]:
        # Arrow only where Parquet is read: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.parquet import read_parquet

        return read_parquet(file, self.kind, part, parts)

    def decode(self, batch: ParquetRows) -> SourceBatch:
        return SourceBatch(*batch.decode(self.kind))


def file_reader(source: FileSource[Any]) -> TextReader | ParquetReader:
    """Makes the reader of a source.

    Raises:
        UnsupportedOperationError: If nothing reads files of its format, or Parquet without pyarrow.
    """
    if isinstance(source, ParquetFileSource):
        check_parquet()
        return ParquetReader(record_type(source.record_type).in_timezone(source.timezone))
    records = text_records(source)
    if records is None:
        raise UnsupportedOperationError(
            "files of this format cannot be read",
            given=source.describe(),
            expected="text, json, csv or parquet",
            hint="a CustomSource reads files of other formats",
        )
    return TextReader(records)
