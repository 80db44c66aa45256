"""Reads text files as columns: defines the blocks of a file, and the formats that make columns of them.

A format reads rows of a block as columns where these hold exactly what reading the rows one by one would give. It
leaves the others as text, to be read one by one, so that each malformed record keeps its place and its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import BinaryIO, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.arrow.text_scalars import Mask
from windrow_runtime.codecs.text_files import CsvRecords, LineRecords
from windrow_runtime.codecs.text_sizes import TextSizes
from windrow_runtime.codecs.value_type import RecordType

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LINE_FEED: Final = ord("\n")


class PlainRows(NamedTuple):
    """Whole rows of a block that are to be read one by one."""

    row: int  # how many rows of the block's columns come before them
    line: int  # how many lines of the block come before them
    text: bytes


class BlockRead(NamedTuple):
    """The rows of a block: as columns, except rows that are to be read one by one."""

    columns: pa.RecordBatch
    plain: Sequence[PlainRows]
    lines: int  # of the block
    others: Sequence[int] | None = None  # the lines that are no row of the columns; None: a row may have several lines


class BlockFormat(Protocol):
    """Reads one text file: takes its blocks in their order, the first without a byte order mark."""

    @property
    def record_type(self) -> RecordType:
        """The type of the elements."""

    def end_of_rows(self, data: bytes, *, whole: bool) -> int:
        """The end of the rows that make a block, in bytes that begin with a row; 0 if more bytes are needed.

        If they are the ``whole`` rest of the file, a row ends at their end.
        """

    def read(self, block: bytes) -> Iterable[BlockRead]:
        """Reads a block of whole rows, as one or as several in order."""

    def read_plain(self, file: BinaryIO) -> Iterable[tuple[int, object]]:
        """Reads rows one by one, as ``TextRecords.read`` gives them; the file begins with their first line."""


def blocks_of(file: BinaryIO, blocks: BlockFormat, sizes: TextSizes, *, begins: bool) -> Iterator[tuple[bytes, bool]]:
    """The bytes of a file in blocks, and whether each has whole rows: the last one may have none that ends in it.

    Then the rest of its row, and all rows after it, are still to be read from the file. Only bytes that begin a file,
    as ``begins`` says, may have a byte order mark.
    """
    rest = b""
    while True:
        # Twice as much each time: where no row ends, all of it is looked at again.
        more = file.read(max(sizes.block, min(len(rest), sizes.longest_row - len(rest) + 1)))
        rest, is_last = more.removeprefix(_BYTE_ORDER_MARK) if begins else rest + more, not more
        begins, more = False, b""
        while rest and (end := blocks.end_of_rows(rest, whole=is_last)):
            block, rest = rest[:end], rest[end:]
            yield block, True
        if len(rest) > sizes.longest_row:
            yield rest, False
            return
        if is_last:
            return


def lines_in(block: bytes) -> int:
    """The number of line ends in a block, as universal newlines count them."""
    line_feeds = np.count_nonzero(np.frombuffer(block, np.uint8) == _LINE_FEED)
    return int(line_feeds) + (block.count(b"\r") - block.count(b"\r\n") if b"\r" in block else 0)


def plain_block(block: bytes, record_type: RecordType) -> BlockRead:
    """Leaves all rows of a block to be read one by one."""
    return BlockRead(no_rows(record_type), [PlainRows(0, 0, block)], lines_in(block))


def split_block(
    block: bytes,
    columns: pa.RecordBatch,
    plain: Iterable[PlainRows],
    records: LineRecords | CsvRecords,
    lines: int,
    others: Sequence[int] | None,
) -> BlockRead:
    """Returns the columns of a block and its plain rows, consecutive ones together; all are plain if that is faster."""
    groups: list[tuple[PlainRows, list[bytes]]] = []
    expected = -1
    for rows in plain:
        if rows.line != expected:
            groups.append((rows, []))
        groups[-1][1].append(rows.text)
        expected = rows.line + rows.text.count(b"\n")
    if len(groups) * records.sizes.alone > columns.num_rows + len(groups):
        return BlockRead(no_rows(records.record_type), [PlainRows(0, 0, block)], lines)
    return BlockRead(columns, [rows._replace(text=b"".join(texts)) for rows, texts in groups], lines, others)


def left_out(refused: Sequence[int], good: Mask) -> list[int]:
    """The numbers of the rows that are no columns: those refused at first, and those not ``good`` among the others."""
    if good.all():
        return list(refused)
    others = np.delete(np.arange(len(good) + len(refused)), refused)
    return sorted([*refused, *others[~good].tolist()])


def is_utf_8(block: bytes) -> bool:
    """Returns whether bytes are a text in UTF-8."""
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def no_rows(record_type: RecordType) -> pa.RecordBatch:
    """The columns of no element."""
    return pa.RecordBatch.from_pylist([], schema=arrow_schema(record_type))


def interleaved(
    columns: pa.RecordBatch, others: Sequence[tuple[int, Sequence[object]]], record_type: RecordType
) -> pa.RecordBatch:
    """Inserts elements into columns, each run of them with the number of rows before it."""
    added = list(chain.from_iterable(values for _, values in others))
    if not added:
        return columns
    encoded = encode_batch(added, record_type)
    batches: list[pa.RecordBatch] = []
    row = elements_done = 0
    for position, values in others:
        batches += (columns.slice(row, position - row), encoded.slice(elements_done, len(values)))
        row, elements_done = position, elements_done + len(values)
    return pa.concat_batches([*batches, columns.slice(row)])
