"""Lets one run at a time use a checkpoint."""

from __future__ import annotations

import os
import socket
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from windrow.errors import CheckpointError, WindrowWarning
from windrow_runtime.outputs.process_lock import LockedError, ProcessLock
from windrow_spark.checkpoint.stored_file import checkpoint_errors

LOCK_FILE: Final = "in-use"
"""The name of the file in the folder of a checkpoint by which a run reserves it."""


class CheckpointLock(ProcessLock):
    """Reserves a checkpoint for one run, until it is released or the process ends, however that happens.

    It is a lock of the operating system on a file in the folder, so machines that have the folder mounted see it. The
    process that starts the run holds it, over Spark Connect too; processes that it starts or forks do not inherit it.
    If another run uses the checkpoint, a :class:`~windrow.errors.CheckpointError` names it.
    """

    def check(self) -> None:
        """Does nothing: nobody takes such a lock over."""

    def __init__(self, folder: Path) -> None:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        note = f"process {os.getpid()} on {socket.gethostname()}, since {since}\n"
        try:
            with checkpoint_errors(folder):
                super().__init__(folder.resolve() / LOCK_FILE, note=note)
        except LockedError as error:
            raise checkpoint_in_use(folder, error.note) from None
        if not self.is_supported:
            warnings.warn(
                "the file system of the checkpoint has no locks: see to it that one run at a time uses the checkpoint",
                WindrowWarning,
                stacklevel=2,
            )


def checkpoint_in_use(folder: os.PathLike[str], owner: str) -> CheckpointError:
    """Returns the error for a run whose checkpoint another one has; an owner without a name has not written it yet."""
    return CheckpointError(
        "another run uses the checkpoint",
        given=owner or "another process",
        expected="a checkpoint that no run uses",
        where=str(folder),
        hint="stop that run, or wait for its end, then start again; a pipeline beside it needs a checkpoint of its own",
    )
