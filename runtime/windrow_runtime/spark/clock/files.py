"""The time of each batch, where windrow keeps it itself: a file for each batch in the checkpoint.

Spark follows one watermark, made from the rows of its sources. A plan with several timestamp-assigning steps, with one
behind a window, or with a generator of the user's needs more: the driver computes the watermark at the end of a batch,
and the workers read it when the next one begins. A batch that is run again finds the same file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from windrow_runtime.spark.checkpoint.small_files import checkpoint_errors, damaged_file, file_numbers
from windrow_runtime.spark.checkpoint.stored_json import StoredTime, read_json, write_json

__all__ = ["BatchClock", "ClockFiles", "TrackerNote", "batch_tag", "current_batch"]

V = TypeVar("V")

TrackerNote: TypeAlias = tuple[StoredTime, bool, StoredTime | None, str]
"""What a tracker knows: its watermark, whether it is idle, when it was active last, and its generator's attributes."""

_BATCH_PROPERTY: Final = "streaming.sql.batchId"
_TAGS_PROPERTY: Final = "spark.job.tags"
_TAG: Final = "windrow-batch-"
_KEPT: Final = 3


@dataclass(frozen=True, slots=True)
class BatchClock:
    """What is known when a batch begins.

    Attributes:
        watermarks: The watermark of each keyed step, in milliseconds, by step id.
        previous: The same in the batch before.
        now: Its clock in milliseconds; None: Spark's.
        ended: Whether the stream is at its end.
        trackers: What each timestamp-assigning step has seen, by step id.
    """

    watermarks: Mapping[str, StoredTime] = field(default_factory=dict)
    previous: Mapping[str, StoredTime] = field(default_factory=dict)
    now: StoredTime | None = None
    ended: bool = False
    trackers: Mapping[str, TrackerNote] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether every watermark is that of the batch before."""
        return self.watermarks == self.previous


@dataclass(frozen=True, slots=True)
class ClockFiles:
    """The files.

    Attributes:
        folder: Where they are: a folder that the driver and all workers see.
        stored_ids: The names of steps in the files, by the ids of the steps.
    """

    folder: Path
    stored_ids: Mapping[str, str] = field(default_factory=dict)

    def file(self, batch: int) -> Path:
        """The file of a batch."""
        return self.folder / f"{batch}.json"

    def newest(self) -> int:
        """The newest batch whose time is known; -1: there is none."""
        return max(file_numbers(self.folder, suffix=".json"), default=-1)

    def exists(self, batch: int) -> bool:
        """Whether the time of a batch is known."""
        return self.file(batch).exists()

    def read(self, batch: int) -> BatchClock:
        """What is known when a batch begins. The first batch may begin without a file.

        Raises:
            CheckpointError: If the file is missing or cannot be read.
        """
        found = self.find(batch)
        if found is None:
            if batch == 0:
                return BatchClock()
            raise damaged_file(self.file(batch), "it is missing")
        return found

    def find(self, batch: int) -> BatchClock | None:
        """What is known when a batch begins; None: there is no file.

        Raises:
            CheckpointError: If the file cannot be read.
        """
        clock = read_json(self.file(batch), BatchClock)
        return (
            None if clock is None else _renamed(clock, {name: step for step, name in self.stored_ids.items()})
        )

    def write(self, batch: int, clock: BatchClock) -> None:
        """Tell the time of a batch, and forget those of long ago.

        Raises:
            CheckpointError: If the file cannot be written.
        """
        with checkpoint_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.file(batch), asdict(_renamed(clock, self.stored_ids)))
        with checkpoint_errors(self.folder):
            self.file(batch - _KEPT).unlink(missing_ok=True)


def batch_tag(batch: int) -> str:
    """What the jobs of a batch are tagged with over Spark Connect, where Spark tells their tasks no number."""
    return f"{_TAG}{batch}"


def _renamed(clock: BatchClock, names: Mapping[str, str]) -> BatchClock:
    def named(values: Mapping[str, V]) -> dict[str, V]:
        return {names.get(step, step): value for step, value in values.items()}

    return replace(
        clock,
        watermarks=named(clock.watermarks),
        previous=named(clock.previous),
        trackers=named(clock.trackers),
    )


def current_batch() -> int | None:
    """The number of the batch that this task belongs to; None outside of a streaming query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None
    number = context.getLocalProperty(_BATCH_PROPERTY)
    if number is not None:
        return int(number)
    # Spark makes the tag part of a longer one.
    tagged = re.search(rf"{_TAG}(\d+)", context.getLocalProperty(_TAGS_PROPERTY) or "")
    return None if tagged is None else int(tagged[1])
