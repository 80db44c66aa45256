"""Stores the time of each batch, if windrow keeps it itself, in a file of the checkpoint.

Spark follows one watermark, made from the rows of its sources. A plan with several timestamp-assigning steps, with one
behind a window, or with a generator of the user's needs more: the driver computes the watermark at the end of a batch,
and the workers read it when the next one begins. A batch that is run again finds the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from windrow_runtime.spark.checkpoint.stored_file import (
    StoredFile,
    StoredTime,
    checkpoint_errors,
    damaged_file,
    file_numbers,
)

V = TypeVar("V")

TrackerNote: TypeAlias = tuple[StoredTime, bool, StoredTime | None, str]
"""The state of a tracker: its watermark, whether it is idle, its last active time, its generator's attributes."""

_KEPT: Final = 3


@dataclass(frozen=True, slots=True)
class BatchClock:
    """The time at the beginning of a batch.

    Attributes:
        watermarks: The watermark of each keyed step, in milliseconds, by step id.
        previous: The same in the batch before.
        now: The clock of the batch in milliseconds; None: Spark's clock.
        ended: Whether the stream is at its end.
        trackers: The state of each timestamp-assigning step's tracker, by step id.
    """

    watermarks: Mapping[str, StoredTime] = field(default_factory=dict)
    previous: Mapping[str, StoredTime] = field(default_factory=dict)
    now: StoredTime | None = None
    ended: bool = False
    trackers: Mapping[str, TrackerNote] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Returns whether every watermark is that of the batch before."""
        return self.watermarks == self.previous

    def renamed(self, names: Mapping[str, str]) -> BatchClock:
        """Returns the same time with other names of steps."""

        def named(values: Mapping[str, V]) -> dict[str, V]:
            return {names.get(step, step): value for step, value in values.items()}

        return replace(
            self, watermarks=named(self.watermarks), previous=named(self.previous), trackers=named(self.trackers)
        )


@dataclass(frozen=True, slots=True)
class ClockFiles:
    """The clock files of a checkpoint.

    Attributes:
        folder: The folder of the files, which the driver and all workers see.
        stored_ids: The names of steps in the files, by the ids of the steps.
    """

    folder: Path
    stored_ids: Mapping[str, str] = field(default_factory=dict)

    def file(self, batch: int) -> StoredFile[BatchClock]:
        """Returns the file of a batch."""
        return StoredFile(self.folder / f"{batch}", BatchClock)

    def newest(self) -> int:
        """Returns the newest batch whose time is known; -1: there is none."""
        return max(file_numbers(self.folder), default=-1)

    def exists(self, batch: int) -> bool:
        """Returns whether the time of a batch is known."""
        return self.file(batch).path.exists()

    def read(self, batch: int) -> BatchClock:
        """Returns the time of a batch. The first one may begin without a file.

        Raises:
            CheckpointError: If the file is missing or cannot be read.
        """
        found = self.find(batch)
        if found is None and batch > 0:
            raise damaged_file(self.file(batch).path, "it is missing")
        return found or BatchClock()

    def find(self, batch: int) -> BatchClock | None:
        """Returns the time of a batch; None: there is no file.

        Raises:
            CheckpointError: If the file cannot be read.
        """
        clock = self.file(batch).read()
        return clock and clock.renamed({name: step for step, name in self.stored_ids.items()})

    def write(self, batch: int, clock: BatchClock) -> None:
        """Write the time of a batch, and delete the oldest file.

        Raises:
            CheckpointError: If the file cannot be written.
        """
        with checkpoint_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.file(batch).write(clock.renamed(self.stored_ids))
            self.file(batch - _KEPT).path.unlink(missing_ok=True)
