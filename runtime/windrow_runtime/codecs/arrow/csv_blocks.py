"""Reads CSV files as columns, block by block, and some rows below a broken quote row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from windrow.plan.records import hook_of
from windrow_runtime.codecs.arrow.text_blocks import (
    BlockRead,
    PlainRows,
    is_utf_8,
    left_out,
    lines_in,
    no_rows,
    plain_block,
    split_block,
)
from windrow_runtime.codecs.arrow.text_scalars import TEXT_KINDS, absent_is_none, read_columns
from windrow_runtime.codecs.csv import LONGEST_CELL, CsvDecoder, CsvRow, end_of_rows
from windrow_runtime.codecs.csv_forms import STRICT
from windrow_runtime.codecs.text_files import UTF_8, CsvRecords
from windrow_runtime.codecs.value_type import Kind, RecordField, RecordType

# Any in this module: pyarrow has no types.

_LINE_FEED, _RETURN, _QUOTE = b'\n\r"'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_PLAIN_ROWS: Final = 1000
"""How many rows from a broken quote on are read one by one, before columns are tried again."""


def row_by_row(records: CsvRecords) -> str | None:
    """The reason why rows are read one by one; None: they can be read as columns."""
    record_type = records.record_type
    if records.encoding != UTF_8:
        return f"the encoding is {records.encoding}"
    if not "\0" < records.delimiter < "\x80":
        return f"the delimiter {records.delimiter!r} is more than a byte"
    if records.forms != STRICT:
        return "the source has options for null texts, truth values or numbers"
    made_by = None if record_type.single else hook_of(record_type.root.python_type)
    if made_by is not None:
        return f"{record_type.name} has a {made_by}"
    for column in record_type.columns:
        name = f"{record_type.prefix}{column.name}"
        if column.absent_allowed:
            return f"{name} may be absent"
        if column.type.kind not in TEXT_KINDS:
            return f"{name} is a {column.type}"
        if column.type.time_format is not None:
            return f"{name} is {column.type.time_format}"
    return None


class CsvColumns:
    """Reads columns from blocks of whole rows, without the header, as far as they are exact.

    The type and the delimiter are such that :func:`row_by_row` has no reason
    against them, and the header has fitted the type, as :class:`~windrow_runtime.codecs.csv.CsvDecoder` says.
    ``is_able`` says whether any block may be exact.
    """

    def __init__(self, records: CsvRecords, header: Sequence[str]) -> None:
        self._records = records
        self._record_type = records.record_type
        places = {name: str(index) for index, name in enumerate(header)}
        self._names = [places.get(field.column) for field in self._record_type.columns]
        needed = [name for name in self._names if name is not None]
        lacking = [field for field in self._record_type.columns if field.column not in places]
        self.is_able = bool(needed) and all(map(absent_is_none, lacking))  # Arrow counts no rows without a column
        self._read = pa.csv.ReadOptions(
            use_threads=False, block_size=LONGEST_CELL, column_names=[str(index) for index in range(len(header))]
        )
        self._convert = pa.csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(needed, pa.string()),
            include_columns=needed,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def read(self, block: bytes) -> BlockRead | None:
        """Reads the columns of a block whose quotes are in order; ``None`` if its rows do not lend themselves to it."""
        if len(block) >= LONGEST_CELL or b"\0" in block or block.startswith(_BYTE_ORDER_MARK) or not is_utf_8(block):
            return None
        has_quotes = b'"' in block
        wrong_widths: list[int] = []
        parse = pa.csv.ParseOptions(
            delimiter=self._records.delimiter,
            quote_char='"' if has_quotes else False,
            newlines_in_values=has_quotes,
            invalid_row_handler=partial(_leave_out, wrong_widths),
        )
        try:
            table = pa.csv.read_csv(pa.BufferReader(block), self._read, parse, self._convert)
        except pa.ArrowInvalid:
            return None
        cells = [
            _cells(pa.nulls(table.num_rows, pa.string()) if name is None else _whole(table.column(name)), field)
            for field, name in zip(self._record_type.columns, self._names, strict=True)
        ]
        columns, good = read_columns(cells, self._record_type)
        left = left_out(wrong_widths, good)
        plain = _rows_at(left, block, table.num_rows + len(wrong_widths)) if left else []
        if plain is None:
            return None
        lines = lines_in(block)
        has_line_each = lines + (not block.endswith((b"\n", b"\r"))) == table.num_rows + len(wrong_widths)
        return split_block(block, columns, plain, self._records, lines, left if has_line_each else None)


def _cells(texts: pa.Array, field: RecordField) -> pa.Array:
    """The cells of a field, null where the value is absent; empty ones were null, but for those in quotes."""
    if field.type.kind is not Kind.STR:
        # Two quotes are an empty cell where no value is empty.
        empty = pc.equal(texts, "")
        return pc.if_else(empty, None, texts) if pc.any(empty).as_py() else texts
    return texts.fill_null("") if texts.null_count and field.required else texts


def _leave_out(numbers: list[int], row: Any) -> str:
    """Notes the number of a row with another number of cells than the header has."""
    numbers.append(row.number - 1)
    return "skip"


def _whole(column: Any) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _rows_at(numbers: Sequence[int], block: bytes, count: int) -> list[PlainRows] | None:
    """Finds rows by their numbers in a block that has so many rows; ``None`` if it is not clear where they are."""
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        return None
    data = np.frombuffer(block, np.uint8)
    line_ends = np.flatnonzero(data == _LINE_FEED) + 1
    ends = line_ends
    if b'"' in block:
        ends = ends[np.searchsorted(np.flatnonzero(data == _QUOTE), ends) % 2 == 0]
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    begins = np.concatenate([[0], ends[:-1]])
    is_row = (data[begins] != _LINE_FEED) & (data[begins] != _RETURN)
    begins, ends = begins[is_row], ends[is_row]
    if len(begins) != count:
        return None
    lines = np.searchsorted(line_ends, begins[numbers], side="right").tolist()
    return [
        PlainRows(number - before, line, block[begins[number] : ends[number]])
        for before, (number, line) in enumerate(zip(numbers, lines, strict=True))
    ]


@dataclass
class CsvBlocks:
    """Reads the rows of one file as columns, if :func:`row_by_row` has no reason against it; the header is a block."""

    records: CsvRecords
    _has_begun: bool = field(default=False, init=False)  # whether the header was read, or there is none
    _decoder: CsvDecoder | None = field(default=None, init=False)  # None: there are no rows, or the header is broken
    _columns: CsvColumns | None = field(default=None, init=False)  # None: no block is read as columns
    _is_regular: bool = field(default=False, init=False)  # whether the quotes of the next block are in order

    def __post_init__(self) -> None:
        if not self.records.header:
            self._begin(iter(()))

    @property
    def record_type(self) -> RecordType:
        return self.records.record_type

    def end_of_rows(self, data: bytes, *, whole: bool) -> int:
        if not whole and b"\n" not in data:
            return 0
        end = end_of_regular_rows(data, self.records.delimiter, whole=whole) if self._has_begun else 0
        self._is_regular = end > 0
        if end:
            return end
        # Each byte becomes a character; delimiters, quotes and line ends are the same in UTF-8.
        text = (data if whole else data[: data.rfind(b"\n") + 1]).decode("latin-1")
        return end_of_rows(text, self.records.delimiter, _PLAIN_ROWS if self._has_begun else 1, whole=whole)

    def read(self, block: bytes) -> Iterator[BlockRead]:
        if self._has_begun and self._decoder is None:
            yield BlockRead(no_rows(self.record_type), (), lines_in(block))
            return
        columns = self._columns if self._is_regular else None
        yield (None if columns is None else columns.read(block)) or plain_block(block, self.record_type)

    def _begin(self, rows: Iterator[CsvRow]) -> list[tuple[int, object]]:
        """Reads the header; returns what is to be reported of it."""
        self._has_begun = True
        self._decoder, reports = self.records.begin(rows)
        if self._decoder is not None:
            columns = CsvColumns(self.records, self._decoder.header)
            self._columns = columns if columns.is_able else None
        return reports

    def read_plain(self, file: BinaryIO) -> Iterable[tuple[int, object]]:
        rows = self.records.rows_of(file)
        if not self._has_begun:
            yield from self._begin(rows)
        if self._decoder is not None:
            yield from self.records.decoded(rows, self._decoder)


def end_of_regular_rows(block: bytes, delimiter: str, *, whole: bool) -> int:
    """Returns the end of the longest run of rows, from the first one on, whose quotes all pair up.

    Such quotes begin or end a cell, or are two that stand for one within. The block begins with a row; if it is not
    whole, its last row goes on after it, unless a line ends there.
    """
    end = len(block) if whole else block.rfind(b"\n") + 1
    if b'"' not in block:
        return end
    # A cell may begin after a line end and end before one; there is one around the block.
    data = np.frombuffer(b"\n%b\n" % block, np.uint8)
    quotes = np.flatnonzero(data == _QUOTE)
    bounds = np.zeros(256, bool)
    bounds[[ord(delimiter), _QUOTE, *b"\r\n"]] = True
    beside = quotes + np.tile([-1, 1], len(quotes) // 2 + 1)[: len(quotes)]
    regular = _first(~bounds[data[beside]]) // 2 * 2
    if regular < len(quotes):
        end = block.rfind(b"\n", 0, quotes[regular] - 1) + 1
    while end and (before := int(np.searchsorted(quotes, end, side="right"))) % 2:
        end = block.rfind(b"\n", 0, quotes[before - 1] - 1) + 1
    return end


def _first(mask: Any) -> int:
    """The index of the first true value, or the length if there is none."""
    return int(mask.argmax()) if mask.any() else len(mask)
