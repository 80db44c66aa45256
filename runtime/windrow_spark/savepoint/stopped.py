"""Takes savepoints of checkpoints that no run uses, and gives such checkpoints other partitions or another plan."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from windrow.addresses.paths import local_path
from windrow.addresses.redaction import redact_address
from windrow.counts import check_positive
from windrow.errors import InvalidArgumentError
from windrow.plan import Pipeline
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.lock import CheckpointLock
from windrow_spark.checkpoint.stored_plan import Parallelism
from windrow_spark.checkpoint.stored_streams import check_accepted
from windrow_spark.importing import check_imported
from windrow_spark.savepoint.description import SavepointDescription, SavepointFolder
from windrow_spark.savepoint.fitting import PlanChange
from windrow_spark.savepoint.in_place import FORMER, InPlace, begin_anew, time_here
from windrow_spark.savepoint.restoring import Restoration
from windrow_spark.savepoint.writing import write_for_change, write_savepoint
from windrow_spark.session import local_session


def take(
    checkpoint: str | os.PathLike[str],
    pipeline: Pipeline,
    path: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
) -> SavepointDescription:
    """Takes a savepoint of a checkpoint that no run uses, and changes nothing in the checkpoint.

    Args:
        checkpoint: The folder of the checkpoint.
        pipeline: The pipeline whose runs have written it.
        path: The folder of the savepoint, which does not exist or is empty.
        spark: The session whose workers read the state; by default the active one, or a new one on this machine.

    Returns:
        What is in the savepoint.

    Raises:
        InvalidArgumentError: If the folder of the savepoint is not empty, or lies in that of the checkpoint or of a
            source, or there is no checkpoint.
        IncompatibleStateError: If the checkpoint belongs to another plan, no batch has run, its stream has ended, or
            its last batch has begun and is not done.
        UnsupportedOperationError: Over Spark Connect.
        CheckpointError: If a run uses the checkpoint, it is damaged, or a file cannot be read or written.
    """
    folder = SavepointFolder.at(path)
    check_imported(pipeline.steps)
    with _locked(checkpoint) as own:
        return write_savepoint(spark or local_session(os.cpu_count() or 1), own, pipeline, folder)


def rescale(
    checkpoint: str | os.PathLike[str],
    pipeline: Pipeline,
    *,
    partitions: int | None = None,
    key_groups_per_partition: int | None = None,
    spark: SparkSession | None = None,
) -> Path:
    """Gives a checkpoint that no run uses another number of partitions or key groups.

    A savepoint is taken beside the checkpoint, from which the checkpoint begins anew; the savepoint stays. If this is
    interrupted, no run goes on with the checkpoint until it is called again and has finished.

    Args:
        checkpoint: The folder of the checkpoint.
        pipeline: The pipeline whose runs have written it.
        partitions: Into how many partitions Spark shuffles; by default as before.
        key_groups_per_partition: Into how many groups the keys of each of them are hashed; by default as before.
        spark: The session whose workers move the state; by default the active one, or a new one on this machine.

    Returns:
        The path of the savepoint, which is that of the checkpoint with ``.rescaled`` behind it.

    Raises:
        InvalidArgumentError: As :func:`take`; if neither number is given, one is not positive, or the savepoint of an
            earlier call is still there.
        IncompatibleStateError: As :func:`take`.
        UnsupportedOperationError: As :func:`take`.
        CheckpointError: As :func:`take`, and if another call was interrupted while it began the checkpoint anew.
    """
    numbers = {"partitions": partitions, "key_groups_per_partition": key_groups_per_partition}
    changed = {name: number for name, number in numbers.items() if number is not None}
    if not changed:
        raise InvalidArgumentError("no other parallelism is given", expected="partitions, key_groups_per_partition")
    for name, number in changed.items():
        check_positive(number, name)
    check_imported(pipeline.steps)
    with _locked(checkpoint) as own:
        session = spark or local_session(os.cpu_count() or 1)
        folder = InPlace.RESCALE.folder(own)
        # The savepoint has the defaults of both numbers.
        restoration = Restoration(Parallelism(partitions, key_groups_per_partition, 0), is_in_place=True)
        begin_anew(session, own, pipeline, folder, restoration, lambda: write_savepoint(session, own, pipeline, folder))
        return folder.path


def upgrade(
    checkpoint: str | os.PathLike[str],
    pipeline: Pipeline,
    *,
    renamed: Mapping[str, str] | None = None,
    accept_changes: Collection[str] = (),
    partitions: int | None = None,
    key_groups_per_partition: int | None = None,
    spark: SparkSession | None = None,
) -> Path:
    """Gives a checkpoint that no run uses another plan, which goes on with its state; the former plan is not needed.

    A savepoint is taken beside the checkpoint, from which the checkpoint begins anew, and a warning names the changes.
    The former files of the checkpoint lie in the folder ``former`` of the savepoint then. If this is interrupted, no
    run goes on with the checkpoint until it is called again and has finished.

    Args:
        checkpoint: The folder of the checkpoint.
        pipeline: The changed pipeline.
        renamed: The new names of steps and sources, by those that the checkpoint has.
        accept_changes: The ids or names of steps that may take other streams.
        partitions: Into how many partitions Spark shuffles; by default as before.
        key_groups_per_partition: Into how many groups the keys of each of them are hashed; by default as before.
        spark: The session whose workers move the state; by default the active one, or a new one on this machine.

    Returns:
        The path of the savepoint, which is that of the checkpoint with ``.upgraded`` behind it.

    Raises:
        InvalidArgumentError: As :func:`rescale`, and if steps are renamed that are not there.
        IncompatibleStateError: As :func:`take`, and if a step cannot go on with the state of its name.
        UnsupportedOperationError: As :func:`take`.
        CheckpointError: As :func:`rescale`.
    """
    for name, number in (("partitions", partitions), ("key_groups_per_partition", key_groups_per_partition)):
        if number is not None:
            check_positive(number, name)
    check_imported(pipeline.steps)
    check_accepted(pipeline.steps, accept_changes)
    change = PlanChange(dict(renamed or {}), accept_changes)
    with _locked(checkpoint) as own:
        session = spark or local_session(os.cpu_count() or 1)
        folder = InPlace.UPGRADE.folder(own)
        restoration = Restoration(
            Parallelism(partitions, key_groups_per_partition, 0),
            change,
            time_here,
            former=folder.path / FORMER,
            is_in_place=True,
        )
        begin_anew(
            session,
            own,
            pipeline,
            folder,
            restoration,
            lambda: write_for_change(session, own, pipeline, folder, change),
        )
        return folder.path


def checkpoint_at(path: str | os.PathLike[str]) -> Checkpoint:
    """Opens the checkpoint in a folder; refuses a path where no folder is."""
    local = local_path(os.fspath(path))
    if local is None or not Path(local).is_dir():
        raise InvalidArgumentError(
            "there is no checkpoint of a pipeline",
            given=redact_address(os.fspath(path)),
            expected="the folder of runs on Spark, in a mounted file system",
        )
    return Checkpoint(Path(local).absolute())


@contextmanager
def _locked(path: str | os.PathLike[str]) -> Iterator[Checkpoint]:
    """Opens a checkpoint that is there, and reserves it."""
    checkpoint = checkpoint_at(path)
    lock = CheckpointLock(Path(checkpoint.path))
    try:
        yield checkpoint
    finally:
        lock.release()
