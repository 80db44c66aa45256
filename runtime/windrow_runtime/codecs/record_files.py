"""Records of text files: JSON lines, CSV and plain lines, read in one way by every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from windrow.sources import CsvFileSource, FileSource, JsonFileSource, TextFileSource
from windrow_runtime.codecs.csv.decoder import CsvDecoder
from windrow_runtime.codecs.csv.rows import CsvQuotes, CsvRow, csv_rows
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.malformed import MalformedRecord
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.text_files import bad_bytes, open_lines, shown_text

# Any in this module: sources and elements of every type.

_UTF_8: Final = "utf-8"


@dataclass(frozen=True, slots=True)
class TextRecords:
    """Reads records from the text files of a source.

    Attributes:
        kind: The type of the records.
        encoding: How characters are written.
    """

    kind: RecordType
    encoding: str

    @property
    def has_lines(self) -> bool:
        """Returns whether each line is a record, so that a file may be read in parts."""
        return False

    def read(self, name: str, file: BinaryIO, *, begins: bool = True) -> Iterator[tuple[int, object]]:
        """The records of a file, each with the number of the line in which it begins.

        Args:
            name: The name of the file; its end says how it is compressed.
            file: Its bytes, or those of a part.
            begins: Whether they are those from the beginning, where a byte order mark may be.

        Returns:
            Elements, a :class:`~windrow_runtime.codecs.malformed.MalformedRecord` for what is none, and an
            :class:`~windrow_runtime.codecs.malformed.UnmatchedHeader` where the user is to be warned of one.

        Raises:
            SourceError: If the file is damaged, or its header does not fit.
        """
        raise NotImplementedError

    def _wrong_bytes(self, text: str, found: str) -> MalformedRecord:
        written = "UTF-8" if self.encoding == _UTF_8 else self.encoding
        return MalformedRecord(shown_text(text).rstrip("\r\n"), f"not {written}: {found}", None)


@dataclass(frozen=True, slots=True)
class LineRecords(TextRecords):
    """A record on each line.

    Attributes:
        json: Whether lines are JSON; else they are the elements themselves.
    """

    json: bool

    @property
    def has_lines(self) -> bool:
        return self.encoding == _UTF_8

    def read(self, name: str, file: BinaryIO, *, begins: bool = True) -> Iterator[tuple[int, object]]:
        decode = self.decoder()
        with open_lines(name, file, self.encoding, newline=None, begins=begins) as lines:
            for number, ended in enumerate(lines, start=1):
                line = ended.removesuffix("\n")
                if not self.json or (line and not line.isspace()):
                    yield number, decode(line)

    def decoder(self) -> Callable[[str], object]:
        """Returns a function that makes a record of a line, or a ``MalformedRecord``."""
        decode: Callable[[str], object] = JsonDecoder(self.kind).try_decode if self.json else _itself

        def decode_line(line: str) -> object:
            found = None if line.isascii() else bad_bytes(line)
            return decode(line) if found is None else self._wrong_bytes(line, found)

        return decode_line


def _itself(line: str) -> object:
    return line


@dataclass(frozen=True, slots=True)
class CsvRecords(TextRecords):
    """A record in each row.

    Attributes:
        delimiter: The character between cells.
        header: Whether the first row names the columns; else they are the fields in order.
    """

    delimiter: str
    header: bool

    def read(self, name: str, file: BinaryIO, *, begins: bool = True) -> Iterator[tuple[int, object]]:
        with open_lines(name, file, self.encoding, newline="", begins=begins) as lines:
            quotes = CsvQuotes(self.delimiter)
            rows = csv_rows(lines, quotes)
            if self.header:
                first = next(rows, None)
                if first is None:
                    return
                wrong = self._wrong(first)
                if wrong is not None:
                    # Nobody knows what the cells below it are.
                    yield first.line, wrong
                    return
                names = first.cells
            else:
                names = [column.column for column in self.kind.columns]
            decoder = CsvDecoder(self.kind, names, quotes)
            if decoder.unmatched is not None:
                yield 1, decoder.unmatched
            for row in rows:
                wrong = self._wrong(row)
                if wrong is not None:
                    yield row.line, wrong
                elif row.cells:
                    yield row.line, decoder.try_decode(row)

    def _wrong(self, row: CsvRow) -> MalformedRecord | None:
        found = bad_bytes(row.text)
        if found is not None:
            return self._wrong_bytes(row.text, found)
        if row.fault is not None:
            return MalformedRecord(row.raw, row.fault, None)
        return None


def text_records(source: FileSource[Any]) -> TextRecords | None:
    """Makes the reader of a source whose files are text; ``None`` for other sources."""
    if isinstance(source, TextFileSource):
        return LineRecords(record_type(str), source.encoding, json=False)
    if isinstance(source, JsonFileSource):
        kind = record_type(source.record_type).in_timezone(source.timezone)
        return LineRecords(kind, source.encoding, json=True)
    if isinstance(source, CsvFileSource):
        kind = record_type(source.record_type).in_timezone(source.timezone)
        return CsvRecords(kind, source.encoding, source.delimiter, source.header)
    return None
