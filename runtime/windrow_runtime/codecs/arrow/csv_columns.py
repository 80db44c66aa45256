"""Rows of CSV as Arrow columns, where Arrow reads each row as the plain reader does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from windrow_runtime.codecs.arrow.text_blocks import BlockRead, PlainRows, is_utf_8, left_out, split_block
from windrow_runtime.codecs.arrow.text_scalars import absent_is_none, read_columns
from windrow_runtime.codecs.csv import LONGEST_CELL
from windrow_runtime.codecs.text_files import CsvRecords
from windrow_runtime.codecs.value_type import Field, Kind

# Any in this module: pyarrow has no types.

_LINE_FEED, _RETURN, _QUOTE = b'\n\r"'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class CsvColumns:
    """Reads columns from blocks of whole rows, without the header, as far as they are exact.

    The type and the delimiter are such that :func:`~windrow_runtime.codecs.arrow.csv_blocks.row_by_row` has no reason
    against them, and the header has fitted the type, as :class:`~windrow_runtime.codecs.csv.CsvDecoder` says.
    ``is_able`` says whether any block may be exact.
    """

    def __init__(self, records: CsvRecords, header: Sequence[str]) -> None:
        self._records = records
        self._kind = records.kind
        places = {name: str(index) for index, name in enumerate(header)}
        self._names = [places.get(field.column) for field in self._kind.columns]
        needed = [name for name in self._names if name is not None]
        lacking = [field for field in self._kind.columns if field.column not in places]
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
            for field, name in zip(self._kind.columns, self._names, strict=True)
        ]
        columns, good = read_columns(cells, self._kind)
        left = left_out(wrong_widths, good)
        plain = _rows_at(left, block, table.num_rows + len(wrong_widths)) if left else []
        return None if plain is None else split_block(block, columns, plain, self._records)


def _cells(texts: pa.Array, field: Field) -> pa.Array:
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
