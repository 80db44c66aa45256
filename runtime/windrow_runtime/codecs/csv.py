"""Writes elements as rows of CSV (RFC 4180), and reads them; Python's reader goes on after a row that is broken."""

from __future__ import annotations

import csv
import io
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from windrow.formats import EpochTime
from windrow_runtime.codecs.csv_forms import STRICT, CsvForms, number_of
from windrow_runtime.codecs.json.any_json import checked_text, dump_of, json_reader, value_of_text
from windrow_runtime.codecs.json.decoder import construct, default_of, parser
from windrow_runtime.codecs.json.encoder import json_writer
from windrow_runtime.codecs.malformed import MalformedValue, UnfitError, columns_error, misfit, raw_text, short_repr
from windrow_runtime.codecs.unmatched import Names, unmatched_columns
from windrow_runtime.codecs.value_type import NESTED, Kind, RecordField, RecordType, ValueType

LONGEST_CELL: Final = 1 << 26
_ROWS_AT_ONCE: Final = 64
_LONG_ROW: Final = 1 << 16
_LIMIT_LOCK: Final = threading.Lock()
_LINE_END: Final = re.compile(r"\r\n?|\n")


class CsvRow(NamedTuple):
    """A row, or the fault for which it cannot be read; then the text is its first line.

    The line is the number of the one in which it begins, from 1. An empty line has no cells. ``quoted`` has the indices
    of the cells that are null texts in quotes, such as two quotes.
    """

    line: int
    text: str
    cells: list[str]
    fault: str | None = None
    quoted: Collection[int] = ()

    @property
    def raw(self) -> str:
        """The row as it was read, without its line end."""
        return raw_text(self.text.rstrip("\r\n"))

    @property
    def lines(self) -> int:
        """The number of lines that the row has."""
        return sum(1 for _ in _LINE_END.finditer(self.text.rstrip("\r\n"))) + 1


def csv_rows(lines: Iterator[str], delimiter: str, nulls: frozenset[str] = STRICT.nulls) -> Iterator[CsvRow]:
    """The rows of a text, from its lines with their ends; quoted cells may hold line ends.

    A row that breaks the rules of quotes, or has a cell of more than 67,108,864 characters, has a fault, and the line
    after its first one begins the next row: a broken quote costs one row, and no line is read more than twice.
    """
    rows = _Reader(lines, delimiter, nulls).rows()
    batch: list[CsvRow] | None = None
    while batch is None or batch:
        # Long rows come one by one, so that memory is bounded.
        count = _ROWS_AT_ONCE if not batch or len(batch[-1].text) < _LONG_ROW else 1
        with _long_cells():
            batch = list(islice(rows, count))
        yield from batch


def end_of_rows(text: str, delimiter: str, count: int, *, whole: bool) -> int:
    """The end of the first rows, from which on the text can be read by itself; 0 if more text is needed to know it.

    There are as many rows as the count says, or more where lines below a broken quote are read as rows, or fewer where
    the text ends. If it is not ``whole``, further lines stand below it.
    """
    reader = _Reader(io.StringIO(text, newline=""), delimiter)
    position = end = 0
    with _long_cells():
        for number, row in enumerate(reader.rows(), start=1):
            if reader.has_ended and not whole:
                break
            position += len(row.text)
            if not reader.has_lines_again:
                end = position
                if number >= count:
                    break
    return end


@contextmanager
def _long_cells() -> Iterator[None]:
    """Lets Python's reader take cells of up to :data:`LONGEST_CELL` characters within the block."""
    with _LIMIT_LOCK:
        limit = csv.field_size_limit(LONGEST_CELL)  # Python has one limit for the whole process
        try:
            yield
        finally:
            csv.field_size_limit(limit)


class _Reader:
    """Reads the rows of a text, checks their quotes, and goes on after a row that cannot be read."""

    def __init__(self, lines: Iterator[str], delimiter: str, nulls: frozenset[str] = STRICT.nulls) -> None:
        self._lines = lines
        self._nulls = nulls
        self._delimiter = delimiter
        between = re.escape(delimiter)
        cell = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"{between}]*+)'
        self._match_cell = re.compile(cell).match
        self._match_row = re.compile(f"{cell}(?:{between}{cell})*+").fullmatch
        self._line = 1
        self._row: list[str] = []
        self._again: deque[str] = deque()
        self.has_ended = False  # whether more lines were asked for than there are
        self._begin()

    @property
    def has_lines_again(self) -> bool:
        """Returns whether lines were read that belong to the next rows."""
        return bool(self._again)

    def _begin(self) -> None:
        self._ended = False
        self._cells = csv.reader(self._noted(), delimiter=self._delimiter, strict=True)

    def _noted(self) -> Iterator[str]:
        while True:
            line = self._again.popleft() if self._again else next(self._lines, None)
            if line is None:
                self._ended = self.has_ended = True
                return
            self._row.append(line)
            yield line

    def rows(self) -> Iterator[CsvRow]:
        """The rows, and the faults of those that cannot be read."""
        while True:
            try:
                cells = next(self._cells, None)
            except csv.Error as error:
                yield self._refused(self._reason(str(error)))
                continue
            if cells is None:
                return
            text = self._row[0] if len(self._row) == 1 else "".join(self._row)
            if '"' not in text:
                row = CsvRow(self._line, text, cells)
            elif self._match_row(text.rstrip("\r\n")) is None:
                yield self._refused("a quote within a cell that does not begin with one")
                continue
            else:
                row = CsvRow(self._line, text, cells, quoted=self._empties(text, cells))
            self._line += len(self._row)
            self._row.clear()
            yield row

    def _empties(self, text: str, cells: list[str]) -> Collection[int]:
        """The indices of null texts in quotes, such as two quotes, which Python's reader does not tell from others."""
        if ('""' not in text and self._nulls == STRICT.nulls) or self._nulls.isdisjoint(cells):
            return ()
        quoted: list[int] = []
        at = 0
        for index, value in enumerate(cells):
            match = self._match_cell(text, at)
            assert match is not None, "a cell may be empty"
            if value in self._nulls and match.group().startswith('"'):
                quoted.append(index)
            at = match.end() + 1
        return quoted

    def _refused(self, fault: str) -> CsvRow:
        """Refuses the row that was begun; the line after its first one begins the next row."""
        first, *others = self._row
        below = "; the lines below it are read as rows" if others else ""
        row = CsvRow(self._line, first, [], f"not CSV: {fault}{below}")
        self._line += 1
        self._row.clear()
        self._again.extendleft(reversed(others))
        self._begin()
        return row

    def _reason(self, error: str) -> str:
        if self._ended:
            # The reader asks for more in the middle of a row only where a quote is open.
            return "a quote is not closed"
        if "expected after" not in error:
            return error
        others = len(self._row) - 1
        return "text after a closing quote" + (f", {others} line{'s' * (others > 1)} below" if others else "")


_TEXTS = (Kind.STR, Kind.BYTES)  # kinds with a value whose cell is empty
CellParser = Callable[[str], object]
_ABSENT = object()


class _Cell(NamedTuple):
    """The cell from which a field takes its value: the index in the row, None where no column has it."""

    field: RecordField
    name: str
    place: int | None
    parse: CellParser
    is_text: bool


class CsvDecoder:
    """Reads elements of one type from rows of cells.

    Cells hold what :class:`~windrow_runtime.codecs.json.decoder.JsonDecoder` takes, without quotes; ``true`` in any
    case. Lists, tuples, dicts, nested records and values of any JSON are JSON. An empty cell takes the field's default,
    or else is ``None`` if the field is Optional, or else is the empty text if it is a ``str``. Two quotes are the empty
    text in each field that can hold it. A header that lacks a column which the type requires, or has one twice, is a
    ``SourceError``.
    """

    def __init__(self, record_type: RecordType, header: Sequence[str], forms: CsvForms = STRICT) -> None:
        self._nulls = forms.nulls
        self._type = record_type
        self._single = record_type.single
        self.header = header
        self._width = len(header)
        counts = Counter(header)
        fields = [field for field in record_type.columns if field.constant is None]
        names = [field.column for field in fields]
        faults = [
            f"{field.column}: {'no such column' if not counts[field.column] else 'two columns of this name'}"
            for field in fields
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
        # The fields without a column, if there are columns without a field: a name may be misspelt.
        columns = Names({name: Names() for name in header})
        self.unmatched = unmatched_columns("the header", record_type.columns, columns, any_case=False)
        places = {name: index for index, name in enumerate(header)}
        self._has_empty_null = "" in forms.nulls
        self._cells = [
            _Cell(
                field,
                field.name,
                None if field.constant is not None else places.get(field.column),
                cell_parser(field.type, f"{record_type.prefix}{field.name}", forms),
                field.type.scalar_kind in _TEXTS,
            )
            for field in record_type.columns
        ]

    def decode(self, row: CsvRow) -> object | MalformedValue:
        """The element of one row, or what is wrong with the row."""
        try:
            return self._decode(row.cells, row.quoted)
        except UnfitError as error:
            # A row of several lines that does not fit may be one that lost a quote, with the rows after it.
            spans = f"; the row has {row.lines} lines" if row.lines > 1 else ""
            return MalformedValue(row.raw, f"{error.reason}{spans}", error.path)

    def _decode(self, row: Sequence[str], quoted: Collection[int]) -> object:
        name = self._type.name
        if len(row) != self._width:
            raise UnfitError(name, f"{len(row)} cells in a row of {self._width} columns")
        values: dict[str, object] = {}
        nulls, has_empty_null = self._nulls, self._has_empty_null
        for field, field_name, index, parse, is_text in self._cells:
            if index is None:
                if field.constant is not None:
                    values[field_name] = field.constant.value
                else:
                    default_of(field, values, name)
            elif (text := row[index]) not in nulls or (is_text and (index in quoted or (field.required and not text))):
                if not text and not has_empty_null and not is_text:
                    raise UnfitError(f"{name}.{field_name}", "an empty cell, which is not among nulls", str(field.type))
                values[field_name] = parse(text)
            elif field.required:
                raise UnfitError(f"{name}.{field_name}", f"{_null_cell(text)} in a required field")
            else:
                default_of(field, values, name)
        if self._single:
            return values["value"]
        if self._type.root.kind is Kind.TUPLE:
            return tuple(values.values())
        return construct(self._type.root, values, name)


def _null_cell(cell: str) -> str:
    return f"the null text {short_repr(cell)}" if cell else "an empty cell"


def _header_hint(header: Sequence[str], columns: Collection[str]) -> str:
    if set(header) & set(columns):
        return "correct the header, or give the fields defaults"
    delimiters = [sign for sign in ";\t|," if sign in header[0]] if len(header) == 1 else []
    if delimiters:
        return f"the columns of the file seem to be separated otherwise: delimiter={delimiters[0]!r}"
    return "the first line is taken for a header; for a file without one: header=False"


def cell_parser(value: ValueType, path: str, forms: CsvForms = STRICT) -> CellParser:
    """Makes the parser of a cell that is not empty; it raises an :class:`UnfitError` for a text that does not fit."""
    parse = parser(value, path)
    convert = forms.converter(value.scalar_kind, path)
    if isinstance(value.time_format, EpochTime):
        convert = number_of
    if value.kind is Kind.JSON:
        return partial(value_of_text, path=path)
    if value.kind is Kind.RAW_JSON:
        return partial(checked_text, path=path)
    if value.kind in NESTED:
        convert = partial(_json_of, path, json_reader(value, Decimal if value.contains(Kind.DECIMAL) else float))
    # A text that is no number goes on as it is, and the parser says what it expected.
    return parse if convert is None else lambda cell: parse(convert(cell))


def _json_of(path: str, read: Callable[[str], object], cell: str) -> object:
    try:
        return read(cell)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise UnfitError(path, f"{short_repr(cell)} is not JSON: {error}") from None


class CsvEncoder:
    """Writes elements of one type as rows. An empty cell is ``None`` or an absent key; an empty text is two quotes."""

    def __init__(self, record_type: RecordType, delimiter: str) -> None:
        self._type = record_type
        self._delimiter = delimiter
        self._quoted = frozenset(f'{delimiter}"\r\n')
        self._write = json_writer(record_type.root, record_type.name)
        self._dumps = {field.column: dump_of(field.type) for field in record_type.columns}
        self.header = delimiter.join(self._cell(column.column) for column in record_type.columns)

    def encode(self, value: object) -> str:
        """The row of one element, without a line end; raises ``InvalidArgumentError`` if no row reads back as it."""
        try:
            written = self._write(value)
            columns = self._type.columns
            if self._type.single:
                cells = [self._cell_of(columns[0], written)]
            elif isinstance(written, Mapping):
                cells = [self._cell_of(field, written.get(field.column, _ABSENT)) for field in columns]
            else:
                assert isinstance(written, Sequence), "a tuple is written as a list"
                cells = list(map(self._cell_of, columns, written))
            if cells == [""]:
                raise UnfitError(self._type.name, "None as the only cell is an empty line, which is no row")
            return self._delimiter.join(cells)
        except UnfitError as error:
            raise misfit(value, error, self._type.name) from error

    def _cell_of(self, field: RecordField, written: object) -> str:
        if written is _ABSENT:
            return ""
        if written is None:
            if field.absent_allowed or (field.default is not None and field.default() is not None):
                if field.type.kind is Kind.JSON:
                    return "null"
                what = "an absent key" if field.absent_allowed else "the default of the field"
                raise UnfitError(
                    f"{self._type.name}.{field.name}", f"None is an empty cell, which reads as {what}", str(field.type)
                )
            return ""
        if isinstance(written, str) and field.type.kind is not Kind.JSON:
            return self._cell(written)
        if isinstance(written, float) and field.type.kind is not Kind.JSON:
            return repr(written)
        return self._cell(self._dumps[field.column](written))

    def _cell(self, text: str) -> str:
        if text and self._quoted.isdisjoint(text) and text[0] != "\ufeff":
            return text
        return '"' + text.replace('"', '""') + '"'
