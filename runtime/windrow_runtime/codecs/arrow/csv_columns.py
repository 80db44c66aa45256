"""Rows of CSV as Arrow columns, where Arrow reads each row as the plain reader does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.arrow.text_scalars import TEXT_KINDS, text_values
from windrow_runtime.codecs.csv import LONGEST_CELL
from windrow_runtime.codecs.value_type import Constant, Field, Kind, RecordType

# Any in this module: pyarrow has no types.

_QUOTE, _LINE_FEED = b'"\n'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class CsvColumns:
    """Reads the columns of a type from blocks of whole rows, without the header, as far as they are exact.

    The header has fitted the type, as :class:`~windrow_runtime.codecs.csv.CsvDecoder` says. ``is_able`` says whether
    any block may be exact.
    """

    def __init__(self, kind: RecordType, header: Sequence[str], delimiter: str) -> None:
        self._kind = kind
        self._schema = arrow_schema(kind)
        self._delimiter = ord(delimiter)
        places = {name: str(place) for place, name in enumerate(header)}
        self._names = [places.get(field.column) for field in kind.columns]
        needed = [name for name in self._names if name is not None]
        self.is_able = (
            # Rows have to be counted, and Arrow takes delimiters of one byte.
            bool(needed)
            and 0 < self._delimiter < 128
            and all(field.type.kind in TEXT_KINDS and not field.absent_allowed for field in kind.columns)
            and all(
                name is not None or _absent_is_none(field)
                for field, name in zip(kind.columns, self._names, strict=True)
            )
        )
        self._read = pa.csv.ReadOptions(
            use_threads=False, block_size=LONGEST_CELL, column_names=[str(place) for place in range(len(header))]
        )
        self._parse = {
            quote: pa.csv.ParseOptions(
                delimiter=delimiter if self.is_able else ",", quote_char=quote, newlines_in_values=bool(quote)
            )
            for quote in (False, '"')
        }
        self._convert = pa.csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(needed, pa.string()),
            include_columns=needed,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def columns_of(self, block: bytes) -> pa.RecordBatch | None:
        """Returns the columns of all elements of a block in order, or ``None`` if one may not be read exactly."""
        if len(block) >= LONGEST_CELL or b"\0" in block or block.startswith(_BYTE_ORDER_MARK) or not _is_utf8(block):
            return None
        has_quotes = b'"' in block
        if has_quotes and not _quotes_pair_up(block, self._delimiter):
            return None
        parse = self._parse['"' if has_quotes else False]
        try:
            table = pa.csv.read_csv(pa.BufferReader(block), self._read, parse, self._convert)
        except pa.ArrowInvalid:
            return None
        columns: list[pa.Array] = []
        for field, name in zip(self._kind.columns, self._names, strict=True):
            column = pa.nulls(table.num_rows, pa.string()) if name is None else _whole(table.column(name))
            found = _values(column, field, may_be_quoted=has_quotes)
            if found is None:
                return None
            columns.append(found)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _values(texts: pa.Array, field: Field, *, may_be_quoted: bool) -> pa.Array | None:
    """The values of the cells of a field, of which empty ones are null, but for those in quotes."""
    value = field.type
    if value.kind is not Kind.STR and may_be_quoted and value.nullable:
        # Two quotes are an empty cell where no value is empty.
        texts = pc.if_else(pc.equal(texts, ""), None, texts)
    if texts.null_count and not _absent_is_none(field):
        if value.kind is not Kind.STR or not field.required:
            return None
        texts = texts.fill_null("")
    return text_values(texts, value)


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


def _quotes_pair_up(block: bytes, delimiter: int) -> bool:
    """Returns whether each quote begins or ends a cell, or is one of two that stand for one within."""
    # A cell may begin behind a line end and end in front of one; there is one around the block.
    data = np.frombuffer(b"\n%b\n" % block, np.uint8)
    quotes = np.flatnonzero(data == _QUOTE)
    if len(quotes) % 2:
        return False
    bounds = np.zeros(256, bool)
    bounds[[delimiter, _QUOTE, *b"\r\n"]] = True
    return bool(bounds[data[quotes[::2] - 1]].all() and bounds[data[quotes[1::2] + 1]].all())
