"""Notes the newest batch in a checkpoint: in a file, or by the driver where tasks cannot open the checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import Accumulator, AccumulatorParam

from windrow.errors import CheckpointError
from windrow_spark.checkpoint.stored_file import StoredFile
from windrow_spark.worker import current_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger("windrow")


class BatchNote(StoredFile[int]):
    """Stores the highest number of a batch in a file of a checkpoint.

    Spark's part of a checkpoint can get lost, or be restored from an older copy, separately. Spark would then begin
    anew, or assign batch numbers a second time, which sinks take for batches that they have. The note of the newest
    batch reveals this.
    """

    __slots__ = ()

    def batch(self) -> int:
        """Returns the number that was noted; -1: none."""
        number = self.read()
        return -1 if number is None else number

    def note(self, batch: int) -> None:
        """Note a batch, unless a higher number is stored."""
        if batch > self.batch():
            self.write(batch)


class ClosedSources(BatchNote):
    """Stores the first batch that ignores the sources, since the stream is drained.

    What sources deliver from then on is left for later runs: it might be late at a step that no longer waits for a
    source that was read to its end.
    """

    __slots__ = ()

    # Any: pyarrow has no types.
    def before(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yields the Arrow batches of a source's partition, or nothing if the sources are closed."""
        first, number = self.batch(), current_batch()
        are_closed = number is not None and number >= first >= 0
        for batch in batches:  # read to their end in any case, since Spark writes them
            if not are_closed:
                yield batch


@dataclass(frozen=True, slots=True)
class DriverNote:
    """Notes the newest batch by the driver, which gets it when a task ends, and so before Spark commits the batch."""

    newest: Accumulator[int]

    @staticmethod
    def of(spark: SparkSession, note: BatchNote) -> DriverNote:
        """Returns what tasks note a batch with; the driver writes it into a note of the checkpoint."""
        return DriverNote(spark.sparkContext.accumulator(-1, _NotedNumber(note)))

    def note(self, batch: int) -> None:
        """Note a batch, unless a higher number is stored."""
        self.newest.add(batch)


class _NotedNumber(AccumulatorParam[int]):
    """Keeps the highest number, and writes it where there is a note: on the driver alone."""

    def __init__(self, note: BatchNote | None = None) -> None:
        self._note = note

    def __reduce__(self) -> tuple[type[_NotedNumber], tuple[()]]:
        return _NotedNumber, ()

    def zero(self, value: int) -> int:
        return -1

    def addInPlace(self, value1: int, value2: int) -> int:  # noqa: N802  Spark's name
        if self._note is not None and value2 > value1:
            try:
                self._note.note(value2)
            except CheckpointError as error:
                # Spark would drop what tasks tell from then on; the next batch is noted again.
                _LOG.warning("batch %d could not be noted in the checkpoint: %s", value2, error.given)
        return max(value1, value2)
