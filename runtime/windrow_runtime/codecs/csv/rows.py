"""Rows of CSV text as RFC 4180 has them, by Python's own reader, which goes on behind a row that it cannot read."""

from __future__ import annotations

import csv
import re
import threading
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

LONGEST_CELL: Final = 1 << 26
_ROWS_AT_ONCE: Final = 512
_LIMIT_LOCK: Final = threading.Lock()
_LINE_END: Final = re.compile(r"\r\n?|\n")


class CsvRow(NamedTuple):
    """A row, or why there is none.

    Attributes:
        line: The number of the line in which it begins, from 1.
        text: The row as it was read; its first line, where there is no row.
        cells: The cells; empty for an empty line.
        fault: Why it cannot be read; None: it can.
    """

    line: int
    text: str
    cells: list[str]
    fault: str | None = None

    @property
    def raw(self) -> str:
        """The row as it was read, without its line end."""
        return self.text.rstrip("\r\n")

    @property
    def lines(self) -> int:
        """The number of lines that the row has."""
        return len(_LINE_END.findall(self.raw)) + 1


def csv_rows(lines: Iterator[str], quotes: CsvQuotes) -> Iterator[CsvRow]:
    """The rows of a text.

    A row that breaks the rules of quotes, or has a cell of more than 67,108,864 characters, has a fault, and the line
    behind its first one begins the next row: a broken quote costs one row. No line is read more than twice, since the
    next line with an odd number of quotes ends each row whose quote was open.

    Args:
        lines: The lines with their ends; quoted cells may hold line ends.
        quotes: The rules of its quotes.
    """
    return _Reader(lines, quotes).rows()


class CsvQuotes:
    """The rules of quotes in the rows of a text. Python's reader checks the others.

    Args:
        delimiter: What stands between cells.
    """

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter
        between = re.escape(delimiter)
        cell = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"{between}]*+)'
        self._cell = re.compile(cell)
        self._row = re.compile(f"{cell}(?:{between}{cell})*+")

    def kept(self, row: CsvRow) -> bool:
        """Returns whether no cell of an accepted row has a quote within it without beginning with one."""
        return '"' not in row.text or self._row.fullmatch(row.raw) is not None

    def empties(self, row: CsvRow) -> Collection[int]:
        """The places of the cells that are two quotes, which Python's reader does not tell from empty ones."""
        if '""' not in row.text or "" not in row.cells:
            return ()
        found: list[int] = []
        at = 0
        for place, value in enumerate(row.cells):
            match = self._cell.match(row.raw, at)
            assert match is not None, "a cell may be empty"
            if not value and match.group():
                found.append(place)
            at = match.end() + 1
        return found


class _Reader:
    """Reads the rows of a text.

    Args:
        lines: The lines.
        quotes: The rules of its quotes.
    """

    def __init__(self, lines: Iterator[str], quotes: CsvQuotes) -> None:
        self._lines = lines
        self._quotes = quotes
        self._line = 1
        self._row: list[str] = []
        self._again: deque[str] = deque()
        self._ended = False
        self._cells = self._python_reader()

    def rows(self) -> Iterator[CsvRow]:
        """The rows, and the faults of those that cannot be read."""
        more = True
        while more:
            found: list[CsvRow] = []
            with _long_cells():
                more = self._take(found)
            yield from found

    def _python_reader(self) -> Iterator[list[str]]:
        return csv.reader(self._noted(), delimiter=self._quotes.delimiter, strict=True)

    def _noted(self) -> Iterator[str]:
        while True:
            line = self._again.popleft() if self._again else next(self._lines, None)
            if line is None:
                self._ended = True
                return
            self._row.append(line)
            yield line

    def _take(self, found: list[CsvRow]) -> bool:
        """Reads some rows; gives whether there may be more."""
        while len(found) < _ROWS_AT_ONCE:
            try:
                cells = next(self._cells, None)
            except csv.Error as error:
                found.append(self._refused(self._reason(str(error))))
                continue
            if cells is None:
                return False
            text = self._row[0] if len(self._row) == 1 else "".join(self._row)
            row = CsvRow(self._line, text, cells)
            if not self._quotes.kept(row):
                found.append(self._refused("a quote within a cell that does not begin with one"))
                continue
            found.append(row)
            self._line += len(self._row)
            self._row.clear()
        return True

    def _refused(self, fault: str) -> CsvRow:
        """The fault of the row that was begun; the line behind its first one begins the next row."""
        first, *others = self._row
        below = "; the lines below it are read as rows" if others else ""
        row = CsvRow(self._line, first, [], f"not CSV: {fault}{below}")
        self._line += 1
        self._row.clear()
        self._again.extendleft(reversed(others))
        self._ended = False
        self._cells = self._python_reader()
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
