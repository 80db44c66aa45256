"""Elements from the rows of a CSV file."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal

from windrow_runtime.codecs.csv.rows import CsvQuotes, CsvRow
from windrow_runtime.codecs.json.values import Parser, construct, default_of, parser
from windrow_runtime.codecs.malformed import MalformedRecord, UnfitError, UnmatchedHeader, columns_error, short_repr
from windrow_runtime.codecs.value_type import COLLECTIONS, Field, Kind, RecordType, ValueType

_INTEGER = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
_CellParser = Callable[[str], object]
_NESTED = COLLECTIONS | {Kind.TUPLE, Kind.DICT, Kind.RECORD}


class CsvDecoder:
    """Reads elements of one type from rows of cells.

    Cells hold what :class:`~windrow_runtime.codecs.json.decoder.JsonDecoder` takes, without quotes: ``3``,
    ``3.5``, ``true`` (in any case), ISO 8601 texts; lists, tuples, dicts and nested records are JSON. An
    empty cell takes the field's default, or else is ``None`` if the field is Optional, or else is the empty
    text if it is a ``str``. Two quotes are the empty text in each field that can hold it.

    Args:
        record_type: The type of the elements.
        header: The names of the columns, in their order. Columns without a field are ignored.
        quotes: The rules of quotes, by which ``""`` is no empty cell.

    Raises:
        SourceError: The header lacks columns that the type requires, or has one of them twice.

    Attributes:
        unmatched: Which fields no column has, where columns have names that no field has: one may be misspelt.
    """

    def __init__(self, record_type: RecordType, header: Sequence[str], quotes: CsvQuotes) -> None:
        self._type = record_type
        self._quotes = quotes
        self._width = len(header)
        counts = Counter(header)
        faults = [
            f"{field.column}: {'no such column' if not counts[field.column] else 'two columns of this name'}"
            for field in record_type.columns
            if counts[field.column] > 1 or (field.required and not counts[field.column])
        ]
        if faults:
            raise columns_error(
                record_type.name,
                faults,
                given=", ".join(header),
                expected=", ".join(field.column for field in record_type.columns),
                hint=_header_hint(header, [field.column for field in record_type.columns]),
            )
        self.unmatched = _unmatched([field.column for field in record_type.columns], header)
        prefix = "" if record_type.single else f"{record_type.name}."
        places = {name: place for place, name in enumerate(header)}
        self._cells: list[tuple[Field, int | None, _CellParser]] = [
            (field, places.get(field.column), _cell_parser(field.type, f"{prefix}{field.name}"))
            for field in record_type.columns
        ]

    def decode(self, row: CsvRow) -> object:
        """The element of one row.

        Raises:
            MalformedRecordError: The row has a wrong number of cells, or one of them is not of its field's
                type.
        """
        value = self.try_decode(row)
        if isinstance(value, MalformedRecord):
            raise value.error()
        return value

    def try_decode(self, row: CsvRow) -> object | MalformedRecord:
        """The element of one row, or what is wrong with the row; for sources that drop or route bad rows."""
        try:
            return self._decode(row.cells, self._quotes.empties(row))
        except UnfitError as error:
            # A row of several lines that does not fit may be one whose quote was lost, and the rows behind it.
            spans = f"; the row has {row.lines} lines" if row.lines > 1 else ""
            return MalformedRecord(row.raw, f"{error.reason}{spans}", error.path)

    def _decode(self, row: Sequence[str], quoted: Collection[int]) -> object:
        name = self._type.name
        if len(row) != self._width:
            raise UnfitError(name, f"{len(row)} cells in a row of {self._width} columns")
        found: dict[str, object] = {}
        for field, place, parse in self._cells:
            cell = "" if place is None else row[place]
            if place is not None and (cell or _empty_is_text(field, place in quoted)):
                found[field.name] = parse(cell)
            elif place is not None and field.required:
                raise UnfitError(f"{name}.{field.name}", "an empty cell in a required field", str(field.type))
            else:
                default_of(field, found, name)
        if self._type.single:
            return found["value"]
        if self._type.root.kind is Kind.TUPLE:
            return tuple(found.values())
        return construct(self._type.root, found, name)


def _empty_is_text(field: Field, quoted: bool) -> bool:
    value = field.type.arguments[0] if field.type.kind is Kind.ENUM else field.type
    return (quoted or field.required) and value.kind in (Kind.STR, Kind.BYTES)


def _header_hint(header: Sequence[str], columns: Collection[str]) -> str:
    if not set(header) & set(columns):
        delimiters = [sign for sign in ";\t|," if sign in header[0]] if len(header) == 1 else []
        if delimiters:
            return f"the columns of the file seem to be separated otherwise: delimiter={delimiters[0]!r}"
        return "the first line is taken for a header; for a file without one: header=False"
    return "correct the header, or give the fields defaults"


def _unmatched(fields: Sequence[str], header: Sequence[str]) -> UnmatchedHeader | None:
    unknown, lacking = (
        [name for name in some if name not in others] for some, others in ((header, fields), (fields, header))
    )
    if not unknown or not lacking:
        return None
    has, lacks = (", ".join(map(short_repr, names)) for names in (unknown, lacking))
    return UnmatchedHeader(f"the header has {has}, which no field takes, and lacks {lacks}")


def _cell_parser(value: ValueType, path: str) -> _CellParser:
    parse = parser(value, path)
    kind = (value.arguments[0] if value.kind is Kind.ENUM else value).kind
    if kind in _NESTED:
        return _json_cell(parse, value, path)
    if kind is Kind.NONE:
        return lambda cell: parse(cell or None)
    convert = {Kind.INT: _int_of, Kind.FLOAT: _float_of, Kind.BOOL: _bool_of}.get(kind)
    if convert is None:
        return parse
    # A text that is no number goes on as it is, and the parser says what it expected.
    return lambda cell: parse(convert(cell))


def _int_of(cell: str) -> object:
    return int(cell) if _INTEGER.fullmatch(cell) else cell


def _float_of(cell: str) -> object:
    if _FLOAT.fullmatch(cell) is None:
        return cell
    number = float(cell)
    # An int beyond all floats: the parser says that it is out of range.
    return number if math.isfinite(number) else 10**400


def _bool_of(cell: str) -> object:
    return _BOOLEANS.get(cell.lower(), cell)


def _json_cell(parse: Parser, value: ValueType, path: str) -> _CellParser:
    def parse_cell(cell: str) -> object:
        try:
            parsed: object = json.loads(cell, parse_float=Decimal if value.contains(Kind.DECIMAL) else float)
        except (ValueError, RecursionError) as error:
            raise UnfitError(path, f"{short_repr(cell)} is not JSON: {error}", str(value)) from None
        return parse(parsed)

    return parse_cell
