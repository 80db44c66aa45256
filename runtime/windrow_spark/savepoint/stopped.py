"""Takes savepoints of checkpoints that no run uses, and gives such checkpoints other partitions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
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
from windrow_spark.importing import check_imported
from windrow_spark.savepoint.description import SavepointDescription, SavepointFolder
from windrow_spark.savepoint.restoring import Restoration, check_restored, restore, restored_file
from windrow_spark.savepoint.writing import write_savepoint
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
        CheckpointError: As :func:`take`.
    """
    numbers = {"partitions": partitions, "key_groups_per_partition": key_groups_per_partition}
    given = {name: number for name, number in numbers.items() if number is not None}
    if not given:
        raise InvalidArgumentError("no other parallelism is given", expected="partitions, key_groups_per_partition")
    for name, number in given.items():
        check_positive(number, name)
    check_imported(pipeline.steps)
    session = spark or local_session(os.cpu_count() or 1)
    with _locked(checkpoint) as own:
        folder = SavepointFolder(Path(f"{own.path}.rescaled"))
        restored = restored_file(own).read()
        if restored is None or restored.is_whole:
            if folder.path.exists():
                _forget_unfinished(folder)
            write_savepoint(session, own, pipeline, folder)
        else:
            check_restored(own, folder)  # refuses another savepoint than that of the interrupted call
        # The savepoint has the defaults of both numbers.
        parallelism = Parallelism(partitions, key_groups_per_partition, 0)
        restore(session, own, pipeline, folder, Restoration(parallelism))
        return folder.path


def _forget_unfinished(folder: SavepointFolder) -> None:
    """Removes what an interrupted call has written; refuses to replace a savepoint, or to remove other files."""
    if folder.file.read() is not None:
        raise InvalidArgumentError(
            "the savepoint of an earlier call is still there",
            given=str(folder.path),
            expected="no folder of that name",
            hint="delete it, or move it elsewhere, if the checkpoint needs it no more",
        )
    others = sorted(entry.name for entry in folder.path.iterdir() if not folder.is_own(entry))
    if others:
        raise InvalidArgumentError(
            "the savepoint of a checkpoint that is rescaled needs a folder that has other files",
            given=f"{folder.path}, which has {', '.join(others[:3])}",
            expected="no folder of that name",
            hint="move these files elsewhere",
        )
    shutil.rmtree(folder.path)


@contextmanager
def _locked(path: str | os.PathLike[str]) -> Iterator[Checkpoint]:
    """Opens a checkpoint that is there, and reserves it."""
    local = local_path(os.fspath(path))
    if local is None or not Path(local).is_dir():
        raise InvalidArgumentError(
            "there is no checkpoint of a pipeline",
            given=redact_address(os.fspath(path)),
            expected="the folder of runs on Spark, in a mounted file system",
        )
    checkpoint = Checkpoint(Path(local).absolute())
    lock = CheckpointLock(Path(checkpoint.path))
    try:
        yield checkpoint
    finally:
        lock.release()
