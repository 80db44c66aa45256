"""Begins a checkpoint anew in its place: from a savepoint beside it, so that nothing is lost if that is interrupted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windrow.errors import CheckpointError, IncompatibleStateError, InvalidArgumentError
from windrow.plan import Pipeline
from windrow_spark.checkpoint.folder import Checkpoint, Description
from windrow_spark.checkpoint.stored_file import checkpoint_errors, damaged_file, is_there
from windrow_spark.clock import has_own_clock
from windrow_spark.lowering import per_partition, time_of
from windrow_spark.physical.plan import PhysicalPlan
from windrow_spark.savepoint.description import SavepointDescription, SavepointFolder
from windrow_spark.savepoint.fitting import PlanChange, fitted
from windrow_spark.savepoint.restoring import Restoration, has_begun, restore, restored_file
from windrow_spark.savepoint.writing import fitted_to, write_for_change
from windrow_spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMER: Final = "former"
"""The folder in that of a savepoint with the former files of the checkpoint, which had another plan."""


class InPlace(Enum):
    """A call that begins a checkpoint anew: the suffix of its savepoint, and what finishes an interrupted one."""

    UPGRADE = ".upgraded", "windrow upgrade, with the arguments that it had"
    RESCALE = ".rescaled", "windrow rescale, with the arguments that it had"
    GROWTH = ".grown", "run the pipeline that was growing"

    def folder(self, checkpoint: Checkpoint) -> SavepointFolder:
        """Names the folder of the savepoint that the call writes beside a checkpoint."""
        return SavepointFolder(Path(f"{checkpoint.path}{self.value[0]}"))


def begin_anew(
    spark: SparkSession,
    checkpoint: Checkpoint,
    pipeline: Pipeline,
    folder: SavepointFolder,
    wanted: Restoration,
    write: Callable[[], SavepointDescription],
) -> None:
    """Writes a savepoint of a checkpoint, and begins the checkpoint from it; does the rest if that was interrupted.

    Called again before a run has gone on, it does nothing more.

    Args:
        spark: The session whose workers move the state.
        checkpoint: The checkpoint, which no run uses.
        pipeline: The pipeline that shall go on.
        folder: The folder of the savepoint, beside the checkpoint.
        wanted: How the checkpoint shall begin.
        write: Writes the savepoint.
    """
    restored = restored_file(checkpoint).read()
    if restored is None or restored.is_whole:
        if has_begun(checkpoint, pipeline, folder, wanted):
            return  # the call that did it was interrupted before it could say so, or is made twice
        if folder.path.exists():
            _forget_unused(folder, checkpoint)
        write()
    else:
        _check_continued(checkpoint, folder, restored.savepoint)
    try:
        restore(spark, checkpoint, pipeline, folder, wanted)
    except IncompatibleStateError:
        if restored_file(checkpoint).read() == restored:  # the checkpoint is as it was
            _forget_unused(folder, checkpoint)
        raise


def _check_continued(checkpoint: Checkpoint, folder: SavepointFolder, interrupted: str) -> None:
    """Refuses another savepoint than that from which an interrupted call began a checkpoint anew."""
    saved = folder.file.read()
    if saved is not None and saved.id == interrupted:
        return
    calls = [each.value[1] for each in InPlace if (of := each.folder(checkpoint).file.read()) and of.id == interrupted]
    raise CheckpointError(
        "another call was interrupted while it began the checkpoint anew",
        given=str(folder.path),
        expected="the savepoint from which the checkpoint was to begin",
        where=str(checkpoint.path),
        hint=f"finish that first: {calls[0] if calls else 'SparkRunner(checkpoint=..., savepoint=...)'}",
    )


def grow(spark: SparkSession, checkpoint: Checkpoint, pipeline: Pipeline, wanted: Restoration) -> bool:
    """Begins a checkpoint anew for a plan that has all that it had, and more; what is new begins empty.

    Args:
        spark: The session whose workers move the state.
        checkpoint: The checkpoint, which no other run uses.
        pipeline: The pipeline that shall go on.
        wanted: How the checkpoint shall begin.

    Returns:
        Whether it did: a plan with other changes is refused by the run itself.
    """
    stored = checkpoint.description()
    if stored is None or not checkpoint.is_mounted or is_connect(spark):
        return False
    parallelism = wanted.parallelism.partitions, wanted.parallelism.key_groups_per_partition
    for number, before in zip(parallelism, (stored.partitions, stored.groups), strict=True):
        if number not in (None, before):
            return False
    if growth(checkpoint, stored, pipeline, wanted.change) is None:
        return False
    checkpoint.check_whole(None, stateful=bool(stored.steps))
    folder = InPlace.GROWTH.folder(checkpoint)
    left, restored = folder.file.read(), restored_file(checkpoint).read()
    if left is not None and restored is not None and restored.is_whole and restored.savepoint == left.id:
        folder.file.path.unlink()  # a run was interrupted before it removed the savepoint from which it had begun
    begin_anew(
        spark,
        checkpoint,
        pipeline,
        folder,
        wanted,
        lambda: write_for_change(spark, checkpoint, pipeline, folder, wanted.change),
    )
    _remove(folder)
    return True


def growth(checkpoint: Checkpoint, stored: Description, pipeline: Pipeline, change: PlanChange) -> Sequence[str] | None:
    """Returns what is new in a plan that has all that a checkpoint has, a line each; None: it has other changes.

    Raises:
        IncompatibleStateError: If an open window cannot fill a field of an aggregate that is new.
    """
    try:
        fit = fitted_to(checkpoint, stored, pipeline, change)
    except IncompatibleStateError:
        return None
    if not fit.grows:
        return None
    fit.check_filled()
    return [*fit.changes, *fit.other_forms]


def has_begun_to_grow(checkpoint: Checkpoint) -> bool:
    """Returns whether a run was interrupted while it began a checkpoint anew for a plan that has more."""
    if not checkpoint.is_mounted:
        return False
    noted, folder = restored_file(checkpoint).read(), InPlace.GROWTH.folder(checkpoint)
    if noted is None or noted.is_whole or not is_there(folder.file.path):
        return False
    return folder.description().id == noted.savepoint


def finish_growth(spark: SparkSession, checkpoint: Checkpoint, pipeline: Pipeline, wanted: Restoration) -> None:
    """Begins a checkpoint anew from the savepoint of a run that was interrupted while it did so."""
    folder = InPlace.GROWTH.folder(checkpoint)
    saved, stored = folder.description(), folder.checkpoint.description()
    if stored is None:
        raise damaged_file(folder.path / "checkpoint" / "plan", "it is gone")
    fit = fitted(pipeline, saved.steps, stored, folder.checkpoint.streams.read(), wanted.change)
    missing = [*fit.gone, *(f"source {place + 1}" for place in fit.sources.gone)]
    if missing:
        raise IncompatibleStateError(
            "a checkpoint that was growing when a run was interrupted goes on with all that it had",
            given=f"a plan without {', '.join(missing)}",
            expected="all keyed steps and sources of the plan before",
            where=str(checkpoint.path),
            hint="run the plan of before, or the one that was growing; windrow upgrade takes one with less",
        )
    restore(spark, checkpoint, pipeline, folder, wanted)
    _remove(folder)


def _remove(folder: SavepointFolder) -> None:
    with checkpoint_errors(folder.path):
        shutil.rmtree(folder.path)


def time_here(plan: PhysicalPlan, checkpoint: Checkpoint) -> str:
    """Names the kind of time by which a plan goes on from a checkpoint, in a session of this process."""
    by_partition = per_partition(plan.topology, checkpoint, lambda: False)
    return time_of(plan, own_clock=has_own_clock(checkpoint.clock_folder), per_partition=by_partition)


def _forget_unused(folder: SavepointFolder, checkpoint: Checkpoint) -> None:
    """Removes the savepoint of a call that was interrupted before the checkpoint began from it.

    Refuses to remove a savepoint with a state that the checkpoint does not have any more, and other files.
    """
    saved = folder.file.read()
    if saved is not None and not _has_state_of(checkpoint, saved):
        raise InvalidArgumentError(
            "the savepoint of an earlier call is still there",
            given=str(folder.path),
            expected="no folder of that name",
            hint="delete it, or move it elsewhere, if the checkpoint needs it no more",
        )
    others = sorted(entry.name for entry in folder.path.iterdir() if not folder.is_own(entry))
    if others:
        raise InvalidArgumentError(
            "the savepoint of a checkpoint that begins anew needs a folder that has other files",
            given=f"{folder.path}, which has {', '.join(others[:3])}",
            expected="no folder of that name",
            hint="move these files elsewhere",
        )
    _remove(folder)


def _has_state_of(checkpoint: Checkpoint, saved: SavepointDescription) -> bool:
    """Returns whether a checkpoint still has the state of a savepoint, and did not begin from it."""
    restored = restored_file(checkpoint).read()
    last = checkpoint.last_planned()
    done = last if checkpoint.is_committed(last) else last - 1
    is_same = (saved.checkpoint, saved.batch) == (str(Path(checkpoint.path).absolute()), done)
    return is_same and not saved.is_live and (restored is None or restored.savepoint != saved.id)
