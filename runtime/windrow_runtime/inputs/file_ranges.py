"""Parts of a large text file, cut at line ends, that workers read side by side."""

from __future__ import annotations

import io
import os
from typing import BinaryIO, Final, cast

from windrow_runtime.codecs.text_files import is_compressed

_CHUNK: Final = 1 << 20


def range_of(file: BinaryIO, name: str, part: int, parts: int) -> BinaryIO | None:
    """A part of a file, which begins and ends at the end of a line.

    Args:
        file: The file.
        name: Its name; a file that is compressed has one part.
        part: The number of the part.
        parts: How many parts there are.

    Returns:
        The bytes of the part; None: there are none.
    """
    if parts == 1 or is_compressed(name):
        return file if part == 0 else None
    size = os.fstat(file.fileno()).st_size
    begin, end = (_line_start(file, size * bound // parts) for bound in (part, part + 1))
    if begin >= end:
        return None
    file.seek(begin)
    return cast(BinaryIO, io.BufferedReader(_Range(file, begin, end), _CHUNK))


def _line_start(file: BinaryIO, place: int) -> int:
    """Returns where the first line begins at a place or behind it."""
    if place == 0:
        return 0
    file.seek(place - 1)
    while piece := file.readline(_CHUNK):
        if piece.endswith(b"\n"):
            break
    return file.tell()


class _Range(io.RawIOBase):
    """Some bytes of a file."""

    def __init__(self, file: BinaryIO, begin: int, end: int) -> None:
        self._file = file
        self.begin = begin
        self._left = end - begin

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        data = self._file.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)


def lines_before(name: str, given: BinaryIO) -> int:
    """Counts the lines of a file in front of a part of it, as universal newlines do."""
    begin = given.raw.begin if isinstance(given, io.BufferedReader) and isinstance(given.raw, _Range) else 0
    lines = 0
    after_return = False
    with open(name, "rb") as file:
        while begin > 0 and (data := file.read(min(_CHUNK, begin))):
            begin -= len(data)
            lines += data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
            if after_return and data.startswith(b"\n"):
                lines -= 1
            after_return = data.endswith(b"\r")
    return lines
