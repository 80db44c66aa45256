r"""Keeps the last row of a terminal for a line of text, while all else scrolls above it.

The terminal is told to scroll the rows above alone, by the sequence DECSTBM that all terminals have which look like a
VT100. So what this program and others print, such as workers of Spark, never mixes with the line. Lines that are drawn
anew by ``\r`` mix with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TextIO

__all__ = ["LastRow", "is_terminal"]

_LEAST_ROWS: Final = 3
_LEAST_COLUMNS: Final = 20
_SAVE: Final = "\x1b7"
_RESTORE: Final = "\x1b8"
_ALL_ROWS: Final = "\x1b[r"
_DOWN: Final = "\x1bD"  # in the last row everything scrolls; the column stays
_UP: Final = "\x1b[1A"
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


class LastRow:
    """The last row of the terminal that a stream is."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = self._stream.fileno()
        self._size: os.terminal_size | None = None  # that for which rows above the last one scroll; None: all rows do

    def draw(self, line_of: Callable[[int], str]) -> None:
        """Draws a line; ``line_of`` is called with the most characters that it may have.

        Nothing is drawn while another program has the terminal, or where it is too small.
        """
        if not self._is_ours():
            return
        size = os.get_terminal_size(self._descriptor)
        if size.lines < _LEAST_ROWS or size.columns < _LEAST_COLUMNS:
            self.close()
            return
        parts = []
        if size != self._size:
            # The cursor may be in the last row, which would be drawn over: it goes up a row with all that is there.
            parts += [_DOWN, _UP, _SAVE, f"\x1b[1;{size.lines - 1}r", _RESTORE]
            self._size = size
        parts += [_SAVE, f"\x1b[{size.lines};1H", _ERASE, _CLIPPED[0], line_of(size.columns - 1), _CLIPPED[1], _RESTORE]
        self._write("".join(parts))

    def close(self) -> None:
        """Erases the line, and lets all rows scroll again."""
        if self._size is None:
            return
        size, self._size = self._size, None
        self._write(f"{_SAVE}\x1b[{size.lines};1H{_ERASE}{_ALL_ROWS}{_RESTORE}")

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
