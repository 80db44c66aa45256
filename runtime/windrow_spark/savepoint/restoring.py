"""Begins a checkpoint from a savepoint: Spark's workers store the state, and the logs of the savepoint go on."""

from __future__ import annotations

import base64
import json
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windrow.errors import CheckpointError, IncompatibleStateError
from windrow.plan import Pipeline
from windrow_runtime.operators.outcome import secrets_of
from windrow_runtime.operators.topology import topology_of
from windrow_spark.checkpoint.folder import Checkpoint, Description
from windrow_spark.checkpoint.lock import LOCK_FILE
from windrow_spark.checkpoint.stored_file import StoredFile, checkpoint_errors, damaged_file
from windrow_spark.checkpoint.stored_plan import KEPT_TIME, PROCESSING_TIME, Parallelism
from windrow_spark.exchange.rows import EXCHANGE_SCHEMA, SOURCE_SCHEMA, PackedRow
from windrow_spark.faults import engine_errors
from windrow_spark.key_groups import KeyGroups
from windrow_spark.keyed.processor import KeyGroupProcessor
from windrow_spark.lowering import physical_plan
from windrow_spark.paths import as_read_path, as_spark_path
from windrow_spark.physical.plan import PhysicalPlan
from windrow_spark.run.background import uninterrupted
from windrow_spark.savepoint.description import COLUMNS, SavepointDescription, SavepointFolder
from windrow_spark.savepoint.log_files import copy_logs, fit_logs
from windrow_spark.savepoint.seeding import FileLine, SeedLevel, SeedRows, SeedStep
from windrow_spark.savepoint.step_parts import StepPart
from windrow_spark.savepoint.writing import StateParts, check_session
from windrow_spark.session import MOUNTED_SETTINGS, QUERY, SHUFFLE_PARTITIONS, prepare_workers, settings_during

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS: Final = {
    **QUERY,
    **MOUNTED_SETTINGS,
    # Each store of state is written as a whole, under the number of its version alone.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
}
_SNAPSHOT: Final = ".zip"
_SEEDED: Final = 1
"""The version of the state after the first batch of a query."""


@dataclass(frozen=True, slots=True)
class RestoredFrom:
    """The savepoint from which a checkpoint began."""

    savepoint: str  # its identity
    is_whole: bool  # whether the checkpoint has all of it


def restored_file(checkpoint: Checkpoint) -> StoredFile[RestoredFrom]:
    """Returns the file of a checkpoint that names the savepoint from which it began."""
    return StoredFile(checkpoint.path / "restored", RestoredFrom)


def check_restored(checkpoint: Checkpoint, folder: SavepointFolder | None) -> bool:
    """Returns whether a checkpoint has to be begun from a savepoint; None: the run has none.

    Raises:
        IncompatibleStateError: If the checkpoint began from another savepoint, or without one.
        CheckpointError: If an earlier run has begun to restore the savepoint, and this one is given none.
    """
    stored = restored_file(checkpoint).read()
    if folder is None:
        if stored is not None and not stored.is_whole:
            raise CheckpointError(
                "a run was interrupted while it began the checkpoint from a savepoint",
                given=str(checkpoint.path),
                expected="the same savepoint again",
                hint="SparkRunner(checkpoint=..., savepoint=...), or a new checkpoint",
            )
        return False
    if stored is None and not checkpoint.has_run():
        return True
    saved = folder.description()
    if stored is None or stored.savepoint != saved.id:
        raise IncompatibleStateError(
            "the checkpoint did not begin from this savepoint",
            given=str(folder.path),
            expected="a new checkpoint, or the one that began from it",
            where=str(checkpoint.path),
            hint="leave savepoint out to go on from the checkpoint",
        )
    return not stored.is_whole


def restore(
    spark: SparkSession, checkpoint: Checkpoint, pipeline: Pipeline, folder: SavepointFolder, wanted: Parallelism
) -> None:
    """Begins a checkpoint from a savepoint. If that is interrupted, it is done again from the beginning.

    Raises:
        InvalidArgumentError: If there is no savepoint in the folder.
        IncompatibleStateError: If it is that of another plan.
        UnsupportedOperationError: Over Spark Connect, and for a checkpoint that is not in a mounted file system.
        CheckpointError: If a file is damaged, or cannot be read or written.
    """
    check_session(spark)
    saved = folder.description()
    stored = folder.checkpoint.description()
    if stored is None:
        raise damaged_file(folder.path / "checkpoint" / "plan", "it is gone")
    topology = topology_of(pipeline)
    on_columns = frozenset(
        step_id
        for step_id, name in PhysicalPlan(topology).state_ids.items()
        if name in saved.steps and saved.steps[name].form == COLUMNS
    )
    plan = physical_plan(topology, stored=on_columns)
    groups = KeyGroups.balanced(
        wanted.partitions or stored.partitions, wanted.key_groups_per_partition or stored.groups
    )
    marker = restored_file(checkpoint)
    marker.write(RestoredFrom(saved.id, is_whole=False))
    _clear(checkpoint)
    if topology.keyed:
        state = StateParts.of(pipeline, plan, on_columns, groups.count)
        seed = _Seed(spark, checkpoint, folder, saved, stored, groups)
        steps = seed.steps(plan, state)
        with engine_errors(f"savepoint {folder.path}", secrets_of(pipeline.steps)):
            uninterrupted(lambda: seed.run(steps, state, topology.depth), spark)
        seed.take_over()
    copy_logs(folder.checkpoint, checkpoint, saved.batch)
    fit_logs(checkpoint, saved.checkpoint, groups.partitions)
    # The run of a savepoint that was taken meanwhile goes on, and sinks would take the batches of both for one run's.
    identity = uuid.uuid4().hex if saved.is_live else stored.id
    per_partition = groups.count // groups.partitions
    checkpoint.plan.write(replace(stored, id=identity, partitions=groups.partitions, groups=per_partition))
    marker.write(RestoredFrom(saved.id, is_whole=True))


def _clear(checkpoint: Checkpoint) -> None:
    """Removes all that a checkpoint has, but the lock, which the caller holds, and the note on the savepoint."""
    with checkpoint_errors(checkpoint.path):
        for entry in Path(checkpoint.path).iterdir():
            if entry.name in (LOCK_FILE, restored_file(checkpoint).path.name):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


@dataclass(frozen=True, slots=True)
class _Seed:
    """The query that stores the state of a savepoint where the levels of a checkpoint's query look for it."""

    spark: SparkSession
    checkpoint: Checkpoint
    folder: SavepointFolder
    saved: SavepointDescription
    stored: Description
    groups: KeyGroups

    @property
    def _place(self) -> Path:
        return Path(self.checkpoint.path, "seed")

    def steps(self, plan: PhysicalPlan, state: StateParts) -> list[SeedStep]:
        """Returns the steps of a plan that go on from the savepoint."""
        levels = plan.topology.levels
        level_of = {name: levels[step_id] for step_id, name in plan.state_ids.items() if step_id in levels}
        return [
            self._step(name, level_of[name], part) for name, part in state.parts.items() if name in self.saved.steps
        ]

    def _step(self, name: str, level: int, part: StepPart) -> SeedStep:
        step = self.saved.steps[name]
        return SeedStep(name, level, part, step.watermark, step.now, step.arrived, base64.b64decode(step.shared))

    def run(self, steps: list[SeedStep], state: StateParts, depth: int) -> None:
        """Runs the query's one batch."""
        lines = self._place / "files"
        with checkpoint_errors(self._place):
            lines.mkdir(parents=True)
            # A file for each line, so that tasks share them.
            for number, line in enumerate(self._lines()):
                (lines / f"{number}").write_text(f"{line.text()}\n", encoding="utf-8")
        settings: dict[str, str | None] = {**_SETTINGS, SHUFFLE_PARTITIONS: str(self.groups.partitions)}
        prepare_workers(self.spark)
        with settings_during(self.spark, settings):
            frame = self._frame(lines, steps, state, depth)
            writer = frame.writeStream.format("noop").queryName(f"windrow restores {self.saved.id}")
            # The trigger `availableNow` would run batches for ever, for a query that waits for the clock.
            query = writer.option("checkpointLocation", as_spark_path(self._place / "spark")).trigger(once=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def _lines(self) -> Iterator[FileLine]:
        numbers = count()
        yield FileLine("", "", next(numbers))
        for name, step in self.saved.steps.items():
            for file in step.files:
                yield FileLine(name, str(self.folder.folder_of(name) / file.name), next(numbers))

    def _frame(self, lines: Path, steps: list[SeedStep], state: StateParts, depth: int) -> DataFrame:
        by_clock = self.stored.time in (KEPT_TIME, PROCESSING_TIME)
        rows = SeedRows(steps, self.groups, state.classes)
        frame = self.spark.readStream.text(as_read_path(lines)).mapInArrow(rows, SOURCE_SCHEMA)
        if not by_clock:
            frame = frame.withWatermark("watermark", "0 seconds")
        frame = frame.select(*PackedRow._fields)
        fingerprint = bytes.fromhex(self.stored.fingerprint)
        for number in range(1, depth + 1):
            times = self.saved.watermark, self.saved.now
            level = SeedLevel(number, steps, fingerprint, by_clock, *times, state.classes)
            frame = frame.groupBy("group").transformWithState(
                KeyGroupProcessor(level), EXCHANGE_SCHEMA, "Append", "ProcessingTime" if by_clock else "EventTime"
            )
        return frame

    def take_over(self) -> None:
        """Moves the state to where the checkpoint's query looks for it, as that of the batch of the savepoint."""
        spark, seeded = Path(self.checkpoint.spark_path), self._place / "spark"
        with checkpoint_errors(spark):
            spark.mkdir(parents=True)
            # The stores of the seeding query may still be open, and clean up in their own folder.
            shutil.move(seeded / "state", spark / "state")
            shutil.move(seeded / "metadata", spark / "metadata")
            for file in [*(spark / "state").rglob(".*.crc")]:
                file.unlink()  # they are those of files with other names
            for store in (spark / "state").glob("*/[0-9]*"):
                self._renumber(store)
            for metadata in (spark / "state").glob("*/_metadata/v2/*"):
                _move_schemas(metadata, str(seeded), str(spark))
            shutil.rmtree(self._place)

    def _renumber(self, store: Path) -> None:
        """Gives the state of one partition the version that it has after the batch of the savepoint."""
        whole = store / f"{_SEEDED}{_SNAPSHOT}"
        if not whole.exists():
            raise CheckpointError(
                "Spark has not written the state of a partition as a whole",
                given=", ".join(sorted(file.name for file in store.iterdir())),
                expected=whole.name,
                where=str(store),
            )
        whole.rename(store / f"{self.saved.batch + 1}{_SNAPSHOT}")
        for changes in store.glob("*.changelog"):
            changes.unlink()


def _move_schemas(metadata: Path, before: str, now: str) -> None:
    """Names the files with the schemas of state in the metadata of a stateful operator, after these were moved."""
    version, text = metadata.read_text(encoding="utf-8").split("\n", 1)
    try:
        content = json.loads(text)
        for store in content["stateStoreInfo"]:
            store["stateSchemaFilePaths"] = [path.replace(before, now) for path in store["stateSchemaFilePaths"]]
    except (ValueError, LookupError, TypeError) as error:
        raise damaged_file(metadata, f"{error}") from error
    metadata.write_text(f"{version}\n{json.dumps(content)}", encoding="utf-8")
