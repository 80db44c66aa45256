"""Defines the sizes by which text files are read: limits, and measured defaults, which tests make small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TextSizes:
    """How much of a text file is read at a time, and what is too long."""

    longest_line: int = 1 << 26  # a file with a longer line is refused: bytes of UTF-8, characters of other encodings
    document_block: int = 1 << 16  # characters of a JSON document that are read at a time
    block: int = 1 << 20  # bytes that are read as columns at a time: more leave the processor's cache
    together: int = 1 << 16  # bytes of JSON lines that are decoded at once
    longest_row: int = 16 << 20  # where no row ends within this many bytes, the rest of the file is read row by row
    alone: int = 4  # to read a row by itself among columns takes as long as to read this many one after the other


MEASURED_SIZES: Final = TextSizes()
