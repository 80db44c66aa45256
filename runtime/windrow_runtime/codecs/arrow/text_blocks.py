"""Text files as columns: the blocks in which they are read, and what a format makes of one.

A format reads rows of a block as columns where these hold exactly what reading the rows one by one would give. It
leaves the others as text, to be read one by one, so that each malformed record keeps its place and its reason.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import BinaryIO, Final, NamedTuple, Protocol

import pyarrow as pa

from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.value_type import RecordType

_BLOCK: Final = 1 << 20  # more leaves the processor's cache

_LONGEST_ROW: Final = 16 << 20
"""Where no row ends within this many bytes, the rest of the file is read row by row."""

_FEWEST_LINES: Final = 32
"""This many lines are read one by one in the time that a failed attempt takes."""

_LINES_AT_ONCE: Final = 4_096
"""Lines behind a fault are looked at again, so there should not be too many of them."""

_ATTEMPT: Final = 256
"""A failed attempt to read columns costs as much as reading some of this many lines one by one."""


class PlainRows(NamedTuple):
    """Whole rows of a block that are to be read one by one."""

    row: int  # how many rows of the block's columns are in front of them
    line: int  # how many lines of the block are in front of them
    text: bytes


class BlockRead(NamedTuple):
    """What a format made of a block: the columns of its rows, but for those that are to be read one by one."""

    columns: pa.RecordBatch
    plain: Sequence[PlainRows]
    lines: int  # of the block, as universal newlines count them


class BlockFormat(Protocol):
    """Reads one text file: takes its blocks in their order, the first without a byte order mark."""

    @property
    def kind(self) -> RecordType:
        """The type of the elements."""

    def end_of_rows(self, data: bytes) -> int:
        """The place behind the last row that ends within some bytes, which begin with a row; 0 if none does."""

    def read(self, block: bytes) -> BlockRead:
        """Reads a block of whole rows."""

    def read_plain(self, file: BinaryIO) -> Iterable[tuple[int, object]]:
        """Reads rows one by one, as ``TextRecords.read`` gives them; the file begins with their first line."""


def blocks_of(file: BinaryIO, end_of_rows: Callable[[bytes], int]) -> Iterator[tuple[bytes, bool]]:
    """The bytes of a file in blocks, and whether each has whole rows: the last one may have none that ends in it.

    Then the rest of its row, and all rows behind it, are still to be read from the file.
    """
    rest = b""
    # Twice as much each time: where no row ends, all of it is looked at again.
    while data := file.read(max(_BLOCK, min(len(rest), _LONGEST_ROW - len(rest) + 1))):
        rest += data
        end = end_of_rows(rest)
        if end:
            yield rest[:end], True
            rest = rest[end:]
        elif len(rest) > _LONGEST_ROW:
            yield rest, False
            return
    if rest:
        yield rest, True


class DoubtfulRows(Exception):  # noqa: N818  a text that has to be read in another way is no error
    """Some rows of a text cannot be read as columns: those at these places, or any of them if none is given."""

    def __init__(self, places: Sequence[int] = ()) -> None:
        super().__init__(places)
        self.places = places


def read_lines(
    lines: Sequence[tuple[int, bytes]],
    doubtful: Sequence[tuple[int, bytes]],
    read: Callable[[bytes, int], pa.RecordBatch],
    kind: RecordType,
) -> tuple[pa.RecordBatch, list[PlainRows]]:
    """Reads as many lines as columns as pays, each a row and given with its number in the block.

    The function reads a text of a number of such lines, or raises :class:`DoubtfulRows`. It gets none of the lines that
    are doubtful beforehand.
    """
    found: list[pa.RecordBatch] = []
    good: list[int] = []  # the numbers of the lines in the columns
    plain = list(doubtful)
    patience = max(len(lines) // 2, 8 * _ATTEMPT)
    waiting = [lines[at : at + _LINES_AT_ONCE] for at in range(0, len(lines), _LINES_AT_ONCE)][::-1]
    while waiting:
        some = waiting.pop()
        if len(some) < _FEWEST_LINES or patience <= 0:
            plain += some
            continue
        try:
            found.append(read(b"".join([text for _, text in some]), len(some)))
            good += [number for number, _ in some]
        except DoubtfulRows as doubt:
            patience -= _ATTEMPT
            places = doubt.places
            if len(places) > 1:
                left_out = set(places)
                plain += [some[place] for place in places]
                waiting.append([line for place, line in enumerate(some) if place not in left_out])
            else:
                middle = places[0] if places else len(some) // 2
                after = middle + len(places)
                plain += some[middle:after]
                waiting += (some[after:], some[:middle])
    return concatenated(found, kind), plain_rows(sorted(plain), good)


def plain_rows(plain: Sequence[tuple[int, bytes]], good: Sequence[int]) -> list[PlainRows]:
    """Lines by their numbers, in order, to be read one by one among good ones; those behind each other are together."""
    found: list[tuple[int, int, list[bytes]]] = []
    expected = -1
    for number, text in plain:
        if number != expected:
            found.append((bisect(good, number), number, []))
        found[-1][-1].append(text)
        expected = number + 1
    return [PlainRows(row, line, b"".join(texts)) for row, line, texts in found]


def concatenated(columns: Sequence[pa.RecordBatch], kind: RecordType) -> pa.RecordBatch:
    """The columns of rows that stand behind each other."""
    return pa.concat_batches(columns) if columns else no_rows(kind)


def no_rows(kind: RecordType) -> pa.RecordBatch:
    """The columns of no element."""
    return pa.RecordBatch.from_pylist([], schema=arrow_schema(kind))


def interleaved(
    columns: pa.RecordBatch, others: Sequence[tuple[int, Sequence[object]]], kind: RecordType
) -> pa.RecordBatch:
    """Columns with further elements put in, each run of them with the number of rows in front of it."""
    added = list(chain.from_iterable(values for _, values in others))
    if not added:
        return columns
    encoded = encode_batch(added, kind)
    parts: list[pa.RecordBatch] = []
    row = taken = 0
    for place, values in others:
        parts += (columns.slice(row, place - row), encoded.slice(taken, len(values)))
        row, taken = place, taken + len(values)
    return pa.concat_batches([*parts, columns.slice(row)])
