"""Reads the rows of state that fire or are cleaned up, as many at a time as fit into memory.

Where all of them fit, they are one part. Else each part has all the rows of some keys: chunks are read once for each
part, and their bytes are held meanwhile, as far as there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow_runtime.columnar.rows.hashing import parts_of
from windrow_runtime.columnar.state.chunks import Chunk, Chunks, concatenated

# Any in this module: pyarrow has no types.

_Mask: TypeAlias = npt.NDArray[np.bool_]
_Numbers: TypeAlias = npt.NDArray[np.uint8]


@dataclass
class DueRows:
    """Reads what is due under a watermark, and takes out of the state what is gone.

    Attributes:
        chunks: The state.
        watermark: The watermark, in milliseconds.
        fires: Decides whether a window may fire that holds rows of a chunk. Others are due to be cleaned up.
        gone: Marks the rows that the watermark has cleaned up.
    """

    chunks: Chunks
    watermark: int
    fires: Callable[[Chunk], bool]
    gone: Callable[[Any], _Mask]
    _part_numbers: dict[int, _Numbers] = field(default_factory=dict)

    def parts(self) -> Iterator[Any]:
        """The rows, in parts that have all rows of their keys in order of arrival. The last one cleans up."""
        for entry, rows in self.chunks.read(lambda entry: self._is_due(entry) and not self.fires(entry)):
            self._clean_up(entry, rows)
        with self.chunks.holding(self.chunks.tuning.held_bytes):
            pieces, count = self._first_ones()
            for part in range(count):
                if count > 1:
                    pieces = self._pieces(part, count)
                if pieces:
                    rows = concatenated(pieces)
                    pieces.clear()
                    yield rows
                    del rows  # not beside those of the next part

    def _first_ones(self) -> tuple[list[Any], int]:
        """The rows and 1, if they fit into memory; else nothing, and into how many parts to split them."""
        tuning = self.chunks.tuning
        found: list[tuple[Chunk | None, Any]] = []
        size = stored = 0
        for entry, rows in self._read():
            found.append((entry, rows))
            size += rows.nbytes
            stored += 0 if entry is None else entry.size
            if size > tuning.fired_bytes and entry is not None:
                total = sum(entry.size for entry in self.chunks.entries if self._fires(entry))
                count = -(-size * total // (stored * tuning.fired_bytes))
                return [], min(count, tuning.most_parts)
        for entry, rows in found:
            self._clean_up(entry, rows)
        return [rows for _, rows in found], 1

    def _pieces(self, part: int, count: int) -> list[Any]:
        """The rows of one part."""
        import pyarrow as pa

        pieces: list[Any] = []
        for entry, rows in self._read():
            numbers = self._numbers(entry, rows, count)
            pieces.append(rows.filter(pa.array(numbers == part)))
            if part == count - 1:
                self._clean_up(entry, rows)
        return [rows for rows in pieces if rows.num_rows]

    def _numbers(self, entry: Chunk | None, rows: Any, count: int) -> _Numbers:
        """The part of each row."""
        place = 0 if entry is None else entry.number
        numbers = self._part_numbers.get(place)
        if numbers is None:
            numbers = self._part_numbers[place] = parts_of(rows.column(0), count)
        return numbers

    def _read(self) -> Iterator[tuple[Chunk | None, Any]]:
        """Chunks, and the newest rows, for which there is no entry."""
        yield from self.chunks.read(self._fires)
        if self.chunks.tail and self.chunks.tail_due <= self.watermark:
            yield None, self.chunks.read_tail()

    def _is_due(self, entry: Chunk) -> bool:
        return entry.due <= self.watermark

    def _fires(self, entry: Chunk) -> bool:
        return self._is_due(entry) and self.fires(entry)

    def _clean_up(self, entry: Chunk | None, rows: Any) -> None:
        import pyarrow as pa

        kept = rows.filter(pa.array(~self.gone(rows)))
        if entry is None:
            self.chunks.put_tail(kept)
        elif 2 * kept.num_rows <= rows.num_rows:
            self.chunks.replace(entry, kept)
        else:
            self.chunks.note(entry, kept)
