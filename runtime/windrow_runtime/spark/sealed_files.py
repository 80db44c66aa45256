"""Files of a folder that is shared: what is read was written by this program, or by a process that it gave its key."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Final

from windrow.errors import CheckpointError
from windrow_runtime.spark.checkpoint_files import files_told

__all__ = ["SealedFolder"]

_SEAL_BYTES: Final = sha256().digest_size


class SealedFolder:
    """A folder whose files begin with a seal over their name and content, made with a key that no file holds.

    Whoever can write to the folder can take files away, but cannot make one that is read, nor put one in another's
    place. A copy that was pickled has the same key.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = secrets.token_bytes(32)

    def make(self) -> None:
        """Make the folder.

        Raises:
            CheckpointError: If it cannot be made, or is there.
        """
        with files_told(self._path):
            self._path.mkdir(parents=True)

    def names(self) -> list[str]:
        """The names of the files, in no order.

        Raises:
            CheckpointError: If the folder cannot be read.
        """
        with files_told(self._path):
            return [file.name for file in self._path.iterdir() if not file.name.startswith("_")]

    def write(self, name: str, content: bytes) -> None:
        """Write a file, or another in its place.

        Raises:
            CheckpointError: If it cannot be written.
        """
        # Written aside first, so that a reader never sees half a file.
        aside = self._path / f"_{name}"
        with files_told(self._path):
            with aside.open("wb") as file:
                file.write(self._seal(name, content))
                file.write(content)
            aside.replace(self._path / name)

    def remove(self, name: str) -> None:
        """Remove a file, if there is one.

        Raises:
            CheckpointError: If it cannot be removed.
        """
        with files_told(self._path):
            (self._path / name).unlink(missing_ok=True)

    def read(self, name: str) -> bytes | None:
        """What a file was given; None: there is no such file.

        Raises:
            CheckpointError: If somebody else wrote it, or it cannot be read.
        """
        with files_told(self._path):
            try:
                data = (self._path / name).read_bytes()
            except FileNotFoundError:
                if self._path.is_dir():
                    return None
                raise
        content = data[_SEAL_BYTES:]
        if not hmac.compare_digest(data[:_SEAL_BYTES], self._seal(name, content)):
            raise CheckpointError(
                "a file of the checkpoint does not come from this run",
                given=f"{len(data)} bytes without the seal of the run",
                expected="the file as the run wrote it",
                where=str(self._path / name),
                hint="nobody else may write to the checkpoint folder; find out who did, and run again",
            )
        return content

    def _seal(self, name: str, content: bytes) -> bytes:
        seal = hmac.new(self._key, name.encode() + b"\0", sha256)
        seal.update(content)
        return seal.digest()
