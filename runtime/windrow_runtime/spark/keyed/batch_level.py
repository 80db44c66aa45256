"""Runs one level of keyed steps in a Spark batch job, which has neither a state store nor timers of Spark's.

A group is run in two rounds, as in a streaming run with one micro-batch that is drained: all its elements under no
watermark, then the watermark at the end of time, which fires what is open. What is emitted in the second round comes
behind all of the first, so the next level does the same with both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.spark.clock.times import BatchTime, BatchTimes
from windrow_runtime.spark.exchange.classes import register_classes
from windrow_runtime.spark.exchange.payload import sequence_number
from windrow_runtime.spark.exchange.rows import PackedRow, RowKind, exchange_batch
from windrow_runtime.spark.faults import failures_marked
from windrow_runtime.spark.keyed.group_task import GroupTask, GroupUpdate
from windrow_runtime.spark.keyed.level import Level
from windrow_runtime.spark.worker import infrequent_gc

# Any in this module: pyarrow has no types.

FIRST_ROUND: Final = 0
"""The round that runs the elements. In a batch job, sequence numbers hold the round instead of the phase."""

SECOND_ROUND: Final = 1
"""The round that advances the watermark to the end of time."""

_PIECE_BYTES: Final = 16 << 20
_ROWS_BYTES: Final = 8 << 20  # an Arrow batch for Spark holds about this much


class _Pages:
    """Holds the pages of one group in memory while the group is run."""

    def __init__(self) -> None:
        self._pages: dict[int, bytes] = {}

    def get(self, number: int) -> bytes | None:
        return self._pages.get(number)

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        return [self._pages.get(number) for number in numbers]

    def put(self, number: int, data: bytes) -> None:
        self._pages[number] = data

    def remove(self, number: int) -> None:
        self._pages.pop(number, None)


@dataclass(frozen=True, slots=True)
class BatchLevel:
    """Runs a level on one partition, as Spark's ``mapInArrow`` calls it. The rows come by group, then by number.

    Attributes:
        level: The level to run.
        now: The clock of the job, in milliseconds.
        piece_bytes: How many bytes of a group's payloads are unpacked at a time.
    """

    level: Level
    now: int
    piece_bytes: int = _PIECE_BYTES

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Takes the Arrow batches of a partition from Spark; yields Arrow batches of packed rows."""
        with failures_marked(), infrequent_gc():
            register_classes(self.level.classes)
            with ExitStack() as stack:
                sinks = self.level.sinks
                writer = None if sinks is None else stack.enter_context(closing(sinks.writer()))
                task = stack.enter_context(closing(GroupTask(self.level, writer)))
                rows = self._run(task, _rows_of(batches))
                yield from _in_batches(rows if writer is None else writer.pass_on(rows))

    def _run(self, task: GroupTask, rows: Iterator[PackedRow]) -> Iterator[PackedRow]:
        for label, of_group in groupby(rows, key=attrgetter("group")):
            if label < 0:
                yield from (row for row in of_group if row.kind not in {RowKind.CLOCK, RowKind.END})
            else:
                yield from _Group(self, task, label).run(of_group)


class _Group:
    """Runs one key group through both rounds."""

    def __init__(self, stage: BatchLevel, task: GroupTask, label: int) -> None:
        self._task = task
        self._label = label
        self._now = stage.now
        self._piece_bytes = stage.piece_bytes
        self._origin = stage.level.groups.labels.index(label)
        self._pages = _Pages()
        self._data: bytes | None = None
        self._rows = 0

    def run(self, rows: Iterable[PackedRow]) -> Iterator[PackedRow]:
        start = BatchTime(MIN_TIMESTAMP, self._now)
        for number, of_round in groupby(rows, key=_round):
            for piece in _pieces(of_round, self._piece_bytes):
                yield from self._call(number, BatchTimes(start, start), piece)
        end = BatchTime(MAX_TIMESTAMP, self._now)
        yield from self._call(SECOND_ROUND, BatchTimes(start, end), [])

    def _call(self, number: int, times: BatchTimes, rows: list[PackedRow]) -> Iterator[PackedRow]:
        outputs = self._task.run_group(self._label, self._data, self._pages, times, self._now, [], rows)
        for output in outputs:
            if isinstance(output, GroupUpdate):
                self._data = output.data
            elif output.kind != RowKind.REPORTS:
                # The task numbers the rows of each call from 0, and has phases where there are rounds here.
                yield output._replace(number=sequence_number(number, self._origin, self._rows))
                self._rows += 1


def _pieces(rows: Iterable[PackedRow], limit: int) -> Iterator[list[PackedRow]]:
    """Yields lists of rows whose payloads together reach a limit, in bytes."""
    piece: list[PackedRow] = []
    size = 0
    for row in rows:
        piece.append(row)
        size += len(row.payload)
        if size >= limit:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _rows_of(batches: Iterator[Any]) -> Iterator[PackedRow]:
    for batch in batches:
        yield from map(PackedRow, *(column.to_pylist() for column in batch.columns))


def _in_batches(rows: Iterator[PackedRow]) -> Iterator[Any]:
    held: list[PackedRow] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.payload)
        if size >= _ROWS_BYTES:
            yield exchange_batch(held)
            held, size = [], 0
    if held:
        yield exchange_batch(held)


def _round(row: PackedRow) -> int:
    return SECOND_ROUND if row.number >= _SECOND else FIRST_ROUND


_SECOND: Final = sequence_number(SECOND_ROUND, 0, 0)
