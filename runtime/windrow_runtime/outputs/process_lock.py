"""Locks files and folders for this process alone, and not for processes that it forks.

A lock of the operating system belongs to the open file, which a forked process shares: as long as a child has it open,
as the processes of ``multiprocessing`` do, nobody else gets the lock. So a child closes the files of all locks as it
starts, while the parent keeps them, and a release unlocks the file for all processes that have it open.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final

# The errors of network file systems that have no locks, or none for folders.
_UNSUPPORTED: Final = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL, errno.EBADF})
# Links are not followed: others who can write to the folder could make the run write into a file elsewhere.
_NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)
HAS_LOCKS: Final = find_spec("fcntl") is not None
"""Whether the system has such locks; Windows has others."""
_held: Final[dict[Path, ProcessLock]] = {}
# The lock is reentrant because `is_owner_live` may fork, which takes it again.
_guard: Final = threading.RLock()


class LockedError(Exception):
    """Raised if another run, of this process or of another, has the lock.

    Attributes:
        note: What the owner has written into the file.
    """

    def __init__(self, note: str) -> None:
        super().__init__(note)
        self.note = note


class ProcessLock:
    """Holds the lock on a file or a folder until it is released or the process ends, however that happens.

    A later run of this process also gets it once ``is_live`` returns False. In a process that was forked it is
    released, which changes nothing for the parent.

    Args:
        path: The file, or a folder that exists, in a folder whose links are resolved.
        is_live: Returns whether its owner is at work.
        note: Written into the file, for whoever is refused; only for a file, which is made if it does not exist.

    Raises:
        LockedError: If another run has the lock.
        OSError: If the path cannot be opened or locked.
    """

    def __init__(self, path: Path, is_live: Callable[[], bool] = lambda: True, note: str | None = None) -> None:
        self._path = path
        self.is_owner_live = is_live
        self.is_supported = True
        self._file = -1
        with _guard:
            before = _held.get(path)
            if before is not None and not before.is_owner_live():
                # Its query failed, or other code stopped it, and no call has released the lock since.
                before._close()
            # Programs that Python starts do not inherit the open file.
            self._file = os.open(path, os.O_RDONLY if note is None else os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
            try:
                self.is_supported = _lock(self._file)
                if note is not None:
                    os.ftruncate(self._file, 0)
                    os.pwrite(self._file, note.encode(), 0)
            except BaseException:
                os.close(self._file)
                self._file = -1
                raise
            _held[path] = self

    @property
    def is_held(self) -> bool:
        """Whether this process has the lock, and its owner is at work."""
        return self._file >= 0 and self.is_owner_live()

    def release(self) -> None:
        """Release the lock. Does nothing if it was released before."""
        with _guard:
            if self._file >= 0:
                _unlock(self._file)
                self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            # Without locks in the file system, another run may have registered itself.
            if _held.get(self._path) is self:
                del _held[self._path]


class OwnStack(ExitStack):
    """An ``ExitStack`` that does nothing in a forked process.

    A forked process has copies of connections and files that its parent works with, and may leave the block that holds
    them, for example by ``sys.exit``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    def __exit__(
        self, class_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        return super().__exit__(class_, error, trace) if os.getpid() == self._process else None


def _lock(file: int) -> bool:
    """Locks an open file; returns whether there are locks here."""
    if not HAS_LOCKS:
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            raise LockedError(_note_in(file)) from None
        if error.errno not in _UNSUPPORTED:
            raise
        return False
    return True


def _unlock(file: int) -> None:
    if not HAS_LOCKS:
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_UN)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _note_in(file: int) -> str:
    try:
        return os.pread(file, 200, 0).decode(errors="replace").strip()
    except OSError:  # a folder has none
        return ""


def _in_child() -> None:
    for lock in list(_held.values()):
        lock._close()
    _guard.release()


if hasattr(os, "register_at_fork"):
    # A fork waits until other threads have registered the locks that they take, so that the child closes them.
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_in_child)
