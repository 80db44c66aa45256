"""Rows of CSV text as RFC 4180 has them, by Python's own reader, which goes on behind a row that it cannot read."""

from __future__ import annotations

import csv
import re
import threading
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final, NamedTuple

LONGEST_CELL: Final = 1 << 26
_ROWS_AT_ONCE: Final = 512
_LIMIT_LOCK: Final = threading.Lock()
_LINE_END: Final = re.compile(r"\r\n?|\n")


class CsvRow(NamedTuple):
    """A row, or the fault for which it cannot be read; then the text is its first line.

    The line is the number of the one in which it begins, from 1. An empty line has no cells. ``quoted`` has the places
    of the cells that are two quotes.
    """

    line: int
    text: str
    cells: list[str]
    fault: str | None = None
    quoted: Collection[int] = ()

    @property
    def raw(self) -> str:
        """The row as it was read, without its line end."""
        return self.text.rstrip("\r\n")

    @property
    def lines(self) -> int:
        """The number of lines that the row has."""
        return len(_LINE_END.findall(self.raw)) + 1


def csv_rows(lines: Iterator[str], delimiter: str) -> Iterator[CsvRow]:
    """The rows of a text, from its lines with their ends; quoted cells may hold line ends.

    A row that breaks the rules of quotes, or has a cell of more than 67,108,864 characters, has a fault, and the line
    behind its first one begins the next row: a broken quote costs one row. No line is read more than twice, since the
    next line with an odd number of quotes ends each row whose quote was open.
    """
    rows = _Reader(lines, delimiter).rows()
    found: list[CsvRow] | None = None
    while found is None or found:
        with _long_cells():
            found = list(islice(rows, _ROWS_AT_ONCE))
        yield from found


class _Reader:
    """Reads the rows of a text, checks their quotes, and goes on behind a row that cannot be read."""

    def __init__(self, lines: Iterator[str], delimiter: str) -> None:
        self._lines = lines
        self._delimiter = delimiter
        between = re.escape(delimiter)
        cell = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"{between}]*+)'
        self._match_cell = re.compile(cell).match
        self._match_row = re.compile(f"{cell}(?:{between}{cell})*+").fullmatch
        self._line = 1
        self._row: list[str] = []
        self._again: deque[str] = deque()
        self._begin()

    def _begin(self) -> None:
        self._ended = False
        self._cells = csv.reader(self._noted(), delimiter=self._delimiter, strict=True)

    def _noted(self) -> Iterator[str]:
        while True:
            line = self._again.popleft() if self._again else next(self._lines, None)
            if line is None:
                self._ended = True
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
        """The places of the cells that are two quotes, which Python's reader does not tell from empty ones."""
        if '""' not in text or "" not in cells:
            return ()
        found: list[int] = []
        at = 0
        for place, value in enumerate(cells):
            match = self._match_cell(text, at)
            assert match is not None, "a cell may be empty"
            if not value and match.group().startswith('"'):
                found.append(place)
            at = match.end() + 1
        return found

    def _refused(self, fault: str) -> CsvRow:
        """The fault of the row that was begun; the line behind its first one begins the next row."""
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
        return "text behind a closing quote" + (f", {others} line{'s' * (others > 1)} below" if others else "")


@contextmanager
def _long_cells() -> Iterator[None]:
    """Raises the limit of cells, which Python has for the whole process, for a moment."""
    with _LIMIT_LOCK:
        limit = csv.field_size_limit(LONGEST_CELL)
        try:
            yield
        finally:
            csv.field_size_limit(limit)
