"""Lets one run at a time use a checkpoint in a file system that has no locks.

The lock is the file with the highest number in a folder. Its owner writes it anew every few seconds. Whoever finds that
nobody has written it for as long as a lease lasts takes the checkpoint over by the file with the next number, which one
writer alone can write. The former owner finds it before its next batch, or before the present one is published; if
Spark writes its batches by itself, when it would write its own file anew.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from windrow.errors import CheckpointError
from windrow_spark.checkpoint.lock import CheckpointLock, checkpoint_in_use
from windrow_spark.checkpoint.storage import HadoopPath, StoragePath
from windrow_spark.checkpoint.stored_file import checkpoint_errors, file_numbers

_LOG: Final = logging.getLogger("windrow")
_PREFIX: Final = "lock-"
_FREE: Final = b"free"
_RENEWALS: Final = 3  # in a lease
_LOOKS: Final = 30  # at the file of a silent owner, in a lease
_COARSE_SECONDS: Final = 1.0  # S3 has times of whole seconds
RunLock: TypeAlias = "CheckpointLock | LeaseLock"
"""The lock of a run on its checkpoint."""

_held: Final[dict[str, LeaseLock]] = {}


class LeaseLock:
    """Reserves a checkpoint for one run until it is released, or as long as a lease after the process has ended.

    Args:
        folder: The checkpoint.
        seconds: How long a lease lasts; at most so long the lock of a process that died is waited for.

    Raises:
        CheckpointError: If another run uses the checkpoint, whose name the error has, or files cannot be written.
    """

    def __init__(self, folder: HadoopPath, seconds: float) -> None:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._note = f"process {os.getpid()} on {socket.gethostname()}, since {since}"
        self._mark = secrets.token_hex(8)
        self._renewals = 0
        self._checkpoint, self._folder, self._seconds = folder, folder / "locks", seconds
        self._is_over = threading.Event()
        self._writing = threading.Lock()
        self._is_lost = False
        self.is_owner_live: Callable[[], bool] = lambda: True
        self.on_loss: Callable[[CheckpointError], None] = lambda error: None  # called when a renewal finds the loss
        before = _held.get(folder.url)
        if before is not None and before.is_held:
            raise checkpoint_in_use(folder, before._note)
        if before is not None:
            before.release()  # its query failed, and no call has released the lock since
        with checkpoint_errors(folder):
            self._number = self._acquire()
        _held[folder.url] = self
        threading.Thread(target=self._renew, name="windrow keeps a lock", daemon=True).start()

    @property
    def is_held(self) -> bool:
        """Whether this run has the lock, as far as it knows, and its owner is at work."""
        return not self._is_over.is_set() and not self._is_lost and self.is_owner_live()

    def check(self) -> None:
        """Raise a ``CheckpointError`` if another run has taken the checkpoint over."""
        with self._writing, checkpoint_errors(self._checkpoint):
            newest = self._newest()
            content = self._read(newest)  # empty while another run writes it
            is_another = newest == self._number and content != b"" and self._mark.encode() not in content
            self._is_lost = self._is_lost or newest > self._number or is_another
            if self._is_lost:
                raise checkpoint_in_use(self._checkpoint, _owner_in(content))

    def release(self) -> None:
        """Let other runs have the checkpoint. Does nothing if it was released before."""
        if self._is_over.is_set():
            return
        self._is_over.set()
        if _held.get(self._checkpoint.url) is self:
            del _held[self._checkpoint.url]
        try:
            with self._writing:
                if not self._is_lost:
                    self._file(self._number).rewrite(_FREE)
        except Exception:
            _LOG.debug("the lock of %s ends with its lease", self._checkpoint, exc_info=True)

    def _file(self, number: int) -> HadoopPath:
        return self._folder / f"{_PREFIX}{number}"

    def _newest(self) -> int:
        return max(file_numbers(self._folder, _PREFIX), default=0)

    def _read(self, number: int) -> bytes:
        if number == 0:
            return _FREE
        try:
            return self._file(number).read_bytes()
        except FileNotFoundError:
            return b""  # another run has deleted it, or is writing it anew

    def _content(self) -> bytes:
        self._renewals += 1
        return f"{self._note}\n{self._mark} {self._renewals}\n".encode()

    def _acquire(self) -> int:
        self._folder.mkdir()
        while True:
            newest = self._newest()
            content = self._read(newest)
            if content != _FREE:
                self._wait_for_end(newest, content)
            if self._file(newest + 1).write_once(self._content()):
                for number in file_numbers(self._folder, _PREFIX):
                    if number < newest:  # the last one stays for an owner that finds it replaced
                        self._file(number).unlink(missing_ok=True)
                return newest + 1

    def _wait_for_end(self, number: int, content: bytes) -> None:
        """Wait until the lease of an owner has ended; refuse to go on if the owner writes its file meanwhile."""
        # The clock of the file system tells how old the file is.
        probe = self._folder / f"_time-{self._mark}"
        probe.write(b"now")
        silent = 0.0
        with suppress(FileNotFoundError):  # its owner is writing it anew
            silent = probe.modified() - self._file(number).modified() - _COARSE_SECONDS
        probe.unlink(missing_ok=True)
        end = time.monotonic() + self._seconds - max(silent, 0)
        if end > time.monotonic():
            _LOG.warning(
                "checkpoint %s belongs to %s: waiting up to %.0f seconds for a sign of life of it",
                self._checkpoint,
                _owner_in(content),
                end - time.monotonic(),
            )
        while time.monotonic() < end:
            time.sleep(self._seconds / _LOOKS)
            seen = self._read(number)
            if seen == _FREE:
                return
            if seen != content:
                raise checkpoint_in_use(self._checkpoint, _owner_in(seen))

    def _renew(self) -> None:
        from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]  # py4j has no types

        while not self._is_over.wait(self._seconds / _RENEWALS):
            try:
                self.check()
                with self._writing, checkpoint_errors(self._checkpoint):
                    if not self._is_over.is_set():
                        self._file(self._number).rewrite(self._content())
            except Exception as error:
                said = error.given if isinstance(error, CheckpointError) else repr(error)
                if self._is_lost:
                    _LOG.error("checkpoint %s was taken over by %s", self._checkpoint, said)
                    if isinstance(error, CheckpointError):
                        self.on_loss(error)
                    return
                if isinstance(error.__cause__ or error, ConnectionError | Py4JNetworkError):
                    _LOG.debug("the lock of %s is renewed no more: Java is gone", self._checkpoint, exc_info=True)
                    return
                _LOG.warning("the lock of checkpoint %s could not be renewed: %s", self._checkpoint, said)


def lock_of(folder: StoragePath, lease_seconds: float) -> RunLock:
    """Reserves a checkpoint for one run, by a lock of the operating system where the folder is mounted."""
    if isinstance(folder, HadoopPath):
        return LeaseLock(folder, lease_seconds)
    return CheckpointLock(Path(folder))


def _owner_in(content: bytes) -> str:
    return content.decode(errors="replace").partition("\n")[0] or "another process"
