"""The checkpoint folder of a query: what windrow keeps there beside Spark's own files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec

from windrow.addresses.paths import local_path
from windrow.addresses.redaction import redact_address
from windrow.errors import CheckpointError, IncompatibleStateError, InvalidArgumentError
from windrow.plan import SourceNode, Step
from windrow.sources import DataFrameSource
from windrow_runtime.operators.topology import Topology
from windrow_runtime.outputs.whole_files import write_whole
from windrow_runtime.spark.batch_number import BatchNote
from windrow_runtime.spark.checkpoint.small_files import checkpoint_errors, damaged_file
from windrow_runtime.spark.checkpoint.spark_files import (
    check_source_logs,
    check_spark_files,
    clear_leftovers,
    last_number,
)
from windrow_runtime.spark.checkpoint.stored_json import read_json, read_partly, write_json
from windrow_runtime.spark.clock.files import ClockFiles
from windrow_runtime.spark.paths import as_read_path, as_spark_path
from windrow_runtime.spark.run.end_of_stream import END_LINE, EndMark

__all__ = ["Checkpoint", "Description", "StoredSource"]

_VERSION = 4  # those below were never released

_DESCRIPTION = "windrow.json"
_END = "end-of-stream"
_DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A source as the first run noted it, in the order in which Spark notes how far each was read.

    Attributes:
        kind: The name of its class.
        folder: The name of its folder in the checkpoint.
    """

    kind: str
    folder: str


@dataclass(frozen=True, slots=True)
class Description:
    """What the first run noted of its plan.

    Attributes:
        windrow: The version of windrow.
        id: The identity of the query: no other checkpoint has it.
        partitions: Spark's shuffle partitions.
        groups: Key groups in each of them.
        fingerprint: Stands in all stored state, in hexadecimal digits.
        time: By which time the query runs.
        sources: The sources.
        steps: What the state of each keyed step depends on, by the name under which it is stored.
        version: The version of the format.
    """

    windrow: str
    id: str
    partitions: Annotated[int, msgspec.Meta(ge=1)]
    groups: Annotated[int, msgspec.Meta(ge=1)]
    fingerprint: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})+$")]
    time: str
    sources: Sequence[StoredSource]
    steps: Mapping[str, dict[str, Any]]  # Any: a shape, as JSON holds it; see plan_shape
    version: int = _VERSION


@dataclass(frozen=True, slots=True)
class _Version:
    version: int


@dataclass(frozen=True, slots=True)
class _Reported:
    batch: int


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
        with checkpoint_errors(folder):
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
        """The identity of the query: no other checkpoint has it. The first run gives it.

        Raises:
            CheckpointError: If the folder is damaged.
        """
        stored = self.description()
        if stored is None:
            raise damaged_file(self.path / _DESCRIPTION, "it is gone, and a run uses it")
        return stored.id

    def description(self) -> Description | None:
        """What the first run said of its plan; None before it.

        Raises:
            IncompatibleStateError: If another version of windrow wrote it.
            CheckpointError: If the folder is damaged.
        """
        file = self.path / _DESCRIPTION
        found = read_partly(file, _Version)
        if found is None:
            if self._newest_known() >= 0 or (not self.inside and self.last_planned() >= 0):
                raise damaged_file(file, "it is gone, and batches have run")
            return None
        if found.version != _VERSION:
            raise IncompatibleStateError(
                "the checkpoint was written by another version",
                given=found.version,
                expected=f"version {_VERSION}",
                where=str(self.path),
                hint="run it with the version of windrow that wrote it, or a newer one",
            )
        return read_json(file, Description)

    def _newest_known(self) -> int:
        """The number of the newest batch that has run, by all that windrow keeps beside Spark's files; -1: none has."""
        end = self.end_mark.batch()
        # The time of a batch is stored at the end of the one before.
        return max(
            self.note.newest(),
            -1 if end is None else end,
            ClockFiles(self.clock_folder).newest() - 1,
            self._newest_reported(),
        )

    def _newest_reported(self) -> int:
        try:
            found = read_json(self.progress_file, _Reported)
        except CheckpointError:
            return -1  # no run fails because it cannot report
        return -1 if found is None else found.batch

    def check_whole(self, topology: Topology) -> None:
        """Refuse a folder of which a part is gone, and where Spark would go on as if that had never been.

        Args:
            topology: The plan that the folder belongs to.

        Raises:
            CheckpointError: If so, with the file that is missing.
        """
        # First of all: a query that runs plans a batch before it notes it.
        newest = self._newest_known()
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

    def describe(self, description: Description) -> None:
        """Write down what there is to say of the plan."""
        write_json(self.path / _DESCRIPTION, asdict(description))

    def _write(self, file: Path, text: str) -> None:
        with checkpoint_errors(self.path):
            write_whole(file, text)


def _reads_stream(step: Step) -> bool:
    """Whether a step reads a streaming DataFrame of the user's."""
    source = step.node.source if isinstance(step.node, SourceNode) else None
    return isinstance(source, DataFrameSource) and bool(source.dataframe.isStreaming)
