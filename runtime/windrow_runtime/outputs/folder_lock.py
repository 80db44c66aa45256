"""Lets one run at a time write to a folder."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

# A network file system has no locks at all, or none for folders.
_UNSUPPORTED: Final = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL, errno.EBADF})
_held: dict[Path, _Lock] = {}
_guard: Final = threading.Lock()


class _Lock:
    """A lock of the operating system on a folder, until it is closed or the process ends, however that happens."""

    def __init__(self, file: int, path: Path, is_live: Callable[[], bool]) -> None:
        self._file, self._path, self.is_live = file, path, is_live

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            del _held[self._path]

    def release(self) -> None:
        with _guard:
            self.close()


def lock_folder(folder: Path, held: ExitStack, is_live: Callable[[], bool]) -> bool:
    """Lock a folder until a stack is closed; returns False where another run of any process has locked it.

    A later run of this process may also have it once ``is_live`` returns False. Where there are no locks, nobody is
    refused. Programs that Python starts do not get the lock.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    path = folder.resolve()
    with _guard:
        before = _held.get(path)
        if before is not None and not before.is_live():
            before.close()
        file = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
                return False
            if error.errno not in _UNSUPPORTED:
                raise
        else:
            lock = _held[path] = _Lock(file, path, is_live)
            held.callback(lock.release)
        return True
