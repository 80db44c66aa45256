"""Reads and writes text files of records, in one way on every engine: JSON lines, CSV and plain lines.

Files are decompressed by the ends of their names, and decoded so that bytes that are no characters are seen.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import BinaryIO, ClassVar, Final, TypeAlias, cast

from windrow.errors import SourceError, UnsupportedOperationError
from windrow_runtime.codecs.csv import CsvDecoder, CsvRow, csv_rows
from windrow_runtime.codecs.csv_forms import STRICT, CsvForms
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.json.documents import LongValueError, split_values
from windrow_runtime.codecs.malformed import MalformedValue, raw_text
from windrow_runtime.codecs.pyarrow_check import check_pyarrow
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.codecs.text_sizes import MEASURED_SIZES, TextSizes

UTF_8: Final = "utf-8"

_INFLATED: Final = 1 << 16

# Undecodable bytes become halves of surrogate pairs, which no text has that was decoded, whatever the encoding.
_MARK: Final = "windrow-mark"
_MARKED: Final = re.compile("[\udc00-\udcff]")
_BYTE_ORDER_MARK: Final = "\ufeff"
# The mark says in which order the bytes are; files without it are taken as Python's decode() takes them here.
_MARKED_ENCODINGS: Final = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_MARK, _mark)


def decoded(data: bytes, encoding: str) -> str:
    """The text of some bytes; those that are no characters are found by :func:`wrong_bytes`."""
    return data.decode(encoding, _MARK)


def wrong_bytes(text: str, encoding: str) -> MalformedValue | None:
    r"""The fault of a decoded text that has bytes that are no characters, which are shown as ``\xff``."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        codes = [f"0x{ord(mark.group()) - 0xDC00:02x}" for mark in islice(_MARKED.finditer(text), 5)]
        listed = ", ".join(codes[:4]) + ("..." if len(codes) > 4 else "")
        shown = _MARKED.sub(lambda mark: f"\\x{ord(mark.group()) - 0xDC00:02x}", raw_text(text)).rstrip("\r\n")
        return MalformedValue(shown, f"not {'UTF-8' if encoding == UTF_8 else encoding}: {listed}", None)
    return None


def _zstd(file: BinaryIO) -> BinaryIO:
    check_pyarrow("files in Zstandard are decompressed")
    import pyarrow as pa

    return cast(BinaryIO, io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")))


class _Inflated(io.RawIOBase):
    """The bytes of a file of zlib's format."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._zlib = zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        while not self._zlib.eof:
            compressed = self._zlib.unconsumed_tail or self._file.read(_INFLATED)
            data = self._zlib.decompress(compressed, len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
            if not compressed:
                raise zlib.error("incomplete or truncated stream")
        return 0


_OPENERS: Final[dict[str, Callable[[BinaryIO], BinaryIO]]] = {
    ".gz": lambda file: cast(BinaryIO, gzip.GzipFile(fileobj=file)),
    ".bz2": lambda file: cast(BinaryIO, bz2.BZ2File(file)),
    ".deflate": lambda file: cast(BinaryIO, io.BufferedReader(_Inflated(file), _INFLATED)),
    ".zst": _zstd,
}
# Hadoop has formats of its own for the first three, and Spark reads them as nothing where they are no such files. It
# reads a file whose ending has capitals as one that is not compressed.
_REFUSED: Final = (".snappy", ".lz4", ".lzo", ".xz", ".zip", ".7z", ".br")


def is_compressed(name: str) -> bool:
    """Returns whether a file of that name is decompressed before it is read."""
    return os.path.splitext(name)[1] in _OPENERS


@contextmanager
def open_bytes(name: str, file: BinaryIO) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed as its name says; damage is a ``SourceError``, here or where they are read."""
    ending = os.path.splitext(name)[1]
    if ending not in _OPENERS and ending.lower() in {*_REFUSED, *_OPENERS}:
        raise UnsupportedOperationError(
            "a file is compressed in a way that is not read",
            given=name,
            expected=f"names that end in {', '.join(_OPENERS)}, or text that is not compressed",
            hint="compress it in another way, or give it another name",
        )
    with unreadable(name, "a whole file, compressed as its name says"):
        plain = file
        # A file without a byte has no lines: somebody made it, and has not written it. Spark does not list it.
        if ending in _OPENERS and file.read(1):
            file.seek(0)
            plain = _OPENERS[ending](file)
        yield plain


class _LimitedLines(io.BufferedIOBase):
    """The bytes of a text in UTF-8; it raises a ``SourceError`` where a line is longer than allowed."""

    def __init__(self, file: BinaryIO, longest: int) -> None:
        self._file = file
        self._longest = longest
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)
        self._length = 0  # of the line that was not ended yet

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1) -> bytes:
        data = self._read(size)
        end = max(data.rfind(b"\n"), data.rfind(b"\r"))
        if end >= 0:
            self._length = len(data) - end - 1
        else:
            self._length += len(data)
            if self._length > self._longest:
                raise _too_long("line", "bytes", self._longest)
        return data

    def read(self, size: int | None = -1) -> bytes:
        return self.read1(-1 if size is None else size)

    def close(self) -> None:
        self._file.close()
        super().close()


def _limited_lines(file: BinaryIO, longest: int) -> BinaryIO:
    """The bytes of a text in UTF-8, with a ``SourceError`` where a line is too long."""
    return cast(BinaryIO, _LimitedLines(file, longest))


def _bounded_lines(text: io.TextIOWrapper, longest: int) -> Iterator[str]:
    while line := text.readline(longest + 1):
        if len(line) > longest:
            raise _too_long("line", "characters", longest)
        yield line


def _too_long(what: str, unit: str, longest: int) -> SourceError:
    return SourceError(
        f"a {what} of a file is too long",
        given=f"more than {longest:,} {unit}",
        expected=f"a {what} of at most that many {unit}",
        hint="end each record with a line end; one array of JSON, or records of many lines: JsonFileSource(lines=False)"
        if what == "line"
        else "with lines=False a file holds one array of records, or records one after another",
    )


@contextmanager
def open_text(
    name: str, file: BinaryIO, encoding: str, *, newline: str | None, longest: int | None = None
) -> Iterator[io.TextIOWrapper]:
    """The text of a file; its name says how it is compressed.

    Bytes that are no characters are found by :func:`wrong_bytes`. A file that is damaged is a ``SourceError``, here or
    where the text is read. So is a line of UTF-8 of more bytes than ``longest``.
    """
    with open_bytes(name, file) as content:
        plain = content if longest is None or encoding != UTF_8 else _limited_lines(content, longest)
        if encoding in _MARKED_ENCODINGS:
            buffered = io.BufferedReader(cast(io.RawIOBase, content))
            plain = cast(BinaryIO, buffered)
            if not buffered.peek(4).startswith(_MARKED_ENCODINGS[encoding]):
                encoding = f"{encoding}-le"
        with io.TextIOWrapper(plain, encoding=encoding, errors=_MARK, newline=newline) as text:
            yield text


@contextmanager
def open_lines(
    name: str, file: BinaryIO, encoding: str, longest: int, *, newline: str | None, begins: bool = True
) -> Iterator[Iterator[str]]:
    """The lines of a file with their ends, without a byte order mark, as :func:`open_text` reads it.

    Only a part that begins the file, as ``begins`` says, may have a byte order mark. A line longer than ``longest`` is
    a ``SourceError``.
    """
    with open_text(name, file, encoding, newline=newline, longest=longest) as text:
        lines = iter(text) if encoding == UTF_8 else _bounded_lines(text, longest)
        first = next(lines, "")
        if begins:
            first = first.removeprefix(_BYTE_ORDER_MARK)
        yield chain([first] if first else [], lines)


@contextmanager
def unreadable(file: str, expected: str, *others: type[Exception]) -> Iterator[None]:
    """Raises a ``SourceError`` in the place of an ``OSError``, an error of decompressing, or one of the others."""
    kinds: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, *others)
    try:
        yield
    except kinds as error:
        raise SourceError(
            "a file cannot be read",
            given=f"{file}: {' '.join(str(error).split())}",
            expected=expected,
            hint="let the user who runs the pipeline read the file"
            if isinstance(error, PermissionError)
            else "put a whole file in its place; write files elsewhere, and move them when they are whole",
        ) from error


# Any in this module: sources, sinks and elements of every type.


@dataclass(frozen=True, slots=True)
class LineRecords:
    """Reads a record from each line of a text file: JSON, or else the element itself."""

    record_type: RecordType
    encoding: str
    json: bool
    sizes: TextSizes = MEASURED_SIZES

    @property
    def has_lines(self) -> bool:
        """Returns whether each line is a record, so that a file may be read in parts."""
        return self.encoding == UTF_8

    def read(self, name: str, file: BinaryIO, *, begins: bool = True) -> Iterator[tuple[int, object]]:
        """The records of a file or of a part of it, each with the number of the line in which it begins.

        What is no element is a ``MalformedRecord``, and a header of which the user is to be warned an
        ``UnmatchedHeader``. A file that is damaged, or whose header does not fit, is a ``SourceError``.
        """
        with open_lines(name, file, self.encoding, self.sizes.longest_line, newline=None, begins=begins) as lines:
            yield from self._read(lines, self.decoder())

    def read_lines(self, file: BinaryIO, decode: Callable[[str], object]) -> Iterator[tuple[int, object]]:
        """The records of lines that are not compressed, without a byte order mark, by a function of :meth:`decoder`."""
        limited = _limited_lines(file, self.sizes.longest_line)
        with io.TextIOWrapper(limited, encoding=self.encoding, errors=_MARK, newline=None) as lines:
            yield from self._read(lines, decode)

    def _read(self, lines: Iterator[str], decode: Callable[[str], object]) -> Iterator[tuple[int, object]]:
        for number, ended in enumerate(lines, start=1):
            line = ended.removesuffix("\n")
            if not self.json or (line and not line.isspace()):
                yield number, decode(line)

    def decoder(self) -> Callable[[str], object]:
        """Returns a function that makes a record of a line, or a ``MalformedRecord``."""
        decode = JsonDecoder(self.record_type).decode if self.json else None

        def decode_line(line: str) -> object:
            wrong = None if line.isascii() else wrong_bytes(line, self.encoding)
            if wrong is not None:
                return wrong
            if decode is None:
                return line
            record = decode(line)
            return self._hinted(record, line) if type(record) is MalformedValue else record

        return decode_line

    def _hinted(self, record: MalformedValue, line: str) -> MalformedValue:
        """Says that a record is a line, where a line looks like a part of a longer text."""
        is_part = record.reason.startswith("not JSON") and line.rstrip().endswith(("{", "[", ",", "}", "]"))
        is_array = line.lstrip().startswith("[") and (record.field == self.record_type.name or is_part)
        if not is_array and not is_part:
            return record
        reason = f"{record.reason}; each line has to be a record: lines=False reads records of many lines, and arrays"
        return replace(record, reason=reason)


@dataclass(frozen=True, slots=True)
class DocumentRecords:
    """Reads the records of a JSON text, which is an array of records, or has one after the other, on any lines."""

    record_type: RecordType
    encoding: str
    sizes: TextSizes = MEASURED_SIZES
    has_lines: ClassVar[bool] = False

    def read(self, name: str, file: BinaryIO, *, begins: bool = True) -> Iterator[tuple[int, object]]:
        """Reads the records of a file, each with its line; stops at a fault of the array itself."""
        decode = JsonDecoder(self.record_type).decode
        size, longest = self.sizes.document_block, self.sizes.longest_line
        with open_text(name, file, self.encoding, newline=None) as text:
            first = text.read(size).removeprefix(_BYTE_ORDER_MARK)
            try:
                for value in split_values(chain([first], iter(lambda: text.read(size), "")), longest):
                    wrong = wrong_bytes(value.text, self.encoding)
                    if wrong is None and value.fault is not None:
                        wrong = MalformedValue(value.text, f"not JSON: {value.fault}", None)
                    yield value.line, decode(value.text) if wrong is None else wrong
            except LongValueError:
                raise _too_long("record", "characters", longest) from None


@dataclass(frozen=True, slots=True)
class CsvRecords:
    """Reads a record from each row of a text file; without a header the columns are the fields in order."""

    record_type: RecordType
    encoding: str
    delimiter: str
    header: bool
    forms: CsvForms = STRICT
    sizes: TextSizes = MEASURED_SIZES
    has_lines: ClassVar[bool] = False

    def read(self, name: str, file: BinaryIO, *, begins: bool = True) -> Iterator[tuple[int, object]]:
        """The records of a file, as from lines."""
        with open_lines(name, file, self.encoding, self.sizes.longest_line, newline="", begins=begins) as lines:
            rows = csv_rows(lines, self.delimiter, self.forms.nulls)
            decoder, warnings = self.begin(rows)
            yield from warnings
            if decoder is not None:
                yield from self.decoded(rows, decoder)

    def rows_of(self, file: BinaryIO) -> Iterator[CsvRow]:
        """The rows of a text that is not compressed and has no byte order mark."""
        limited = _limited_lines(file, self.sizes.longest_line)
        return csv_rows(io.TextIOWrapper(limited, self.encoding, _MARK, newline=""), self.delimiter)

    def begin(self, rows: Iterator[CsvRow]) -> tuple[CsvDecoder | None, list[tuple[int, object]]]:
        """Reads the header; returns a decoder of the rows below it, if there are any, and faults of the header."""
        names = [column.column for column in self.record_type.columns if column.constant is None]
        if self.header:
            first = next(rows, None)
            if first is None:
                return None, []
            wrong = self._wrong(first)
            if wrong is not None:
                # Nobody knows what the cells below it are.
                return None, [(first.line, wrong)]
            names = first.cells
        decoder = CsvDecoder(self.record_type, names, self.forms)
        return decoder, [] if decoder.unmatched is None else [(1, decoder.unmatched)]

    def decoded(self, rows: Iterator[CsvRow], decoder: CsvDecoder) -> Iterator[tuple[int, object]]:
        """The records of rows, each with the number of the line in which it begins."""
        for row in rows:
            wrong = self._wrong(row)
            if wrong is not None:
                yield row.line, wrong
            elif row.cells:
                yield row.line, decoder.decode(row)

    def _wrong(self, row: CsvRow) -> MalformedValue | None:
        fault = None if row.fault is None else MalformedValue(row.raw, row.fault, None)
        return wrong_bytes(row.text, self.encoding) or fault


TextRecords: TypeAlias = LineRecords | DocumentRecords | CsvRecords
