"""CSV files as columns, block by block; rows that are not read exactly so are left to the plain reader."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.plan.records import hook_of
from windrow_runtime.codecs.arrow.csv_columns import CsvColumns, CsvRead, end_of_regular_rows
from windrow_runtime.codecs.arrow.text_blocks import BlockRead, PlainRows, concatenated
from windrow_runtime.codecs.arrow.text_scalars import TEXT_KINDS
from windrow_runtime.codecs.csv import CsvDecoder, end_of_rows
from windrow_runtime.codecs.text_files import UTF_8, CsvRecords
from windrow_runtime.codecs.value_type import RecordType

_LINE_FEED, _RETURN, _QUOTE = b'\n\r"'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NEAR: Final = 1 << 16
"""After a broken quote, rows with quotes in order are looked for in this many bytes, and then in ever more."""

_CLOSE: Final = 1 << 13
"""Broken quotes that are closer to each other than this are read together with the rows between them."""

_MOST_PLAIN: Final = 4096
_LEAST: Final = 1024
"""The bytes of the rows that are read one by one in the time that an attempt to read columns takes."""


class _Rows(NamedTuple):
    """Consecutive whole rows of a block, whose quotes are in order or not."""

    begin: int
    end: int
    are_regular: bool


def row_by_row(records: CsvRecords) -> str | None:
    """The reason why rows are read one by one; None: they can be read as columns."""
    kind = records.kind
    if records.encoding != UTF_8:
        return f"the encoding is {records.encoding}"
    if not "\0" < records.delimiter < "\x80":
        return f"the delimiter {records.delimiter!r} is more than a byte"
    made_by = None if kind.single else hook_of(kind.root.python_type)
    if made_by is not None:
        return f"{kind.name} has a {made_by}"
    for field in kind.columns:
        if field.type.kind not in TEXT_KINDS or field.absent_allowed:
            return f"{kind.prefix}{field.name} {'may be absent' if field.absent_allowed else f'is a {field.type}'}"
        if field.type.time_format is not None:
            return f"{kind.prefix}{field.name} is {field.type.time_format}"
    return None


def _rows_in(block: bytes, delimiter: str, *, whole: bool) -> Iterator[_Rows]:
    """The rows of a block, as far as the plain reader would find their ends without what is below it.

    If the block is ``whole``, there is nothing below it.
    """
    at, near, plain = 0, len(block), 1
    while at < len(block):
        some = block[at : at + near]
        end = end_of_regular_rows(some, delimiter, whole=whole and at + near >= len(block))
        is_regular = bool(end)
        if is_regular:
            near, plain = 2 * near, plain if end < _CLOSE else 1
        else:
            end = _end_of_plain_rows(block, at, delimiter, plain, whole=whole)
            if not end:
                return
            near, plain = _NEAR, min(2 * plain, _MOST_PLAIN)
        yield _Rows(at, at + end, is_regular)
        at += end


def _end_of_plain_rows(block: bytes, at: int, delimiter: str, count: int, *, whole: bool) -> int:
    """How many bytes some rows have that begin at a place, where only the plain reader finds their ends."""
    size = _NEAR
    while True:
        some = block[at : at + size]
        to_end = at + size >= len(block)
        if not (whole and to_end):
            some = some[: some.rfind(b"\n") + 1]
        # Each byte becomes a character; delimiters, quotes and line ends are the same in UTF-8.
        end = end_of_rows(some.decode("latin-1"), delimiter, count, whole=whole and to_end)
        if end or to_end:
            return end
        size *= 4


@dataclass
class CsvBlocks:
    """Reads the rows of one file; :func:`row_by_row` has no reason against it."""

    records: CsvRecords
    _decoder: CsvDecoder | None = None  # None: there are no rows, or the header was not read
    _columns: CsvColumns | None = None  # None: no block is exact
    _has_begun: bool = False
    _header: Sequence[tuple[int, object]] = ()  # what is still to be reported of the header
    _rows: Sequence[_Rows] = ()  # those of the next block, where they are known

    @property
    def kind(self) -> RecordType:
        return self.records.kind

    def end_of_rows(self, data: bytes) -> int:
        # The mark of the byte order is no part of the first cell.
        mark = 0 if self._has_begun or not data.startswith(_BYTE_ORDER_MARK) else len(_BYTE_ORDER_MARK)
        rows = list(_rows_in(data[mark:], self.records.delimiter, whole=False))
        self._rows = rows if self._has_begun else ()
        return mark + rows[-1].end if rows else 0

    def read(self, block: bytes) -> BlockRead:
        found = _Found(self.kind)
        if not self._has_begun:
            end = self._begin(block)
            if self._header:
                found.leave(block[:end])
                found.skip(b"")  # what is reported of the header is no row
            else:
                found.skip(block[:end])
            block = block[end:]
        known, self._rows = self._rows, ()
        if not known:
            known = list(_rows_in(block, self.records.delimiter, whole=True))
        for rows in known if self._decoder is not None else ():
            text = block[rows.begin : rows.end]
            if rows.are_regular and self._columns is not None:
                _read_regular(self._columns, text, found)
            else:
                found.leave(text)
        return found.result()

    def _begin(self, block: bytes) -> int:
        """Reads the header; returns where it ends."""
        self._has_begun = True
        delimiter = self.records.delimiter
        end = _end_of_plain_rows(block, 0, delimiter, 1, whole=True) if self.records.header else 0
        self._decoder, self._header = self.records.begin(self.records.rows_of(io.BytesIO(block[:end])))
        if self._decoder is not None:
            columns = CsvColumns(self.kind, self._decoder.header, delimiter)
            self._columns = columns if columns.is_able else None
        return end

    def read_plain(self, file: BinaryIO) -> Iterable[tuple[int, object]]:
        if self._header:
            yield from self._header
            self._header = ()
            return
        rows = self.records.rows_of(file)
        if not self._has_begun:
            self._has_begun = True
            self._decoder, found = self.records.begin(rows)
            yield from found
        if self._decoder is not None:
            yield from self.records.decoded(rows, self._decoder)


def _read_regular(columns: CsvColumns, text: bytes, found: _Found) -> None:
    """Reads rows whose quotes are in order as columns: halves those that are not exact, as long as that pays."""
    patience = len(text) // 2
    waiting = [text]
    while waiting:
        some = waiting.pop()
        is_tried = len(some) > _LEAST and patience > 0
        read = columns.read(some, is_regular=True) if is_tried else None
        if read is not None and len(read.left_out) > read.total // 4:
            found.leave(some)
            continue
        if read is not None and found.add(read, some):
            continue
        middle = end_of_regular_rows(some[: len(some) // 2], columns.delimiter, whole=False) if is_tried else 0
        if middle:
            patience -= _LEAST + len(some) // 32
            waiting += (some[middle:], some[:middle])
        else:
            found.leave(some)


def _bounds_of_rows(text: bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where rows begin and end whose quotes are in order, if line feeds end all lines; empty lines are none."""
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == _LINE_FEED) + 1
    if b'"' in text:
        ends = ends[np.searchsorted(np.flatnonzero(data == _QUOTE), ends) % 2 == 0]
    if not text.endswith(b"\n"):
        ends = np.append(ends, len(text))
    begins = np.concatenate([[0], ends[:-1]])
    first = data[begins]
    is_row = (first != _LINE_FEED) & (first != _RETURN)
    return begins[is_row], ends[is_row]


class _Found:
    """What a block holds, in the order of its rows."""

    def __init__(self, kind: RecordType) -> None:
        self._kind = kind
        self._batches: list[pa.RecordBatch] = []
        self._plain: list[PlainRows] = []
        self._row = self._line = 0
        self._is_plain = False  # whether the last rows are to be read one by one

    def add(self, read: CsvRead, text: bytes) -> bool:
        """Adds the next rows, unless it is not clear where those are that are left out."""
        begins = ends = np.zeros(0, np.intp)
        if read.left_out:
            if text.count(b"\r") != text.count(b"\r\n"):
                return False
            begins, ends = _bounds_of_rows(text)
            if len(begins) != read.total:
                return False
        self._batches.append(read.columns)
        row, at = self._row, 0
        for before, number in enumerate(read.left_out):
            begin, end = int(begins[number]), int(ends[number])
            self._row = row + number - before
            if begin > at:
                self.skip(text[at:begin])
            self.leave(text[begin:end])
            at = end
        self._row = row + read.columns.num_rows
        if at < len(text):
            self.skip(text[at:])
        return True

    def leave(self, text: bytes) -> None:
        """Leaves the next rows to the plain reader."""
        if self._is_plain:
            last = self._plain.pop()
            self._plain.append(last._replace(text=last.text + text))
        else:
            self._plain.append(PlainRows(self._row, self._line, text))
        self.skip(text)
        self._is_plain = True

    def skip(self, text: bytes) -> None:
        """Leaves out lines; those left before are not read together with others."""
        self._is_plain = False
        self._line += text.count(b"\n")
        if b"\r" in text:
            self._line += text.count(b"\r") - text.count(b"\r\n")

    def result(self) -> BlockRead:
        """The columns, and the rows to be read one by one."""
        return BlockRead(concatenated(self._batches, self._kind), self._plain, self._line)
