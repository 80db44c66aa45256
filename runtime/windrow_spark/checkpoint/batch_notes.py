"""Reads which files, watermark and clock each batch of a query had, and stores the counters of each batch.

Spark stores for each batch its clock, its watermark and the offsets of each source, and for each source the files that
it read. Windrow stores the watermarks that it keeps itself, and the counters. So the interpreter can run the same
batches again, to compare results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from windrow.errors import IncompatibleStateError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_spark.checkpoint.folder import Checkpoint, Description
from windrow_spark.checkpoint.spark_files import LogOffset, file_log
from windrow_spark.checkpoint.storage import StoragePath
from windrow_spark.checkpoint.stored_file import BATCHES_KEPT, StoredFile, checkpoint_errors, damaged_file, file_numbers
from windrow_spark.checkpoint.stored_plan import KEPT_TIME
from windrow_spark.clock import ClockFiles, decode_watermark
from windrow_spark.physical.plan import PhysicalPlan


@dataclass(frozen=True, slots=True)
class _Counted:
    counters: dict[str, dict[str, int]]  # by step id and name


@dataclass(frozen=True, slots=True)
class CounterNotes:
    """The files of a checkpoint with the counters of each batch. A batch without counts has no file."""

    folder: StoragePath

    def _file(self, batch: int) -> StoredFile[_Counted]:
        return StoredFile(self.folder / f"{batch}", _Counted)

    def write(self, batch: int, counters: dict[str, dict[str, int]]) -> None:
        """Write the counters of a batch, by step id and name, and delete the oldest file."""
        with checkpoint_errors(self.folder):
            if counters:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._file(batch).write(_Counted(counters))
            self._file(batch - BATCHES_KEPT).path.unlink(missing_ok=True)

    def read(self, batch: int) -> Mapping[str, Mapping[str, int]]:
        """Returns the counters of a batch, by step id and name."""
        counted = self._file(batch).read()
        return {} if counted is None else counted.counters


@dataclass(frozen=True, slots=True)
class NotedBatch:
    """The clock, the watermarks and the files of a committed batch."""

    number: int
    now: int  # the batch's processing time, in milliseconds
    watermarks: Mapping[str, int]  # of keyed steps and process functions, by id
    files: Mapping[str, tuple[str, ...]]  # the files that each source has read, by id, in their order


class _BatchLine(msgspec.Struct, rename={"watermark": "batchWatermarkMs", "now": "batchTimestampMs"}):
    watermark: int
    now: int


def noted_batches(checkpoint: Checkpoint, plan: PhysicalPlan) -> list[NotedBatch]:
    """Reads the notes of all committed batches.

    Args:
        checkpoint: The checkpoint.
        plan: The plan, whose sources are collections and files of mounted file systems.

    Raises:
        IncompatibleStateError: If no run has used the checkpoint, or the notes of the first batches are deleted.
        CheckpointError: If a file is damaged.
    """
    topology = plan.topology
    stored = checkpoint.description()
    spark = checkpoint.spark_path
    with checkpoint_errors(spark):
        planned = file_numbers(spark / "offsets")
        committed = [number for number in sorted(planned) if checkpoint.is_committed(number)]
    if stored is None or not committed:
        raise IncompatibleStateError(
            "the checkpoint has no batch that is done", given=str(checkpoint.path), expected="that of a run on Spark"
        )
    if committed[0] > 0 or committed[-1] >= BATCHES_KEPT:
        raise IncompatibleStateError(
            "the notes of the first batches are deleted",
            given=f"{checkpoint.path}: batches {committed[0]} to {committed[-1]}",
            expected="batches from 0 on, since the state before them is not known",
            hint="the notes of the last 100 batches are kept: replay a shorter run",
        )
    logs = [
        checkpoint.log_of_files(source.folder).read() or file_log(spark / "sources" / str(index))
        for index, source in enumerate(stored.sources)
    ]
    clock = ClockFiles(checkpoint.clock_folder, plan.state_ids)
    closed = checkpoint.closed_sources.batch()
    batches: list[NotedBatch] = []
    before = [0] * len(logs)
    for number in committed:
        line, read = _offsets(spark / "offsets" / str(number), len(logs))
        files = {
            step.id: tuple(file for entry in range(begin, end) for file in log.get(entry, ()))
            for step, log, begin, end in zip(topology.sources, logs, before, read, strict=True)
        }
        if number >= closed >= 0:
            files = dict.fromkeys(files, ())
        now, watermarks = _time_of(number, line, stored, plan, clock)
        batches.append(NotedBatch(number, now, watermarks, files))
        before = read
    return batches


def _time_of(
    number: int, line: _BatchLine, stored: Description, plan: PhysicalPlan, clock: ClockFiles
) -> tuple[int, Mapping[str, int]]:
    topology = plan.topology
    steps = [step for step in topology.steps if step.id in plan.keyed or step.node.sees_time]
    if stored.time == KEPT_TIME:
        batch_clock = clock.read(number)
        watermarks = {step.id: batch_clock.watermarks.get(step.id, MIN_TIMESTAMP) for step in steps}
        return line.now if batch_clock.now is None else batch_clock.now, watermarks
    reached = decode_watermark(line.watermark)
    # A step without a timestamp-assigning step upstream sees no watermark but the end of the stream.
    sees_all = reached == MAX_TIMESTAMP
    return line.now, {
        step.id: reached if sees_all or topology.timestamp_steps[step.id] else MIN_TIMESTAMP for step in steps
    }


def _offsets(file: StoragePath, sources: int) -> tuple[_BatchLine, list[int]]:
    """Reads Spark's entry for a planned batch, and how many entries in the log of each source were read."""
    with checkpoint_errors(file):
        lines = file.read_bytes().splitlines()
    try:
        line = msgspec.json.decode(lines[1], type=_BatchLine)
        # The line of the control folder comes after those of the sources.
        read = [
            0 if text == b"-" else msgspec.json.decode(text, type=LogOffset).read for text in lines[2 : 2 + sources]
        ]
    except (ValueError, IndexError) as error:
        raise damaged_file(file, f"{error}") from error
    if len(read) != sources:
        raise damaged_file(file, f"it has the offsets of {len(read)} sources, and the plan has {sources}")
    return line, read
