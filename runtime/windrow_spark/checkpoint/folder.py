"""Reads and writes the files that windrow keeps in the checkpoint folder of a query, beside Spark's own files."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windrow.addresses.paths import local_path
from windrow.addresses.redaction import redact_address
from windrow.errors import CheckpointError, IncompatibleStateError, InvalidArgumentError
from windrow.plan import Step
from windrow_spark.checkpoint.file_log import FileLog, MergedFileLog
from windrow_spark.checkpoint.newest_batch import BatchNote, ClosedSources, DriverNote
from windrow_spark.checkpoint.spark_files import (
    batch_that_reads,
    check_source_logs,
    check_spark_files,
    clear_leftovers,
    file_log,
    has_settled,
    is_logged,
    last_number,
    takes_several,
)
from windrow_spark.checkpoint.storage import HadoopPath, StoragePath, clear, hand_on, set_time, write_whole
from windrow_spark.checkpoint.stored_file import StoredFile, checkpoint_errors, damaged_file, is_there
from windrow_spark.checkpoint.stored_streams import StoredStreams
from windrow_spark.division import Division
from windrow_spark.paths import as_read_path, as_spark_path
from windrow_spark.progress import reported_times

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from windrow_spark.clock import ClockFiles

END_LINE: Final = "end"
"""The line in the control folder that ends the stream. Any other line only wakes the query."""

_OWNER_ALONE: Final = 0o700
_LINES_KEPT: Final = 3
"""The batches after which a line that wakes a running query was read by one that is done."""

"""The mode of a checkpoint's folder: it has elements and state, which other users may neither read nor change."""
_OTHERS: Final = 0o077

# Any in this module: the shapes of steps, as JSON holds them.


@dataclass(frozen=True, slots=True)
class StoredSource:
    """The class of a source and the name of its folder; sources are stored in the order of Spark's log of offsets."""

    kind: str
    folder: str


@dataclass(frozen=True, slots=True)
class Description:
    """The description of the plan, which the first run of a checkpoint stores."""

    windrow: str  # its version
    id: str  # the identity of the query: no other checkpoint has it
    partitions: int  # Spark's shuffle partitions
    groups: int  # key groups in each of them
    fingerprint: str  # the plan's number in all stored state, in hexadecimal digits
    time: str  # the kind of time by which the query runs
    sources: Sequence[StoredSource]
    steps: Mapping[str, dict[str, Any]]  # the shape of each keyed step, by the name under which its state is stored


class Checkpoint:
    """A checkpoint folder. Its methods raise :class:`~windrow.errors.CheckpointError` if a file is damaged.

    Every machine has its file system mounted, or Spark's JVM opens it. The folder lies ``inside`` of Spark's if the
    user starts the query, and contains Spark's otherwise. ``folders`` are those of sources, by step id; others are
    named by the step's number.
    """

    def __init__(self, path: StoragePath, folders: Mapping[str, str] | None = None, *, inside: bool = False) -> None:
        self.path = path
        self.spark_path = path.parent if inside else path / "spark"
        self.spark_folder = as_spark_path(self.spark_path)
        self.plan = StoredFile(path / "plan", Description)
        self.streams = StoredFile(path / "streams", StoredStreams)  # which streams feed which step of the plan
        self.newest_batch = BatchNote(path / "newest-batch", int)  # the newest batch that has begun to write
        self.division = StoredFile(path / "division", Division)  # of the newest batch that has begun, if sinks need it
        self.closed_sources = ClosedSources(path / "closed-sources-batch", int)
        self.control_folder = path / "control"  # lines by which the runner wakes the query and ends its stream
        self.clock_folder = path / "clock"  # the time of each batch, for plans whose watermark Spark cannot follow
        self.counters_folder = path / "counters"  # the counters of each batch
        self.results_folder = path / "results"  # where a Spark Connect server leaves the results of a run
        self.progress_file = path / "progress"  # windows, timers and bytes of state, for reports on batches
        self._end_line = self.control_folder / "end-of-stream"
        self._drained = path / "drained"
        self._ending_batch = self._looked_up_to = -1
        self._folders = folders or {}
        self.is_inside = inside

    def with_folders(self, folders: Mapping[str, str]) -> Checkpoint:
        """Returns the same checkpoint with other folders of sources."""
        return Checkpoint(self.path, folders, inside=self.is_inside)

    @staticmethod
    def at(
        path: str | os.PathLike[str], elsewhere: Callable[[str], StoragePath] | None = None, *, inside: bool = False
    ) -> Checkpoint:
        """Opens the checkpoint in a folder, which is created if it is missing; refuses one that Spark could not read.

        Only its owner may read an empty folder from then on, unless it belongs to another user. ``elsewhere``
        opens folders in file systems that are not mounted.
        """
        folder = _opened(os.fspath(path), elsewhere)
        as_read_path(folder)  # refuses a path that Spark cannot read
        checkpoint = Checkpoint(folder, inside=inside)
        with checkpoint_errors(folder):
            if inside and not folder.parent.exists():
                folder.parent.mkdir(mode=_OWNER_ALONE, parents=True)  # Spark keeps the state there
            folder.mkdir(mode=_OWNER_ALONE, parents=True, exist_ok=True)
            if isinstance(folder, Path):
                mode = stat.S_IMODE(folder.stat().st_mode)
                if mode & _OTHERS and not any(folder.iterdir()):
                    with suppress(PermissionError):
                        folder.chmod(mode & ~_OTHERS)
        checkpoint._check_no_links()
        return checkpoint

    @property
    def own_entries(self) -> Sequence[StoragePath]:
        """The files and folders that runs make in the folder of a checkpoint, but the lock; not all need be there."""
        notes = (self.plan, self.streams, self.newest_batch, self.division, self.closed_sources)
        folders = (self.control_folder, self.clock_folder, self.counters_folder, self.results_folder)
        spark = () if self.is_inside else (self.spark_path,)
        return [
            *(note.path for note in notes),
            *(*folders, *spark, self.path / "sources", self.progress_file, self._drained),
        ]

    @property
    def is_mounted(self) -> bool:
        """Whether workers and other processes open the folder by themselves, and its files keep the times they get."""
        return not isinstance(self.path, HadoopPath)

    def hand_on(self, spark: SparkSession, batch: int | None = None, clock: ClockFiles | None = None) -> None:
        """Send the checkpoint's files with the tasks of this thread's batch if workers cannot open the folder.

        Without a batch, the tasks of all batches get them, of a query that this thread starts.
        """
        files = [self.closed_sources.path]
        if batch is not None:
            files += [self.progress_file, *([] if clock is None else [clock.file(batch).path])]
        if not self.is_mounted:
            hand_on(spark, files)

    def hand_nothing(self, spark: SparkSession) -> None:
        """End what :meth:`hand_on` does for the jobs that this thread starts from now on."""
        if not self.is_mounted:
            hand_on(spark, ())

    def _check_no_links(self) -> None:
        """Refuse links instead of folders of the checkpoint, since they may lead to files of others."""
        spark = [self.spark_path / name for name in ("offsets", "commits", "state", "sources")]
        own = [self.control_folder, self.clock_folder, self.counters_folder, self.results_folder, self.path / "sources"]
        for folder in (*own, *spark, *([] if self.is_inside else [self.spark_path])):
            if folder.is_symlink():
                raise damaged_file(folder, "it is a link")

    @staticmethod
    def in_query_folder(
        path: str | os.PathLike[str] | None, elsewhere: Callable[[str], StoragePath] | None = None
    ) -> Checkpoint:
        """Opens windrow's part inside the checkpoint folder of a query that is the user's own."""
        if path is None:
            raise InvalidArgumentError(
                "a streaming DataFrame needs a checkpoint",
                expected="SparkRunner(checkpoint=folder)",
                hint='give Spark the same folder: df.writeStream.option("checkpointLocation", folder)',
            )
        text = os.fspath(path)
        if is_there(Checkpoint(_opened(text, elsewhere)).plan.path):
            raise IncompatibleStateError(
                "the checkpoint belongs to a run of a pipeline",
                given=text,
                expected="a folder of its own for each query",
            )
        return Checkpoint.at(f"{text}/windrow", elsewhere, inside=True)

    def folder_of(self, step: Step) -> StoragePath:
        """Returns the folder for elements of a source, such as a collection, that Spark has to read from files."""
        return self.path / "sources" / self._folders.get(step.id, str(step.index))

    def forget_elements(self) -> None:
        """Delete the elements of sources that were written by a run that ended before its first batch."""
        clear(self.path / "sources")

    def has_run(self) -> bool:
        """Returns whether a batch was planned, by Spark's part of the checkpoint or by windrow's."""
        return self.last_planned() >= 0 or self._newest_known() >= 0

    def last_planned(self) -> int:
        """Returns the number of the last batch that Spark has planned; -1: none. It may still have to be run."""
        return last_number(self.spark_path / "offsets")

    def is_committed(self, batch: int) -> bool:
        """Returns whether Spark has noted a batch as done. Numbers below 0 count as done."""
        return batch < 0 or is_there(self.spark_path / "commits" / str(batch))

    def check_open(self, *, drain: bool) -> None:
        """Refuse a checkpoint whose stream has ended, except for a run that finishes a failed drain."""
        if is_there(self._drained):
            raise IncompatibleStateError(
                "the checkpoint was drained: its stream is at its end",
                given=str(self.path),
                expected="a checkpoint that was not drained",
                hint="use a new checkpoint; run(pipeline, drain=False), or windrow run --available-now, ends no stream",
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
        """Returns whether Spark has planned a batch that reads the end of the stream, or is about to."""
        if not is_there(self._end_line):
            return False
        return self.last_planned() >= self.closed_sources.batch() >= 0 or is_logged(self.spark_path, self._end_line)

    def end_stream(self, batches: int = 0) -> None:
        """End the stream by a line that the query reads after some more batches; those that follow ignore the sources.

        The query reads one line in each batch, the older ones first.
        """
        if self.is_ending:
            return
        first = self.last_planned() + 1
        # Without the line the note is void, and is removed by the next run.
        self.closed_sources.note(first + batches)
        # Spark reads files in the order of their times, and the file system may have another clock: all get those here.
        written = time.time()
        names = [f"wake-{first + number}-{secrets.token_hex(4)}" for number in range(batches)]
        for number, line in enumerate([*(self.control_folder / name for name in names), self._end_line]):
            self._write(line, END_LINE if line == self._end_line else "wake")
            with checkpoint_errors(self.path):
                set_time(line, written - batches + number)

    def wake(self, *, by_watermark: bool = False) -> None:
        """Give the query a line to read if all planned batches are done, so that Spark runs another batch.

        After a restart Spark waits for something to read, even if timers are due or the clock goes on. A query that
        waits for Spark's watermark alone, ``by_watermark``, gets no line if its newest batch has not moved it.
        No query runs meanwhile: lines of batches that are done are deleted.
        """
        last = self.last_planned()
        if last < 0 or not self.is_committed(last):
            return
        if not is_there(self._end_line):  # the lines before the end say after how many batches it is read
            with checkpoint_errors(self.control_folder):
                for line in [*self.control_folder.glob("wake-*")]:
                    line.unlink(missing_ok=True)
        if not (by_watermark and has_settled(self.spark_path, last)):
            self._write(self.control_folder / f"wake-{last + 1}", "wake")

    def wake_running(self, batch: int) -> None:
        """Give a running query, whose newest batch has begun, a line to read, so that Spark runs another batch.

        There is at most one line for each batch, and each batch reads one. So older ones are read, and are deleted.
        """
        with checkpoint_errors(self.control_folder):
            for line in self.control_folder.glob("wake-*"):
                number = line.name.split("-")[1]
                if number.isdecimal() and int(number) < batch - _LINES_KEPT:
                    line.unlink(missing_ok=True)
        self._write(self.control_folder / f"wake-{batch + 1}-{secrets.token_hex(4)}", "wake")

    def ending_batch(self) -> int:
        """Returns the number of the batch that reads the end of a drained stream; -1: none was planned.

        That batch moves the watermark to the end of time, and the next batch fires all open windows.
        """
        last = self.last_planned()
        if self._ending_batch < 0 and last != self._looked_up_to:
            self._ending_batch, self._looked_up_to = batch_that_reads(self.spark_path, self._end_line), last
        return self._ending_batch

    def has_fired_all(self) -> bool:
        """Returns whether the batch after the one that reads the end of the stream is done."""
        end = self.ending_batch()
        return end >= 0 and self.is_committed(end + 1)

    def mark_drained(self) -> None:
        """Note that the drain is complete: all windows and timers have fired at the end of the stream."""
        self._write(self._drained, "end")

    def task_note(self, spark: SparkSession) -> BatchNote | DriverNote:
        """Returns what tasks note the newest batch with, where no code on the driver sees batches."""
        return self.newest_batch if self.is_mounted else DriverNote.of(spark, self.newest_batch)

    def query_id(self) -> str:
        """Returns the identity of the query, which the first run gave it."""
        stored = self.description()
        if stored is None:
            raise damaged_file(self.plan.path, "it is gone, and a run uses it")
        return stored.id

    def description(self) -> Description | None:
        """Returns the description of the plan that the first run stored; None before it."""
        stored = self.plan.read()
        if stored is None and (self._newest_known() >= 0 or (not self.is_inside and self.last_planned() >= 0)):
            raise damaged_file(self.plan.path, "it is gone, and batches have run")
        return stored

    def _newest_known(self) -> int:
        """Returns the number of the newest batch that has run, by windrow's files in the checkpoint; -1: none has."""
        reported = reported_times(self.progress_file)
        return max(
            self.newest_batch.batch(),
            # The time of a batch is stored at the end of the one before.
            last_number(self.clock_folder) - 1,
            -1 if reported is None else reported.batch,
        )

    def check_whole(self, sources: int | None, *, stateful: bool) -> None:
        """Refuse a folder with missing files if Spark would go on as if these had never existed.

        Args:
            sources: The number of sources that Spark has a log of; None: it is not known.
            stateful: Whether the query has keyed steps.
        """
        # This is read first: a running query plans a batch before it notes the batch.
        newest = self._newest_known()
        check_spark_files(self.spark_path, newest, stateful=stateful)
        if sources is not None:
            # A query with state has one more source: the control folder.
            check_source_logs(self.spark_path, sources + stateful)

    def log_of_files(self, folder: str) -> FileLog:
        """Returns the log of the files that a source has read, which may not exist, by the folder of the source."""
        # Spark's planner may run in another folder.
        file = (self.path / "sources" / folder / "files-of-batches").absolute()
        return FileLog(file) if self.is_mounted else MergedFileLog(file)

    def files_read_by_spark(self, place: int | None) -> list[list[str]]:
        """Returns the files in each entry of Spark's log of a source, by the number that it has for Spark."""
        if place is None or self.is_inside:
            raise IncompatibleStateError(
                "nobody knows which files of the source Spark has read, beside sources that the query has itself",
                given="files_in_order, in the checkpoint of a query that read its files by time",
                expected='files_in_order="time", or a new checkpoint',
            )
        entries = file_log(self.spark_path / "sources" / str(place))
        return [entries[number] for number in sorted(entries)]

    def takes_several(self, place: int | None) -> bool:
        """Returns whether a batch takes several entries of a source of files whose batches have one, after a kill."""
        return place is None or self.is_inside or takes_several(self.spark_path, place)

    def clear_leftovers(self) -> None:
        """Remove unfinished files of a process that died. No other run may use the folder meanwhile.

        A stream whose end no batch reads has not ended.
        """
        clear_leftovers(self.spark_path)
        if not self.is_ending:
            with checkpoint_errors(self.path):
                self._end_line.unlink(missing_ok=True)
                self.closed_sources.path.unlink(missing_ok=True)

    def _write(self, file: StoragePath, line: str) -> None:
        with checkpoint_errors(self.path):
            write_whole(file, f"{line}\n")


def _opened(path: str, elsewhere: Callable[[str], StoragePath] | None) -> StoragePath:
    """Returns the path of a checkpoint; refuses one that is not mounted if nothing opens such file systems."""
    local = local_path(path)
    if local is not None:
        return Path(local)
    if elsewhere is None:
        raise InvalidArgumentError(
            "the checkpoint must be in a mounted file system",
            given=redact_address(path),
            expected="a path that the driver and all workers can open",
            hint="a session in the program itself, not over Spark Connect, opens other file systems as well",
        )
    try:
        return elsewhere(path.rstrip("/"))
    except OSError as error:
        raise CheckpointError(
            "the session does not open the file system of the checkpoint",
            given=error.strerror,
            expected="a scheme that its Hadoop knows",
            where=redact_address(path),
            hint="give the session the jar of the file system: org.apache.hadoop:hadoop-aws for s3a://",
        ) from error
