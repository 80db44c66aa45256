"""Lets tasks note their batch in a checkpoint that only the driver can open: Spark brings the number to the driver."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import Accumulator, AccumulatorParam

from windrow.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from windrow_runtime.spark.checkpoint.folder import BatchNote

_LOG: Final = logging.getLogger("windrow")


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
