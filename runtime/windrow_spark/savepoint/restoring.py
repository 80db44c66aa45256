"""Begins a checkpoint from a savepoint: Spark's workers store the state, and the logs of the savepoint go on."""

from __future__ import annotations

import base64
import json
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windrow.errors import (
    CheckpointError,
    IncompatibleStateError,
    InvalidArgumentError,
    UnsupportedOperationError,
    warn,
)
from windrow.plan import Pipeline
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.errors import line_of_caller
from windrow_runtime.operators.outcome import secrets_of
from windrow_runtime.operators.watermarks import clock_millis
from windrow_spark.checkpoint.folder import Checkpoint, Description
from windrow_spark.checkpoint.lock import LOCK_FILE
from windrow_spark.checkpoint.stored_file import StoredFile, checkpoint_errors, damaged_file, file_numbers, is_there
from windrow_spark.checkpoint.stored_plan import EVENT_TIME, KEPT_TIME, PROCESSING_TIME, Parallelism
from windrow_spark.clock import ClockFiles
from windrow_spark.exchange.rows import EXCHANGE_SCHEMA, SOURCE_SCHEMA, PackedRow
from windrow_spark.faults import engine_errors
from windrow_spark.key_groups import KeyGroups
from windrow_spark.keyed.processor import KeyGroupProcessor
from windrow_spark.paths import as_read_path, as_spark_path
from windrow_spark.physical.plan import PhysicalPlan
from windrow_spark.run.background import uninterrupted
from windrow_spark.savepoint.description import SavepointDescription, SavepointFolder
from windrow_spark.savepoint.fitting import FittedPlan, PlanChange, fitted
from windrow_spark.savepoint.log_files import QuerySources, copy_logs, fit_logs
from windrow_spark.savepoint.next_clock import clock_of_spark, fitted_clock
from windrow_spark.savepoint.seeding import FileLine, SeedLevel, SeedRows, SeedStep
from windrow_spark.savepoint.step_parts import ColumnPart, ConvertedPart, ObjectPart, StepChange, StepPart, WidenedPart
from windrow_spark.savepoint.writing import check_session
from windrow_spark.session import (
    MOUNTED_SETTINGS,
    QUERY,
    SHUFFLE_PARTITIONS,
    prepare_workers,
    settings_during,
    with_whole_commands,
)
from windrow_spark.shipping import known_classes, without_sources_and_sinks

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
    is_cleared: bool = True  # whether the files of the runs before have left the folder
    origin: str = ""  # the identity of the savepoint from which it began before it began anew in its place


def restored_file(checkpoint: Checkpoint) -> StoredFile[RestoredFrom]:
    """Returns the file of a checkpoint that names the savepoint from which it began."""
    return StoredFile(checkpoint.path / "restored", RestoredFrom)


def check_restored(checkpoint: Checkpoint, folder: SavepointFolder | None) -> bool:
    """Returns whether a run has to begin its checkpoint from the savepoint that it was given, if it was given one.

    Raises:
        InvalidArgumentError: If the checkpoint is new, and other files are in its folder.
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
                hint="SparkRunner(checkpoint=..., savepoint=...), or windrow rescale or upgrade again",
            )
        return False
    if stored is None and not checkpoint.has_run():
        _check_empty(checkpoint)
        return True
    if stored is not None and stored.is_whole and not is_there(folder.file.path):
        return False  # it was deleted since
    saved = folder.description()
    if stored is None or saved.id not in (stored.savepoint, stored.origin):
        raise IncompatibleStateError(
            "the checkpoint did not begin from this savepoint",
            given=str(folder.path),
            expected="a new checkpoint, or the one that began from it",
            where=str(checkpoint.path),
            hint="leave savepoint out to go on from the checkpoint",
        )
    return not stored.is_whole


def _check_empty(checkpoint: Checkpoint) -> None:
    """Refuses a new checkpoint in a folder with other files, such as those of a query of the user's own."""
    if not checkpoint.is_mounted:
        return  # such a checkpoint is refused for itself
    with checkpoint_errors(checkpoint.path):
        others = sorted(entry.name for entry in Path(checkpoint.path).iterdir() if entry.name != LOCK_FILE)
    if others:
        raise InvalidArgumentError(
            "a checkpoint begins from a savepoint in a folder of its own",
            given=f"{checkpoint.path}, which has {', '.join(others[:3])}",
            expected="a folder that does not exist, or is empty",
        )


@dataclass(frozen=True, slots=True)
class Restoration:
    """What a run asks for that begins from a savepoint.

    Attributes:
        parallelism: Of the new checkpoint; what is not given is as in the savepoint.
        change: The names and streams of steps that may be others.
        time: Names the kind of time by which a plan's query would run; None: it is that of the savepoint.
        clock: Gives processing time in milliseconds if that is not Spark's.
        former: The folder that gets the files of a checkpoint that begins anew in its place; None: they are removed.
        is_in_place: Whether a checkpoint begins anew in its place.
    """

    parallelism: Parallelism
    change: PlanChange = field(default_factory=PlanChange)
    time: Callable[[PhysicalPlan, Checkpoint], str] | None = None
    clock: Callable[[], int] | None = None
    former: Path | None = None
    is_in_place: bool = False

    @property
    def way_back(self) -> str:
        """What to do, in a few words, if the plan has changed by mistake."""
        if self.former is None:
            return "stop, and begin again with the plan of before"
        return f"start no run: the files of the checkpoint before lie in {self.former}"


def restore(
    spark: SparkSession, checkpoint: Checkpoint, pipeline: Pipeline, folder: SavepointFolder, wanted: Restoration
) -> None:
    """Begins a checkpoint from a savepoint. If that is interrupted, it is done again from the beginning.

    A warning names the changes of the plan since the savepoint.

    Raises:
        InvalidArgumentError: If there is no savepoint in the folder, steps are renamed that are not there, or the
            folder of a new checkpoint has files.
        IncompatibleStateError: If the savepoint is that of another plan.
        UnsupportedOperationError: Over Spark Connect, and for a checkpoint that is not in a mounted file system.
        CheckpointError: If a file is damaged, or cannot be read or written.
    """
    check_session(spark)
    if not checkpoint.is_mounted:
        raise UnsupportedOperationError(
            "a checkpoint begins from a savepoint in a mounted file system",
            given=str(checkpoint.path),
            expected="a checkpoint in a mounted file system",
        )
    folder.check_apart(checkpoint.path)
    beginning = _beginning(pipeline, folder, wanted)
    saved, stored, fit = beginning.saved, beginning.stored, beginning.fit
    groups, time = beginning.groups, beginning.time
    marker = restored_file(checkpoint)
    noted = marker.read()
    begun = RestoredFrom(saved.id, is_whole=False, origin=_origin(noted, saved) if wanted.is_in_place else "")
    if wanted.former is not None and (noted is None or noted.is_whole or not noted.is_cleared):
        marker.write(replace(begun, is_cleared=False))
        _move_written(checkpoint, wanted.former)
    marker.write(begun)
    clear_written(checkpoint)
    if fit.plan.topology.keyed:
        seed = _Seed(spark, checkpoint, folder, saved, replace(stored, time=time), groups)
        steps, classes = seed.steps(pipeline, fit)
        with engine_errors(f"savepoint {folder.path}", secrets_of(pipeline.steps)):
            uninterrupted(lambda: seed.run(steps, classes, fit.plan.topology.depth), spark)
        seed.take_over()
    copy_logs(folder.checkpoint, checkpoint, saved.batch)
    places = fit.sources
    had, has = bool(stored.steps), bool(fit.plan.topology.keyed)
    fit_logs(
        checkpoint, saved.checkpoint, groups.partitions, QuerySources(places.places, has, len(stored.sources), had)
    )
    for place in places.gone:
        shutil.rmtree(Path(checkpoint.path, "sources", stored.sources[place].folder), ignore_errors=True)
    _rename_clock(checkpoint, fit)
    if (stored.time, time) in ((EVENT_TIME, KEPT_TIME), (PROCESSING_TIME, KEPT_TIME)):
        clock = clock_of_spark(checkpoint, pipeline, fit, saved)
        now = None if wanted.clock is None else clock_millis(wanted.clock)
        ClockFiles(checkpoint.clock_folder).write(saved.batch + 1, replace(clock, now=now))
    if fit.streams is not None:
        checkpoint.streams.write(fit.streams)
    # The run of a savepoint that was taken meanwhile goes on, and sinks would take the batches of both for one run's.
    identity = uuid.uuid4().hex if saved.is_live else stored.id
    checkpoint.plan.write(replace(beginning.description, id=identity))
    marker.write(replace(begun, is_whole=True))
    beginning.tell_changes(checkpoint, folder, wanted)


def has_begun(checkpoint: Checkpoint, pipeline: Pipeline, folder: SavepointFolder, wanted: Restoration) -> bool:
    """Returns whether a checkpoint has begun from a savepoint as it is wanted, and no run has gone on since.

    A warning names the changes of the plan once more then: the call that made them may have ended before it did.
    """
    noted, saved = restored_file(checkpoint).read(), folder.file.read()
    if noted is None or saved is None or not noted.is_whole or noted.savepoint != saved.id:
        return False
    if checkpoint.last_planned() > saved.batch:
        return False
    try:
        beginning = _beginning(pipeline, folder, wanted)
    except (CheckpointError, IncompatibleStateError, InvalidArgumentError):
        return False  # another plan is wanted, or the savepoint is being deleted
    streams = beginning.fit.streams
    if not checkpoint.plan.holds(replace(beginning.description, id=checkpoint.query_id())):
        return False
    if streams is not None and not checkpoint.streams.holds(streams):
        return False
    beginning.tell_changes(checkpoint, folder, wanted)
    return True


@dataclass(frozen=True, slots=True)
class _Beginning:
    """How a checkpoint begins from a savepoint.

    Attributes:
        saved: The savepoint.
        stored: The plan of which it has the state.
        fit: The plan that goes on.
        groups: The key groups of its partitions.
        time: The kind of time by which its query runs.
    """

    saved: SavepointDescription
    stored: Description
    fit: FittedPlan
    groups: KeyGroups
    time: str

    @property
    def description(self) -> Description:
        """What the checkpoint stores of the plan, but for the identity of its query."""
        return replace(
            self.stored,
            partitions=self.groups.partitions,
            groups=self.groups.count // self.groups.partitions,
            time=self.time,
            sources=self.fit.sources.stored,
            steps=self.fit.shapes,
        )

    def tell_changes(self, checkpoint: Checkpoint, folder: SavepointFolder, wanted: Restoration) -> None:
        """Warns of the changes of the plan, if there are any."""
        if changes := [*self.fit.changes, *self.fit.other_forms]:
            warn(
                f"the plan has changed since the {'run before' if wanted.is_in_place else 'savepoint'}",
                given="; ".join(changes),
                where=str(checkpoint.path if wanted.is_in_place else folder.path),
                hint=f"if you meant this, nothing is to be done; if not, {wanted.way_back}",
                location=line_of_caller(),
            )


def _beginning(pipeline: Pipeline, folder: SavepointFolder, wanted: Restoration) -> _Beginning:
    """Fits a savepoint to what is wanted; refuses what cannot go on from it."""
    saved, stored = folder.description(), folder.checkpoint.description()
    if stored is None:
        raise damaged_file(folder.path / "checkpoint" / "plan", "it is gone")
    fit = fitted(pipeline, saved.steps, stored, folder.checkpoint.streams.read(), wanted.change)
    fit.check_filled()
    time = stored.time if wanted.time is None else wanted.time(fit.plan, folder.checkpoint)
    if stored.time == KEPT_TIME != time and fit.plan.topology.keyed:
        raise IncompatibleStateError(
            "the savepoint belongs to a run by a clock of the user's",
            given=f"the query ran by {stored.time} and would run by {time}",
            expected="SparkRunner(clock=...), as before",
            where=str(folder.path),
        )
    parallelism = wanted.parallelism
    groups = KeyGroups.balanced(
        parallelism.partitions or stored.partitions, parallelism.key_groups_per_partition or stored.groups
    )
    return _Beginning(saved, stored, fit, groups, time)


def _origin(noted: RestoredFrom | None, saved: SavepointDescription) -> str:
    """Returns the savepoint from which a checkpoint began that begins anew in its place; an empty text: from none."""
    if noted is None:
        return ""
    return noted.origin if noted.savepoint == saved.id else noted.origin or noted.savepoint


def _rename_clock(checkpoint: Checkpoint, fit: FittedPlan) -> None:
    """Gives steps and sources in the times of batches the names and places that they have in the plan."""
    places = fit.sources.by_place
    files = ClockFiles(checkpoint.clock_folder)
    for batch in sorted(file_numbers(files.folder)):
        clock = files.read(batch)
        ended = [places[place] for place in clock.ended_sources if place in places]
        files.file(batch).write(replace(fitted_clock(clock, fit), ended_sources=ended))


def _seed_folder(checkpoint: Checkpoint) -> Path:
    """Returns where the query that stores the state has its own checkpoint."""
    return Path(checkpoint.path, "seed")


def _move_written(checkpoint: Checkpoint, former: Path) -> None:
    """Moves what runs have written into another folder; what an interrupted call has moved is there already."""
    with checkpoint_errors(checkpoint.path):
        former.mkdir(mode=0o700, exist_ok=True)
        for entry in map(Path, checkpoint.own_entries):
            if entry.exists() or entry.is_symlink():
                entry.rename(former / entry.name)


def clear_written(checkpoint: Checkpoint) -> None:
    """Removes what runs have written into a checkpoint, but the note on the savepoint; files of others stay."""
    with checkpoint_errors(checkpoint.path):
        for entry in map(Path, (*checkpoint.own_entries, _seed_folder(checkpoint))):
            if not entry.exists() and not entry.is_symlink():
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)


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
        return _seed_folder(self.checkpoint)

    def steps(self, pipeline: Pipeline, fit: FittedPlan) -> tuple[list[SeedStep], tuple[UserClass, ...]]:
        """Returns the steps of a plan that go on from the savepoint, and the classes that may occur in their state."""
        plan = fit.plan
        by_id = {step.id: step for step in without_sources_and_sinks(plan.topology.steps)}
        classes = known_classes(plan.topology.steps)
        shipped = plan.shipped([*by_id.values()], fit.on_columns)
        steps: list[SeedStep] = []
        for step_id, planned in shipped.keyed.items():
            name = plan.state_ids[step_id]
            own = fit.steps.get(name)
            if own is None:
                continue
            step = self.saved.steps[own.origin]
            of_step = planned.step, classes, pipeline.allow_pickled_state, self.groups.count
            part: StepPart
            if planned.on_columns is not None:
                form = planned.on_columns
                part = WidenedPart(form, places=own.places) if own.widens else ColumnPart(form)
            else:
                change = StepChange(own.places, own.is_other)
                part = (
                    ObjectPart(*of_step, change)
                    if own.former is None
                    else ConvertedPart(*of_step, change, form=own.former.with_steps(by_id), watermark=step.watermark)
                )
            shared = base64.b64decode(step.shared)
            level = plan.topology.levels[step_id]
            steps.append(SeedStep(name, own.origin, level, part, step.watermark, step.now, step.arrived, shared))
        return steps, classes

    def run(self, steps: list[SeedStep], classes: tuple[UserClass, ...], depth: int) -> None:
        """Runs the query's one batch."""
        lines = self._place / "files"
        with checkpoint_errors(self._place):
            lines.mkdir(parents=True)
            # A file for each line, so that tasks share them.
            origins = {step.origin for step in steps}
            for number, line in enumerate(self._lines(origins)):
                (lines / f"{number}").write_text(f"{line.text()}\n", encoding="utf-8")
        settings: dict[str, str | None] = {**_SETTINGS, SHUFFLE_PARTITIONS: str(self.groups.partitions)}
        prepare_workers(self.spark)
        with settings_during(self.spark, settings):
            frame = self._frame(lines, steps, classes, depth)
            writer = frame.writeStream.format("noop").queryName(f"windrow restores {self.saved.id}")
            # The trigger `availableNow` would run batches for ever, for a query that waits for the clock.
            query = writer.option("checkpointLocation", as_spark_path(self._place / "spark")).trigger(once=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def _lines(self, origins: Collection[str]) -> Iterator[FileLine]:
        numbers = count()
        yield FileLine("", "", next(numbers))
        for name in origins:
            for file in self.saved.steps[name].files:
                yield FileLine(name, str(self.folder.folder_of(name) / file.name), next(numbers))

    def _frame(self, lines: Path, steps: list[SeedStep], classes: tuple[UserClass, ...], depth: int) -> DataFrame:
        by_clock = self.stored.time in (KEPT_TIME, PROCESSING_TIME)
        rows = SeedRows(steps, self.groups, classes)
        frame = self.spark.readStream.text(as_read_path(lines)).mapInArrow(rows, SOURCE_SCHEMA)
        if not by_clock:
            frame = frame.withWatermark("watermark", "0 seconds")
        frame = frame.select(*PackedRow._fields)
        fingerprint = bytes.fromhex(self.stored.fingerprint)
        for number in range(1, depth + 1):
            times = self.saved.watermark, self.saved.now
            level = SeedLevel(number, steps, fingerprint, by_clock, *times, classes)
            mode = "ProcessingTime" if by_clock else "EventTime"
            with with_whole_commands(self.spark):
                frame = frame.groupBy("group").transformWithState(
                    KeyGroupProcessor(level), EXCHANGE_SCHEMA, "Append", mode
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
                _move_schemas(metadata, os.path.abspath(seeded), os.path.abspath(spark))
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
