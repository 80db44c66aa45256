r"""Keeps the last rows of a terminal for some lines of text, while all else scrolls above them.

The terminal is told to scroll the rows above alone, by the sequence DECSTBM that all terminals have which look like a
VT100. So what this program and others print, such as workers of Spark, never mixes with the lines. Lines that are drawn
anew by ``\r`` mix with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Final, TextIO

screen_taken: Final = threading.Lock()
"""Is held by what draws in the last rows, or in a notebook: of runs side by side the first is shown."""

_LEAST_ROWS: Final = 3
_LEAST_COLUMNS: Final = 20
_SAVE: Final = "\x1b7"
_RESTORE: Final = "\x1b8"
_ALL_ROWS: Final = "\x1b[r"
_DOWN: Final = "\x1bD"  # in the last row everything scrolls; the column stays
_ERASE: Final = "\x1b[2K"
# Without the automatic margin a line that fills the row leaves the cursor there.
_CLIPPED: Final = ("\x1b[?7l", "\x1b[?7h")


def is_terminal(stream: TextIO | None) -> bool:
    """Returns whether a stream is a terminal whose rows can be addressed."""
    if os.name != "posix" or stream is None or os.environ.get("TERM", "dumb") in {"", "dumb", "unknown"}:
        return False
    try:
        return stream.isatty() and os.isatty(stream.fileno())
    except (OSError, ValueError):  # it was closed, or has no descriptor
        return False


class LastRows:
    """Draws in the last rows of a terminal, to which the stream writes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = self._stream.fileno()
        self._size: os.terminal_size | None = None  # that for which rows above the last ones scroll; None: all rows do
        self._count = 0  # of the last rows

    def draw(self, lines_of: Callable[[int], Sequence[str]]) -> None:
        """Draws lines; ``lines_of`` is called with the most characters that a line may have.

        Nothing is drawn while another program has the terminal, or where it is too small; of too many lines the first
        are drawn.
        """
        if not self._is_ours():
            return
        size = os.get_terminal_size(self._descriptor)
        if size.lines < _LEAST_ROWS or size.columns < _LEAST_COLUMNS:
            self.close()
            return
        lines = lines_of(size.columns - 1)[: size.lines - _LEAST_ROWS + 1]
        sequences = []
        if size != self._size or len(lines) != self._count:
            # The cursor may be in a row that will be drawn over: it goes up with all that is there.
            more = len(lines) if size != self._size else max(len(lines) - self._count, 0)
            sequences += [_DOWN * more, f"\x1b[{more}A" if more else "", _SAVE]
            sequences += [f"\x1b[{row};1H{_ERASE}" for row in self._rows(size.lines, self._count)]
            sequences += [f"\x1b[1;{size.lines - len(lines)}r", _RESTORE]
            self._size, self._count = size, len(lines)
        sequences += [_SAVE, _CLIPPED[0]]
        for row, line in zip(self._rows(size.lines, len(lines)), lines, strict=True):
            sequences += [f"\x1b[{row};1H", _ERASE, line]
        self._write("".join([*sequences, _CLIPPED[1], _RESTORE]))

    def close(self) -> None:
        """Erases the lines, and lets all rows scroll again."""
        if self._size is None:
            return
        rows = self._rows(self._size.lines, self._count)
        erased = "".join(f"\x1b[{row};1H{_ERASE}" for row in rows)
        self._size, self._count = None, 0
        self._write(f"{_SAVE}{erased}{_ALL_ROWS}{_RESTORE}")

    @staticmethod
    def _rows(height: int, count: int) -> range:
        return range(height - count + 1, height + 1)

    def _is_ours(self) -> bool:
        """Returns whether this program is in the foreground of the terminal, as far as the system knows."""
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return True  # it is no terminal that jobs are controlled by

    def _write(self, sequence: str) -> None:
        # One call writes it all, so that nothing of another process comes in between.
        self._stream.flush()
        os.write(self._descriptor, sequence.encode(self._stream.encoding or "utf-8", errors="replace"))
