"""Rows of CSV as Arrow columns, where Arrow reads each row as the plain reader does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.arrow.text_scalars import TEXT_KINDS, doubtful_texts, text_values
from windrow_runtime.codecs.csv import LONGEST_CELL
from windrow_runtime.codecs.value_type import Constant, Field, Kind, RecordType

# Any in this module: pyarrow has no types.

Mask: TypeAlias = npt.NDArray[np.bool_]

_QUOTE: Final = ord('"')
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class CsvRead(NamedTuple):
    """The columns of the rows of a block, but for those left out because Arrow may read them in another way."""

    columns: pa.RecordBatch
    left_out: list[int]  # numbers of rows, from 0 and in order; empty lines are no rows
    total: int  # rows, with those left out


class CsvColumns:
    """Reads the columns of a type from blocks of whole rows, without the header, as far as they are exact.

    The header has fitted the type, as :class:`~windrow_runtime.codecs.csv.CsvDecoder` says. ``is_able`` says whether
    any block may be exact.
    """

    def __init__(self, kind: RecordType, header: Sequence[str], delimiter: str) -> None:
        self._kind = kind
        self._schema = arrow_schema(kind)
        self.delimiter = delimiter
        places = {name: str(place) for place, name in enumerate(header)}
        self._names = [places.get(field.column) for field in kind.columns]
        needed = [name for name in self._names if name is not None]
        self.is_able = (
            # Rows have to be counted, and Arrow takes delimiters of one byte.
            bool(needed)
            and "\0" < delimiter < "\x80"
            and all(field.type.kind in TEXT_KINDS and not field.absent_allowed for field in kind.columns)
            and all(
                name is not None or _absent_is_none(field)
                for field, name in zip(kind.columns, self._names, strict=True)
            )
        )
        self._read = pa.csv.ReadOptions(
            use_threads=False, block_size=LONGEST_CELL, column_names=[str(place) for place in range(len(header))]
        )
        self._convert = pa.csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(needed, pa.string()),
            include_columns=needed,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def read(self, block: bytes, *, is_regular: bool = False) -> CsvRead | None:
        """Reads the columns of a block, or gives ``None`` if all of it has to be read in another way.

        Quotes are not checked if the block is known to be regular, as :func:`end_of_regular_rows` finds it.
        """
        if len(block) >= LONGEST_CELL or b"\0" in block or block.startswith(_BYTE_ORDER_MARK) or not _is_utf8(block):
            return None
        has_quotes = b'"' in block
        if has_quotes and not is_regular and end_of_regular_rows(block, self.delimiter, whole=True) < len(block):
            return None
        left_out: list[int] = []
        parse = pa.csv.ParseOptions(
            delimiter=self.delimiter,
            quote_char='"' if has_quotes else False,
            newlines_in_values=has_quotes,
            invalid_row_handler=partial(_leave_out, left_out),
        )
        try:
            table = pa.csv.read_csv(pa.BufferReader(block), self._read, parse, self._convert)
        except pa.ArrowInvalid:
            return None
        cells = [
            _cells(pa.nulls(table.num_rows, pa.string()) if name is None else _whole(table.column(name)), field)
            for field, name in zip(self._kind.columns, self._names, strict=True)
        ]
        found = [text_values(texts, field.type) for field, texts in zip(self._kind.columns, cells, strict=True)]
        doubt = np.zeros(table.num_rows, bool)
        for field, texts, values in zip(self._kind.columns, cells, found, strict=True):
            if texts.null_count and not _absent_is_none(field):
                doubt |= texts.is_null().to_numpy(zero_copy_only=False)
            if values is None:
                doubt |= doubtful_texts(texts, field.type)
        if doubt.any():
            clear = pa.array(~doubt)
            found = [
                text_values(texts.filter(clear), field.type) if values is None else values.filter(clear)
                for field, texts, values in zip(self._kind.columns, cells, found, strict=True)
            ]
        if any(values is None for values in found):
            return None
        batch = pa.RecordBatch.from_arrays(found, schema=self._schema)
        return CsvRead(batch, _numbers(left_out, doubt), table.num_rows + len(left_out))


def _cells(texts: pa.Array, field: Field) -> pa.Array:
    """The cells of a field, null where the value is absent; empty ones were null, but for those in quotes."""
    if field.type.kind is not Kind.STR:
        # Two quotes are an empty cell where no value is empty.
        empty = pc.equal(texts, "")
        return pc.if_else(empty, None, texts) if pc.any(empty).as_py() else texts
    return texts.fill_null("") if texts.null_count and field.required else texts


def _leave_out(found: list[int], row: Any) -> str:
    """Notes the number of a row with another number of cells than the header has."""
    found.append(row.number - 1)
    return "skip"


def _numbers(left_out: list[int], doubt: Mask) -> list[int]:
    """The numbers of the rows left out, and of those in doubt among the others."""
    if not doubt.any():
        return left_out
    others = np.delete(np.arange(len(doubt) + len(left_out)), left_out)
    return sorted([*left_out, *others[doubt].tolist()])


def _absent_is_none(field: Field) -> bool:
    default = field.default
    return field.type.nullable and (default is None or (isinstance(default, Constant) and default.value is None))


def _whole(column: Any) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_utf8(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def end_of_regular_rows(block: bytes, delimiter: str, *, whole: bool) -> int:
    """Returns the place behind the last row such that it and all rows above it have only quotes that pair up.

    Such quotes begin or end a cell, or are two that stand for one within. The block begins with a row; if it is not
    whole, its last row goes on behind it, unless a line ends there.
    """
    end = len(block) if whole else block.rfind(b"\n") + 1
    if b'"' not in block:
        return end
    # A cell may begin behind a line end and end in front of one; there is one around the block.
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
    """The first place that is true, or the length if there is none."""
    return int(mask.argmax()) if mask.any() else len(mask)
