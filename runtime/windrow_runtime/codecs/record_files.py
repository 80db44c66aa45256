"""Records as text files: JSON lines, CSV and plain lines, read and written in one way by every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, TypeAlias

from windrow.errors import InvalidArgumentError
from windrow.sinks import CsvFileSink, FileSink, JsonFileSink, TextFileSink
from windrow.sources import CsvFileSource, FileSource, JsonFileSource, TextFileSource
from windrow_runtime.codecs.csv import CsvDecoder, CsvEncoder, CsvRow, csv_rows
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.json.encoder import JsonEncoder
from windrow_runtime.codecs.malformed import MalformedRecord, short_repr
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.text_files import UTF_8, open_lines, wrong_bytes

# Any in this module: sources, sinks and elements of every type.


@dataclass(frozen=True, slots=True)
class LineRecords:
    """Reads a record from each line of a text file: JSON, or else the element itself."""

    kind: RecordType
    encoding: str
    json: bool

    @property
    def has_lines(self) -> bool:
        """Returns whether each line is a record, so that a file may be read in parts."""
        return self.encoding == UTF_8

    def read(self, name: str, file: BinaryIO, *, begins: bool = True) -> Iterator[tuple[int, object]]:
        """The records of a file or of a part of it, each with the number of the line in which it begins.

        The end of the name says how the file is compressed; a part that begins it may have a byte order mark. What is
        no element is a ``MalformedRecord``, and a header of which the user is to be warned an ``UnmatchedHeader``. A
        file that is damaged, or whose header does not fit, is a ``SourceError``.
        """
        decode = self.decoder()
        with open_lines(name, file, self.encoding, newline=None, begins=begins) as lines:
            for number, ended in enumerate(lines, start=1):
                line = ended.removesuffix("\n")
                if not self.json or (line and not line.isspace()):
                    yield number, decode(line)

    def decoder(self) -> Callable[[str], object]:
        """Returns a function that makes a record of a line, or a ``MalformedRecord``."""
        decode = JsonDecoder(self.kind).decode if self.json else None

        def decode_line(line: str) -> object:
            wrong = None if line.isascii() else wrong_bytes(line, self.encoding)
            if wrong is not None:
                return wrong
            return line if decode is None else decode(line)

        return decode_line


@dataclass(frozen=True, slots=True)
class CsvRecords:
    """Reads a record from each row of a text file; without a header the columns are the fields in order."""

    kind: RecordType
    encoding: str
    delimiter: str
    header: bool
    has_lines: ClassVar[bool] = False

    def read(self, name: str, file: BinaryIO, *, begins: bool = True) -> Iterator[tuple[int, object]]:
        """The same as for lines."""
        with open_lines(name, file, self.encoding, newline="", begins=begins) as lines:
            rows = csv_rows(lines, self.delimiter)
            names = [column.column for column in self.kind.columns]
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
            decoder = CsvDecoder(self.kind, names)
            if decoder.unmatched is not None:
                yield 1, decoder.unmatched
            for row in rows:
                wrong = self._wrong(row)
                if wrong is not None:
                    yield row.line, wrong
                elif row.cells:
                    yield row.line, decoder.decode(row)

    def _wrong(self, row: CsvRow) -> MalformedRecord | None:
        wrong = wrong_bytes(row.text, self.encoding)
        if wrong is None and row.fault is not None:
            return MalformedRecord(row.raw, row.fault, None)
        return wrong


TextRecords: TypeAlias = LineRecords | CsvRecords


def text_records(source: FileSource[Any]) -> TextRecords | None:
    """Makes the reader of a source whose files are text; ``None`` for other sources."""
    if isinstance(source, TextFileSource):
        return LineRecords(record_type(str), source.encoding, json=False)
    if isinstance(source, (JsonFileSource, CsvFileSource)):
        kind = record_type(source.record_type).in_timezone(source.timezone)
        if isinstance(source, JsonFileSource):
            return LineRecords(kind, source.encoding, json=True)
        return CsvRecords(kind, source.encoding, source.delimiter, source.header)
    return None


@dataclass(frozen=True, slots=True)
class LineEncoder:
    """Makes lines of the elements of a sink, and says with what its files begin and how their names end."""

    encode: Callable[[object], str]  # a line without its end; InvalidArgumentError for an element that has none
    ending: str
    header: str | None = None


def line_encoder(sink: FileSink[Any], kind: RecordType) -> LineEncoder | None:
    """Makes the encoder of a sink whose files have lines; ``None`` for other sinks."""
    if isinstance(sink, JsonFileSink):
        return LineEncoder(JsonEncoder(kind).encode, ".json")
    if isinstance(sink, CsvFileSink):
        encoder = CsvEncoder(kind, sink.delimiter)
        return LineEncoder(encoder.encode, ".csv", encoder.header if sink.header else None)
    return LineEncoder(_line, ".txt") if isinstance(sink, TextFileSink) else None


def _line(value: object) -> str:
    if not isinstance(value, str):
        reason = "it is no str"
    elif "\n" in value or "\r" in value:
        reason = "it has a line end within"
    elif value.startswith("\ufeff"):
        reason = "it begins with a byte order mark, which is no part of a file's first line"
    else:
        try:
            value.encode()
        except UnicodeEncodeError:
            reason = "it has half a surrogate pair"
        else:
            return value
    raise InvalidArgumentError(
        f"an element is no line of text: {reason}",
        given=short_repr(value),
        expected="a str without line ends",
        hint="split it with flat_map, or write it with JsonFileSink",
    )
