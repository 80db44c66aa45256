"""Writes the savepoint of a checkpoint: workers write the state, the driver copies what it keeps itself."""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

import windrow
from windrow.errors import IncompatibleStateError, UnsupportedOperationError
from windrow.plan import Pipeline
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.outcome import secrets_of
from windrow_runtime.operators.topology import topology_of
from windrow_spark.checkpoint.folder import Checkpoint, Description
from windrow_spark.checkpoint.stored_file import checkpoint_errors
from windrow_spark.checkpoint.stored_plan import refused_changes, stored_on_columns
from windrow_spark.faults import engine_errors
from windrow_spark.key_groups import KeyGroups
from windrow_spark.lowering import physical_plan
from windrow_spark.physical.plan import PhysicalPlan
from windrow_spark.savepoint.description import (
    COLUMNS,
    FORMAT,
    OBJECTS,
    SavedFile,
    SavedStep,
    SavepointDescription,
    SavepointFolder,
)
from windrow_spark.savepoint.fitting import FittedPlan, PlanChange, fitted
from windrow_spark.savepoint.log_files import check_state_format, copy_logs
from windrow_spark.savepoint.step_parts import ColumnPart, ObjectPart, StepPart
from windrow_spark.savepoint.stored_groups import (
    FACT_SCHEMA,
    FactReader,
    GroupTimes,
    StateFileWriter,
    StepFacts,
    WrittenFile,
    decoded_facts,
)
from windrow_spark.session import JOB_SETTINGS, is_connect, prepare_workers, session_with
from windrow_spark.shipping import known_classes, without_sources_and_sinks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS: Final = {
    **JOB_SETTINGS,
    # A row may be a page of some tens of KB, or a part of a list of elements.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
}


@dataclass(frozen=True, slots=True)
class StateParts:
    """What takes the state of a plan's steps out of key groups, and puts it into key groups.

    Attributes:
        parts: By the names under which the state of steps is stored.
        classes: The user's classes that may occur in it.
    """

    parts: Mapping[str, StepPart]
    classes: tuple[UserClass, ...]

    @staticmethod
    def of(pipeline: Pipeline, plan: PhysicalPlan, on_columns: frozenset[str], groups: int) -> StateParts:
        """Returns the parts of a plan; the state of steps ``on_columns``, by id, is in columns."""
        steps = plan.topology.steps
        shipped = plan.shipped(without_sources_and_sinks(steps), on_columns)
        classes = known_classes(steps)
        pickled = pipeline.allow_pickled_state
        parts: dict[str, StepPart] = {}
        for step_id, planned in shipped.keyed.items():
            form = planned.on_columns
            parts[plan.state_ids[step_id]] = (
                ObjectPart(planned.step, classes, pickled, groups) if form is None else ColumnPart(form)
            )
        return StateParts(parts, classes)

    @staticmethod
    def for_change(pipeline: Pipeline, fit: FittedPlan, groups: int) -> StateParts:
        """Returns the parts of the steps with which a changed plan goes on, by the names that their state has."""
        steps = without_sources_and_sinks(fit.plan.topology.steps)
        by_id = {step.id: step for step in steps}
        shipped = fit.plan.shipped(steps, fit.on_columns)
        classes = known_classes(fit.plan.topology.steps)
        parts: dict[str, StepPart] = {}
        for step_id, planned in shipped.keyed.items():
            own = fit.steps.get(fit.plan.state_ids[step_id])
            if own is None:
                continue
            form = planned.on_columns if own.former is None else own.former.with_steps(by_id)
            parts[own.origin] = (
                ObjectPart(planned.step, classes, pipeline.allow_pickled_state, groups)
                if form is None
                else ColumnPart(form)
            )
        return StateParts(parts, classes)


def check_session(spark: SparkSession) -> None:
    """Refuses a session of Spark Connect, whose server may see other folders than this process."""
    if is_connect(spark):
        raise UnsupportedOperationError(
            "savepoints are not written or read over Spark Connect",
            given="a session of Spark Connect",
            expected="a session in the program itself",
        )


def write_savepoint(
    spark: SparkSession, checkpoint: Checkpoint, pipeline: Pipeline, folder: SavepointFolder, *, is_live: bool = False
) -> SavepointDescription:
    """Writes the state of a checkpoint, as of the last batch that is done, into a folder.

    Args:
        spark: The session whose workers write.
        checkpoint: The checkpoint. No run may use it, unless the savepoint ``is_live``.
        pipeline: The pipeline whose state it has.
        folder: The folder of the savepoint.
        is_live: Whether a run goes on with the checkpoint meanwhile.

    Raises:
        InvalidArgumentError: If the folder is not empty, or lies in that of the checkpoint or of a source.
        IncompatibleStateError: If the checkpoint belongs to another plan, no batch has run, its stream has ended, or
            its last batch has begun and is not done.
        UnsupportedOperationError: Over Spark Connect, and for a checkpoint that is not in a mounted file system.
        CheckpointError: If the checkpoint is damaged, or a file cannot be read or written.
    """
    check_session(spark)
    folder.check_apart(checkpoint.path, topology_of(pipeline).sources)
    description = _checked(checkpoint, pipeline)
    topology = topology_of(pipeline)
    on_columns = stored_on_columns(checkpoint, topology)
    plan = physical_plan(topology, stored=on_columns)
    groups = KeyGroups.balanced(description.partitions, description.groups)
    state = StateParts.of(pipeline, plan, on_columns, groups.count)
    return _written(spark, checkpoint, pipeline, folder, state, is_live=is_live)


def write_for_change(
    spark: SparkSession, checkpoint: Checkpoint, pipeline: Pipeline, folder: SavepointFolder, change: PlanChange
) -> SavepointDescription:
    """Writes the state with which a changed pipeline can go on; the former pipeline is not needed for that.

    A step that goes on says what its state means, as it has to when a run begins from the savepoint. Of a step that is
    gone there is nothing in the savepoint.

    Args:
        spark: The session whose workers write.
        checkpoint: The checkpoint, which no run may use.
        pipeline: The pipeline that shall go on.
        folder: The folder of the savepoint.
        change: The names and streams of steps that may be others.

    Raises:
        InvalidArgumentError: As :func:`write_savepoint`, and if steps are renamed that are not there.
        IncompatibleStateError: As :func:`write_savepoint`, and if a step cannot go on with the state of its name.
        UnsupportedOperationError: As :func:`write_savepoint`.
        CheckpointError: As :func:`write_savepoint`.
    """
    check_session(spark)
    folder.check_apart(checkpoint.path, topology_of(pipeline).sources)
    description = _described(checkpoint)
    fit = fitted_to(checkpoint, description, pipeline, change)
    fit.check_filled()
    groups = KeyGroups.balanced(description.partitions, description.groups)
    state = StateParts.for_change(pipeline, fit, groups.count)
    return _written(spark, checkpoint, pipeline, folder, state)


def fitted_to(checkpoint: Checkpoint, description: Description, pipeline: Pipeline, change: PlanChange) -> FittedPlan:
    """Fits a plan to the state of a checkpoint, as :func:`~windrow_spark.savepoint.fitting.fitted` to a savepoint."""
    forms = {
        name: SavedStep(OBJECTS if shape["form"] is None else COLUMNS, MIN_TIMESTAMP, MIN_TIMESTAMP, 0, "")
        for name, shape in description.steps.items()
    }
    return fitted(pipeline, forms, description, checkpoint.streams.read(), change)


def _written(
    spark: SparkSession,
    checkpoint: Checkpoint,
    pipeline: Pipeline,
    folder: SavepointFolder,
    state: StateParts,
    *,
    is_live: bool = False,
) -> SavepointDescription:
    """Writes the state of some steps as of the last batch that is done."""
    description = _described(checkpoint)
    done = checkpoint.last_planned()
    if not checkpoint.is_committed(done):
        done -= 1
        if not is_live:
            _check_not_begun(checkpoint, done)
    if done < 0:
        raise IncompatibleStateError(
            "the checkpoint has no state yet", given="no batch is done", where=str(checkpoint.path)
        )
    check_state_format(checkpoint, done)
    folder.create()
    with checkpoint_errors(folder.path):
        for step in state.parts:
            folder.folder_of(step).mkdir(parents=True)
    copy_logs(checkpoint, folder.checkpoint, done)
    # A batch that has begun meanwhile is none of the savepoint's.
    folder.checkpoint.newest_batch.write(done)
    session = session_with(spark, _SETTINGS)
    prepare_workers(session)
    reader = _StateReader(session, checkpoint, done, bytes.fromhex(description.fingerprint))
    with engine_errors(f"savepoint {folder.path}", secrets_of(pipeline.steps)):
        facts_of_steps = reader.facts(state)
        times = {
            step: _latest([GroupTimes(each.watermark, each.now) for each in facts])
            for step, facts in facts_of_steps.steps.items()
        }
        written = reader.write(state, times, {step: str(folder.folder_of(step)) for step in state.parts})
    steps: dict[str, SavedStep] = {}
    for step, part in state.parts.items():
        facts = facts_of_steps.steps.get(step, [])
        files = sorted((each for each in written if each.step == step), key=lambda each: each.file)
        steps[step] = SavedStep(
            form=COLUMNS if isinstance(part, ColumnPart) else OBJECTS,
            watermark=times.get(step, _NEVER).watermark,
            now=times.get(step, _NEVER).now,
            arrived=max((each.arrived for each in facts), default=0),
            shared=base64.b64encode(_shared(step, facts, folder)).decode(),
            files=[SavedFile(each.file, each.rows, each.size) for each in files],
        )
    saved = SavepointDescription(
        version=FORMAT,
        windrow=windrow.__version__,
        id=uuid.uuid4().hex,
        batch=done,
        is_live=is_live,
        checkpoint=os.path.abspath(checkpoint.path),
        watermark=facts_of_steps.query.watermark,
        now=facts_of_steps.query.now,
        steps=steps,
        logs=folder.checksums(),
    )
    folder.file.write(saved)
    _flush(folder)
    return saved


def _flush(folder: SavepointFolder) -> None:
    """Has all files of a savepoint on the disk: where power fails, a checkpoint that is rescaled has nothing else."""
    with checkpoint_errors(folder.path):
        for file in folder.path.rglob("*"):
            if file.is_file():
                with file.open("rb") as written:
                    os.fsync(written.fileno())


_NEVER: Final = GroupTimes(MIN_TIMESTAMP, MIN_TIMESTAMP)


def _checked(checkpoint: Checkpoint, pipeline: Pipeline) -> Description:
    """Returns the description of a checkpoint; refuses one whose state the steps of a pipeline cannot read."""
    description = _described(checkpoint)
    topology = topology_of(pipeline)
    plan = physical_plan(topology, stored=stored_on_columns(checkpoint, topology))
    # A run has decided by which time the query runs, and the state does not depend on it.
    refused = refused_changes(checkpoint, description, plan, description.time)
    if refused.lines:
        raise IncompatibleStateError(
            "the checkpoint belongs to another plan",
            given="; ".join(refused.lines),
            expected="the pipeline whose runs have written it",
            where=str(checkpoint.path),
            hint=refused.hint,
        )
    return description


def _described(checkpoint: Checkpoint) -> Description:
    """Returns the description of a checkpoint; refuses one that is drained, or lies elsewhere."""
    if not checkpoint.is_mounted:
        raise UnsupportedOperationError(
            "a savepoint is taken of a checkpoint in a mounted file system",
            given=str(checkpoint.path),
            hint="copy the checkpoint to one, or keep it there from the beginning",
        )
    description = checkpoint.description()
    if description is None:
        raise IncompatibleStateError(
            "there is no checkpoint of a pipeline",
            given=str(checkpoint.path),
            expected="the checkpoint of runs of this pipeline",
        )
    checkpoint.check_open(drain=False)
    return description


def _check_not_begun(checkpoint: Checkpoint, done: int) -> None:
    """Refuses a checkpoint whose last batch may have written some results: with other partitions it writes others."""
    begun = checkpoint.newest_batch.batch()
    if begun > done:
        raise IncompatibleStateError(
            "a batch was interrupted, and sinks may have a part of its results",
            given=f"batch {begun} has begun, and batch {done} is the last that is done",
            expected="a checkpoint whose run was stopped between two batches",
            where=str(checkpoint.path),
            hint="run the pipeline with it once more, which finishes the batch: run(pipeline, drain=False)",
        )


@dataclass(frozen=True, slots=True)
class _Facts:
    query: GroupTimes
    steps: Mapping[str, Sequence[StepFacts]]


def _latest(times: Sequence[GroupTimes]) -> GroupTimes:
    return GroupTimes(
        max((each.watermark for each in times), default=MIN_TIMESTAMP),
        max((each.now for each in times), default=MIN_TIMESTAMP),
    )


def _shared(step: str, facts: Sequence[StepFacts], folder: SavepointFolder) -> bytes:
    """Returns what belongs to no key, which is the same in all key groups; refuses what is not."""
    different = {each.shared for each in facts if each.shared}
    if len(different) > 1:
        raise UnsupportedOperationError(
            "a savepoint cannot hold what each key group of a step has for itself",
            given=f"{step}: {len(different)} different shifts of staggered windows",
            expected="WindowStagger.ALIGNED",
            where=str(folder.path),
        )
    return different.pop() if different else b""


@dataclass(frozen=True, slots=True)
class _StateReader:
    """Reads the state of a checkpoint with Spark's reader of its state stores."""

    spark: SparkSession
    checkpoint: Checkpoint
    batch: int
    fingerprint: bytes

    def facts(self, state: StateParts) -> _Facts:
        """Reads the records of all key groups for what they say of steps."""
        reader = FactReader(state.parts, self.fingerprint)
        rows = [
            row["fact"] for frame in self._of_levels("group") for row in frame.mapInArrow(reader, FACT_SCHEMA).collect()
        ]
        times: list[GroupTimes] = []
        steps: dict[str, list[StepFacts]] = {}
        for values in decoded_facts(map(bytes, rows)):
            if len(values) == len(GroupTimes._fields):
                times.append(GroupTimes(*values))
            else:
                fact = StepFacts(*values)
                steps.setdefault(fact.step, []).append(fact)
        return _Facts(_latest(times), steps)

    def write(
        self, state: StateParts, times: Mapping[str, GroupTimes], folders: Mapping[str, str]
    ) -> list[WrittenFile]:
        """Writes the state of all steps into their folders."""
        writer = StateFileWriter(state.parts, times, self.fingerprint, state.classes, folders)
        written: list[WrittenFile] = []
        for records, pages in zip(self._of_levels("group"), self._of_levels("pages"), strict=True):
            rows = records.union(pages).repartition("group").sortWithinPartitions("level", "group", "number")
            for row in rows.mapInArrow(writer, FACT_SCHEMA).collect():
                written += [WrittenFile(*values) for values in decoded_facts([bytes(row["fact"])])]
        return written

    def _of_levels(self, variable: str) -> list[DataFrame]:
        """Returns a DataFrame of one variable of the state for each level."""
        spark = self.checkpoint.spark_path
        levels = sorted(int(folder.name) for folder in (spark / "state").glob("*") if folder.name.isdigit())
        return [self._frame(level, variable) for level in levels]

    def _frame(self, level: int, variable: str) -> DataFrame:
        reader = self.spark.read.format("statestore").option("operatorId", level)
        frame = reader.option("batchId", self.batch).option("stateVarName", variable).load(self.checkpoint.spark_folder)
        is_map = variable == "pages"
        number = f.col("user_map_key.page") if is_map else f.lit(None).cast("long")
        data = f.col("user_map_value.data") if is_map else f.col("value.data")
        columns: list[Any] = [f.lit(level).alias("level"), f.col("key.group").alias("group"), number.alias("number")]
        return frame.select(*columns, data.alias("data"))
