"""Lets one run at a time use a checkpoint."""

from __future__ import annotations

import errno
import os
import socket
import threading
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from windrow.errors import CheckpointError, WindrowWarning
from windrow_runtime.spark.checkpoint.stored_file import checkpoint_errors

_FILE: Final = "in-use"
_UNSUPPORTED: Final = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL})
_SHOWN: Final = 200
_held: dict[Path, CheckpointLock] = {}
_guard: Final = threading.Lock()


class CheckpointLock:
    """The right of one run to use a checkpoint, until it is released or the process ends, however that happens.

    It is a lock of the operating system on a file in the folder, so machines that have the folder mounted see it. The
    process that starts the run holds it, over Spark Connect too; processes that it starts do not get it. Where another
    run uses the checkpoint, a :class:`~windrow.errors.CheckpointError` names it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._is_live: Callable[[], bool] = lambda: True
        self._file = -1
        with _guard:
            before = _held.get(self._folder)
            if before is not None and not before.is_live():
                # Its query failed, or other code stopped it, and no call has released the lock since.
                before._close()
            self._file = _open(self._folder)
            _held[self._folder] = self

    def hold_while(self, is_live: Callable[[], bool]) -> None:
        """Let a later run of this process have the checkpoint once ``is_live`` returns False."""
        self._is_live = is_live

    def is_live(self) -> bool:
        """Returns whether its run may still use the checkpoint, and write to the folders of its sinks."""
        return self._file >= 0 and self._is_live()

    def release(self) -> None:
        """Let other runs use the checkpoint. Does nothing when it was released before."""
        with _guard:
            self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            del _held[self._folder]


def _open(folder: Path) -> int:
    with checkpoint_errors(folder):
        # Programs that Python starts do not inherit the open file.
        # Nor is a link in its place followed.
        file = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        _lock(file, folder)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        with checkpoint_errors(folder):
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}, since {since}\n".encode(), 0)
    except BaseException:
        os.close(file)
        raise
    return file


def _lock(file: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            raise _in_use(file, folder) from None
        if error.errno not in _UNSUPPORTED:
            raise
        warnings.warn(
            "the file system of the checkpoint has no locks: see to it that one run at a time uses the checkpoint",
            WindrowWarning,
            stacklevel=2,
        )


def _in_use(file: int, folder: Path) -> CheckpointError:
    try:
        owner = os.pread(file, _SHOWN, 0).decode(errors="replace").strip()
    except OSError:
        owner = ""
    return CheckpointError(
        "another run uses the checkpoint",
        given=owner or "another process",  # which has not written its name yet
        expected="a checkpoint that no run uses",
        where=str(folder),
        hint="stop that run, or wait for its end, then start again; a pipeline beside it needs a checkpoint of its own",
    )
