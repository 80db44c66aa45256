"""Runs one level of keyed steps in a Spark batch job, which has neither a state store nor timers of Spark's.

A group is run in two rounds, as in a streaming run with one micro-batch that is drained: all its elements under no
watermark, then the watermark at the end of time, which fires what is open. What is emitted in the second round comes
after all of the first, so the next level does the same with both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_spark.clock import BatchTime, BatchTimes
from windrow_spark.exchange.classes import register_classes
from windrow_spark.exchange.rows import PackedRow, RowKind, exchange_batch, sequence_number
from windrow_spark.faults import failures_marked
from windrow_spark.keyed.group_task import GroupTask, GroupUpdate
from windrow_spark.keyed.level import Level
from windrow_spark.storage.group_record import PagesInMemory
from windrow_spark.worker import infrequent_gc

if TYPE_CHECKING:
    from windrow_spark.sinks.parts import PartWriter

# Any in this module: pyarrow has no types.

FIRST_ROUND: Final = 0
"""The round that runs the elements. In a batch job, sequence numbers hold the round instead of the phase."""

SECOND_ROUND: Final = 1
"""The round that advances the watermark to the end of time."""

_SECOND: Final = sequence_number(SECOND_ROUND, 0, 0)
_PORTION_BYTES: Final = 16 << 20
_ROWS_BYTES: Final = 8 << 20  # an Arrow batch for Spark holds about this much


@dataclass(frozen=True, slots=True)
class BatchLevel:
    """Runs a level on one partition, as Spark's ``mapInArrow`` calls it. The rows come by group, then by number."""

    level: Level
    now: int  # the clock of the job, in milliseconds
    portion_bytes: int = _PORTION_BYTES  # how many bytes of a group's payloads are unpacked at a time

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Takes the Arrow batches of a partition from Spark; yields Arrow batches of packed rows."""
        with failures_marked(), infrequent_gc(), ExitStack() as stack:
            register_classes(self.level.classes)
            sinks = self.level.sinks
            writer = None if sinks is None else stack.enter_context(closing(sinks.writer()))
            task = stack.enter_context(closing(GroupTask(self.level, writer)))
            packed = (map(PackedRow, *(column.to_pylist() for column in batch.columns)) for batch in batches)
            rows = self._run(task, chain.from_iterable(packed), writer)
            yield from map(exchange_batch, _portions(rows if writer is None else writer.pass_on(rows), _ROWS_BYTES))
            if writer is not None:
                writer.finish()

    def _run(self, task: GroupTask, rows: Iterator[PackedRow], writer: PartWriter | None) -> Iterator[PackedRow]:
        for label, of_group in groupby(rows, key=attrgetter("group")):
            if label < 0:
                yield from (row for row in of_group if row.kind not in {RowKind.CLOCK, RowKind.END})
            else:
                yield from self._run_group(task, label, of_group, writer)

    def _run_group(
        self, task: GroupTask, label: int, rows: Iterable[PackedRow], writer: PartWriter | None
    ) -> Iterator[PackedRow]:
        """Runs one key group through both rounds."""
        origin = self.level.groups.labels.index(label)
        pages = PagesInMemory()
        data: bytes | None = None
        numbers = count()
        for round_number, times, portion in self._calls(rows):
            # The task numbers the rows of each call from 0, and has phases where there are rounds here.
            in_round = map(partial(sequence_number, round_number, origin), numbers)
            if writer is not None:
                writer.numbers = in_round
            for output in task.run_group(label, data, pages, times, self.now, [], portion):
                if isinstance(output, GroupUpdate):
                    data = output.data
                elif output.kind != RowKind.TIMESTAMPS:
                    yield output._replace(number=next(in_round))

    def _calls(self, rows: Iterable[PackedRow]) -> Iterator[tuple[int, BatchTimes, list[PackedRow]]]:
        """Yields the round, the times and the rows of each call for a group."""
        start, end = BatchTime(MIN_TIMESTAMP, self.now), BatchTime(MAX_TIMESTAMP, self.now)
        for number, of_round in groupby(rows, key=lambda row: SECOND_ROUND if row.number >= _SECOND else FIRST_ROUND):
            yield from (
                (number, BatchTimes(start, start), portion) for portion in _portions(of_round, self.portion_bytes)
            )
        yield SECOND_ROUND, BatchTimes(start, end), []


def _portions(rows: Iterable[PackedRow], limit: int) -> Iterator[list[PackedRow]]:
    """Yields lists of rows whose payloads together reach a limit, in bytes."""
    portion: list[PackedRow] = []
    size = 0
    for row in rows:
        portion.append(row)
        size += len(row.payload)
        if size >= limit:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
