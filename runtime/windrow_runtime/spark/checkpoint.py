"""The checkpoint folder of a query: what windrow keeps there beside Spark's own files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windrow.errors import IncompatibleStateError, InvalidArgumentError
from windrow.paths import local_path
from windrow.plan import SourceNode, Step
from windrow.redaction import redact_address
from windrow.sources import DataFrameSource
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark.batch_note import BatchNote
from windrow_runtime.spark.checkpoint_files import damaged_file, files_told, read_description, write_whole
from windrow_runtime.spark.end_of_stream import END_LINE, EndMark
from windrow_runtime.spark.paths import as_read_path, as_spark_path
from windrow_runtime.spark.spark_files import (
    check_source_logs,
    check_spark_files,
    clear_leftovers,
    last_number,
)

__all__ = ["Checkpoint"]

# Any in this module: what JSON holds.

_DESCRIPTION = "windrow.json"
_END = "end-of-stream"
_DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint folder.

    Attributes:
        path: The folder, on the local file system or on one that every machine has mounted.
        folders: The folders of sources by the id of the step, where they are not named by its number.
        inside: Whether the folder lies in that of Spark, as for a query that the user starts; else it is around it.
    """

    path: Path
    folders: Mapping[str, str] = field(default_factory=dict)
    inside: bool = False

    @staticmethod
    def at(path: str | os.PathLike[str], *, inside: bool = False) -> Checkpoint:
        """The checkpoint in a folder, which is made if it is missing.

        Args:
            path: The folder.
            inside: Whether it lies in Spark's.

        Raises:
            InvalidArgumentError: For a path that is not one of a mounted file system, or that Spark cannot read.
            CheckpointError: If the folder cannot be made.
        """
        text = os.fspath(path)
        local = local_path(text)
        if local is None:
            raise InvalidArgumentError(
                "the checkpoint must be in a mounted file system",
                given=redact_address(text),
                expected="a path that the driver and all workers can open",
            )
        folder = Path(local)
        as_read_path(folder)  # refuses what Spark cannot read
        with files_told(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return Checkpoint(folder, inside=inside)

    @property
    def spark_folder(self) -> str:
        """Where Spark keeps its part."""
        return as_spark_path(self._spark)

    @property
    def _spark(self) -> Path:
        return self.path.parent if self.inside else self.path / "spark"

    @property
    def note(self) -> BatchNote:
        """Where the number of the newest batch stands."""
        return BatchNote(self.path / "newest-batch")

    @property
    def control_folder(self) -> Path:
        """Where the runner tells the query that the stream is at its end."""
        return self.path / "control"

    @property
    def clock_folder(self) -> Path:
        """Where the time of each batch is kept, for plans whose watermark Spark cannot follow."""
        return self.path / "clock"

    def last_planned(self) -> int:
        """The number of the last batch that Spark has planned; -1: none. It may still have to be run."""
        return last_number(self._spark / "offsets")

    @property
    def results_folder(self) -> Path:
        """Where a Spark Connect server leaves what a run collected and counted."""
        return self.path / "results"

    @property
    def progress_file(self) -> Path:
        """Where it stands how many windows, timers and bytes of state there are, for reports on batches."""
        return self.path / "progress.json"

    @property
    def end_mark(self) -> EndMark:
        """Where it stands which batch read the end of the stream."""
        return EndMark(self.path / "end-of-stream-batch")

    def is_committed(self, batch: int) -> bool:
        """Whether Spark has noted a batch as done. There is none below 0 that is not."""
        return batch < 0 or (self._spark / "commits" / str(batch)).exists()

    def folder_of(self, step: Step) -> Path:
        """Where elements of a source are kept that Spark cannot read again from elsewhere."""
        return self.path / "sources" / self.folders.get(step.id, str(step.index))

    def check_open(self, *, drain: bool) -> None:
        """Refuse a checkpoint whose stream is at its end.

        Args:
            drain: Whether the run ends the stream. A run that failed while it did so may be followed by another that
                finishes.

        Raises:
            IncompatibleStateError: If it is.
        """
        if (self.path / _DRAINED).exists():
            raise IncompatibleStateError(
                "the checkpoint was drained: its stream is at its end",
                given=str(self.path),
                expected="a checkpoint that was not drained",
                hint="use a new checkpoint, or run(pipeline, drain=False) where the stream goes on later",
            )
        if not drain and self.is_ending:
            raise IncompatibleStateError(
                "a run failed at the end of its stream: nothing can follow but what was left to do there",
                given=str(self.path),
                expected="a run that drains",
                hint="run(pipeline) finishes; then use a new checkpoint",
            )

    @property
    def is_ending(self) -> bool:
        """Whether it was said that the stream is at its end."""
        return (self.control_folder / _END).exists()

    def end_stream(self) -> None:
        """Say that the stream is at its end."""
        if not self.is_ending:
            self._write(self.control_folder / _END, f"{END_LINE}\n")

    def wake(self) -> None:
        """Give the query a line to read, where all that was planned is done, so that Spark runs a batch.

        After a restart Spark waits for something to read, even if timers are due or the clock goes on.
        """
        last = self.last_planned()
        if last >= 0 and self.is_committed(last):
            self._write(self.control_folder / f"wake-{last + 1}", "wake\n")

    def has_fired_all(self) -> bool:
        """Whether the batch behind the one that read the end of the stream is done."""
        end = self.end_mark.batch()
        return end is not None and self.is_committed(end + 1)

    def mark_drained(self) -> None:
        """Say that everything is done that was left to do at the end of the stream."""
        self._write(self.path / _DRAINED, "end\n")

    def query_id(self) -> str:
        """The identity of the query: no other checkpoint has it. The first run gives it."""
        stored = self.description()
        assert stored is not None, "the first run describes its plan before it asks"
        return str(stored["id"])

    def description(self) -> dict[str, Any] | None:
        """What the first run said of its plan; None before it.

        Raises:
            CheckpointError: If the folder is damaged.
        """
        file = self.path / _DESCRIPTION
        if file.exists():
            return read_description(file)
        if self.note.newest() >= 0 or (not self.inside and self.last_planned() >= 0):
            raise damaged_file(file, "it is gone, and batches have run")
        return None

    def check_whole(self, topology: Topology) -> None:
        """Refuse a folder of which a part is gone, and where Spark would go on as if that had never been.

        Args:
            topology: The plan that the folder belongs to.

        Raises:
            CheckpointError: If so, with the file that is missing.
        """
        # First of all: a query that runs plans a batch before it notes it.
        newest = self.note.newest()
        stateful = bool(topology.keyed)
        check_spark_files(self._spark, newest, stateful=stateful)
        # Spark reads a stream once that two DataFrames have in common, and has one log for both.
        if sum(map(_reads_stream, topology.sources)) < 2:
            # One more tells a query with state of the end of the stream.
            check_source_logs(self._spark, len(topology.sources) + stateful)

    def clear_leftovers(self) -> None:
        """Remove what a process that died was about to write. Called while no other run uses the folder.

        Raises:
            CheckpointError: If there is state though no batch was planned, or if files cannot be removed.
        """
        clear_leftovers(self._spark)

    def describe(self, description: Mapping[str, Any]) -> None:
        """Write down what there is to say of the plan."""
        self._write(self.path / _DESCRIPTION, json.dumps(description, indent=1))

    def _write(self, file: Path, text: str) -> None:
        with files_told(self.path):
            write_whole(file, text)


def _reads_stream(step: Step) -> bool:
    """Whether a step reads a streaming DataFrame of the user's."""
    source = step.node.source if isinstance(step.node, SourceNode) else None
    return isinstance(source, DataFrameSource) and bool(source.dataframe.isStreaming)
