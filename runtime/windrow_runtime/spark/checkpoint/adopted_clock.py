"""Takes over the watermark that Spark has kept for a checkpoint so far, so that windrow keeps it from now on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windrow.errors import CheckpointError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.spark.checkpoint.folder import Checkpoint
from windrow_runtime.spark.checkpoint.stored_file import StoredFile, StoredTime
from windrow_runtime.spark.clock import BatchClock, ClockFiles


@dataclass(frozen=True, slots=True)
class _Reached:
    """The watermarks before and after the newest batch, as the checkpoint's progress file has them."""

    batch: int
    watermark_before: StoredTime
    watermark: StoredTime


def adopt_clock(checkpoint: Checkpoint, stored_ids: Mapping[str, str]) -> None:
    """Store the watermark of steps for the batch with which the next run begins.

    It is the watermark of all sources before this batch, as the progress file has it. If it is not known, it begins
    anew with the elements to come.
    """
    planned = checkpoint.last_planned()
    batch = planned + 1 if checkpoint.is_committed(planned) else planned
    if batch == 0:
        return
    watermark = _watermark_before(checkpoint, batch)
    clock = BatchClock(watermarks=dict.fromkeys(stored_ids, watermark), ended=watermark == MAX_TIMESTAMP)
    ClockFiles(checkpoint.clock_folder, stored_ids).write(batch, clock)


def _watermark_before(checkpoint: Checkpoint, batch: int) -> int:
    """Returns the watermark of all sources before a batch begins; the lowest one if it is not known."""
    try:
        reached = StoredFile(checkpoint.progress_file, _Reached).read()
    except CheckpointError:
        reached = None  # a damaged progress file makes no run fail
    if reached is None:
        return MIN_TIMESTAMP
    return {reached.batch + 1: reached.watermark, reached.batch: reached.watermark_before}.get(batch, MIN_TIMESTAMP)
