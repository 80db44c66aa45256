"""Rows of CSV text by Python's own reader, which goes on behind a row that it cannot read."""

from __future__ import annotations

import csv
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Final, NamedTuple

__all__ = ["CsvRow", "csv_rows", "quoted_empties"]

LONGEST_CELL: Final = 1 << 26
_ROWS_AT_ONCE: Final = 512
_MOST_RETRIES: Final = 100
_LIMIT_LOCK: Final = threading.Lock()


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


def csv_rows(lines: Iterator[str], delimiter: str) -> Iterator[CsvRow]:
    """The rows of a text.

    A row whose quote is not closed, or with a cell of more than 67,108,864 characters, has a fault, and the line behind
    its first one begins the next row. Behind a hundred of such rows each line is taken for a row: else a text could be
    looked through as often as it has lines.

    Args:
        lines: The lines with their ends; quoted cells may hold line ends.
        delimiter: What stands between cells.
    """
    number = 1
    for _ in range(_MOST_RETRIES):
        reader = _Reader(lines, delimiter, number)
        yield from reader.rows()
        if not reader.left:
            return
        number = reader.line + 1
        lines = chain(reader.left[1:], lines)
        yield CsvRow(reader.line, reader.left[0], [], reader.fault)
    for line in lines:
        reader = _Reader(iter([line]), delimiter, number)
        yield from reader.rows()
        if reader.left:
            yield CsvRow(number, line, [], reader.fault)
        number += 1


def quoted_empties(row: CsvRow, delimiter: str) -> Collection[int]:
    """The places of the cells that are two quotes, which Python's reader does not tell from empty ones."""
    if '""' not in row.text or "" not in row.cells:
        return ()
    cell = _QUOTED_CELL.replace("DELIMITER", re.escape(delimiter))
    found: list[int] = []
    at = 0
    text = row.text.rstrip("\r\n")
    for place in range(len(row.cells)):
        match = re.compile(cell).match(text, at)
        assert match is not None, "a cell may be empty"
        if not row.cells[place] and match.group() == '""':
            found.append(place)
        at = match.end() + 1
    return found


# A cell as Python's reader takes it: behind the closing quote the rest is taken as it is.
_QUOTED_CELL: Final = r'(?:"(?:[^"]|"")*"[^DELIMITER]*|[^DELIMITER]*)'


class _Reader:
    """Reads rows up to the first one that cannot be read.

    Attributes:
        line: Where the row begins that is being read.
        left: The lines of the row that cannot be read; empty at the end of the text.
        fault: Why it cannot be read.
    """

    def __init__(self, lines: Iterator[str], delimiter: str, line: int) -> None:
        self.line = line
        self.left: list[str] = []
        self.fault = ""
        self._cells = csv.reader(self._noted(lines), delimiter=delimiter)
        self._open = False

    def _noted(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            self.left.append(line)
            yield line
        # The reader asks for more in the middle of a row only where a quote is open.
        self._open = bool(self.left)

    def rows(self) -> Iterator[CsvRow]:
        more = True
        while more:
            found: list[CsvRow] = []
            with _long_cells():
                more = self._take(found)
            yield from found

    def _take(self, found: list[CsvRow]) -> bool:
        """Reads some rows; gives whether there may be more."""
        while len(found) < _ROWS_AT_ONCE:
            try:
                cells = next(self._cells, None)
            except csv.Error as error:
                self.fault = f"not CSV: {error}"
                return False
            if cells is None:
                return False
            if self._open:
                self.fault = "not CSV: a quote is not closed"
                return False
            text = self.left[0] if len(self.left) == 1 else "".join(self.left)
            found.append(CsvRow(self.line, text, cells))
            self.line += len(self.left)
            self.left.clear()
        return True


@contextmanager
def _long_cells() -> Iterator[None]:
    """Raises the limit of cells, which Python has for the whole process, for a moment."""
    with _LIMIT_LOCK:
        limit = csv.field_size_limit(LONGEST_CELL)
        try:
            yield
        finally:
            csv.field_size_limit(limit)
