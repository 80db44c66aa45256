"""Lets one run at a time write to a folder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from windrow_runtime.outputs.process_lock import HAS_LOCKS, LockedError, ProcessLock


def lock_folder(folder: Path, held: ExitStack, is_live: Callable[[], bool]) -> bool:
    """Lock a folder until a stack is closed; returns False where another run of any process has locked it.

    A later run of this process may also have it once ``is_live`` returns False. Where there are no locks, nobody is
    refused. Processes that this one starts do not get the lock.
    """
    if not HAS_LOCKS:
        return True
    path = folder.resolve()
    try:
        lock = ProcessLock(path, is_live)
    except LockedError:
        return False
    held.callback(lock.release)
    return True
