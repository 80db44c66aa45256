"""Elements as rows of CSV, and back."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import partial

from windrow_runtime.codecs.csv.rows import CsvRow
from windrow_runtime.codecs.json.encoder import json_writer
from windrow_runtime.codecs.json.values import construct, default_of, parser
from windrow_runtime.codecs.malformed import (
    MalformedRecord,
    UnfitError,
    UnmatchedHeader,
    columns_error,
    misfit,
    short_repr,
)
from windrow_runtime.codecs.value_type import COLLECTIONS, Field, Kind, RecordType, ValueType

_INTEGER = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
_CellParser = Callable[[str], object]
_ABSENT = object()
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

    Raises:
        SourceError: The header lacks columns that the type requires, or has one of them twice.

    Attributes:
        unmatched: Which fields no column has, where columns have names that no field has: one may be misspelt.
    """

    def __init__(self, record_type: RecordType, header: Sequence[str]) -> None:
        self._type = record_type
        self._width = len(header)
        counts = Counter(header)
        names = [field.column for field in record_type.columns]
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
                expected=", ".join(names),
                hint=_header_hint(header, names),
            )
        self.unmatched = _unmatched(names, header)
        places = {name: place for place, name in enumerate(header)}
        self._cells: list[tuple[Field, int | None, _CellParser]] = [
            (field, places.get(field.column), _cell_parser(field.type, f"{record_type.prefix}{field.name}"))
            for field in record_type.columns
        ]

    def decode(self, row: CsvRow) -> object | MalformedRecord:
        """The element of one row, or what is wrong with the row."""
        try:
            return self._decode(row.cells, row.quoted)
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
                raise UnfitError(f"{name}.{field.name}", "an empty cell in a required field")
            else:
                default_of(field, found, name)
        if self._type.single:
            return found["value"]
        if self._type.root.kind is Kind.TUPLE:
            return tuple(found.values())
        return construct(self._type.root, found, name)


def _empty_is_text(field: Field, quoted: bool) -> bool:
    return (quoted or field.required) and field.type.scalar_kind in (Kind.STR, Kind.BYTES)


def _header_hint(header: Sequence[str], columns: Collection[str]) -> str:
    if set(header) & set(columns):
        return "correct the header, or give the fields defaults"
    delimiters = [sign for sign in ";\t|," if sign in header[0]] if len(header) == 1 else []
    if delimiters:
        return f"the columns of the file seem to be separated otherwise: delimiter={delimiters[0]!r}"
    return "the first line is taken for a header; for a file without one: header=False"


def _unmatched(fields: Sequence[str], header: Sequence[str]) -> UnmatchedHeader | None:
    unknown = ", ".join(short_repr(name) for name in header if name not in fields)
    lacking = ", ".join(short_repr(name) for name in fields if name not in header)
    if not unknown or not lacking:
        return None
    return UnmatchedHeader(f"the header has {unknown}, which no field takes, and lacks {lacking}")


def _cell_parser(value: ValueType, path: str) -> _CellParser:
    parse = parser(value, path)
    convert = _CONVERTERS.get(value.scalar_kind)
    if value.kind in _NESTED:
        convert = partial(_json_of, path, Decimal if value.contains(Kind.DECIMAL) else float)
    # A text that is no number goes on as it is, and the parser says what it expected.
    return parse if convert is None else lambda cell: parse(convert(cell))


def _json_of(path: str, parse_float: Callable[[str], object], cell: str) -> object:
    try:
        parsed: object = json.loads(cell, parse_float=parse_float)
    except (ValueError, RecursionError) as error:
        raise UnfitError(path, f"{short_repr(cell)} is not JSON: {error}") from None
    return parsed


def _float_of(cell: str) -> object:
    if _FLOAT.fullmatch(cell) is None:
        return cell
    number = float(cell)
    # An int beyond all floats: the parser says that it is out of range.
    return number if math.isfinite(number) else 10**400


_CONVERTERS: dict[Kind, Callable[[str], object]] = {
    Kind.NONE: lambda cell: cell or None,
    Kind.INT: lambda cell: int(cell) if _INTEGER.fullmatch(cell) else cell,
    Kind.FLOAT: _float_of,
    Kind.BOOL: lambda cell: _BOOLEANS.get(cell.lower(), cell),
}


class CsvEncoder:
    """Writes elements of one type as rows.

    An empty cell is ``None``, or a key that is absent; an empty text is two quotes. The header is a row as well.
    """

    def __init__(self, record_type: RecordType, delimiter: str) -> None:
        self._type = record_type
        self._delimiter = delimiter
        self._quoted = frozenset(f'{delimiter}"\r\n')
        self._write = json_writer(record_type.root, record_type.name)
        self.header = delimiter.join(self._cell(column.column) for column in record_type.columns)

    def encode(self, value: object) -> str:
        """The row of one element, without a line end; raises ``InvalidArgumentError`` if no row reads back as it."""
        try:
            given = self._write(value)
            columns = self._type.columns
            if self._type.single:
                cells = [self._cell_of(columns[0], given)]
            elif isinstance(given, Mapping):
                cells = [self._cell_of(field, given.get(field.column, _ABSENT)) for field in columns]
            else:
                assert isinstance(given, Sequence), "a tuple is written as a list"
                cells = list(map(self._cell_of, columns, given))
            if cells == [""]:
                raise UnfitError(self._type.name, "None as the only cell is an empty line, which is no row")
            return self._delimiter.join(cells)
        except UnfitError as error:
            raise misfit(value, error) from error

    def _cell_of(self, field: Field, given: object) -> str:
        if given is _ABSENT:
            return ""
        if given is None:
            if field.absent_allowed or (field.default is not None and field.default() is not None):
                what = "an absent key" if field.absent_allowed else "the default of the field"
                raise UnfitError(
                    f"{self._type.name}.{field.name}", f"None is an empty cell, which reads as {what}", str(field.type)
                )
            return ""
        if isinstance(given, str):
            return self._cell(given)
        if isinstance(given, float):
            return repr(given)
        return self._cell(json.dumps(given, ensure_ascii=False, separators=(",", ":")))

    def _cell(self, text: str) -> str:
        if text and self._quoted.isdisjoint(text) and text[0] != "\ufeff":
            return text
        return '"' + text.replace('"', '""') + '"'
