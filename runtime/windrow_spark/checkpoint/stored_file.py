"""Reads and writes the small files of a checkpoint: a line with version and checksum, then JSON of one type.

A changed time or number of partitions in such a file would lose rows. So a file is accepted only if it has the checksum
of its name and content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import index
from typing import Annotated, Final, Generic, TypeVar

import msgspec

from windrow.errors import CheckpointError, IncompatibleStateError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.outputs.whole_files import checksum
from windrow_spark.checkpoint.storage import StoragePath, read_whole, write_once, write_whole

T = TypeVar("T")

StoredTime = Annotated[int, msgspec.Meta(ge=MIN_TIMESTAMP, le=MAX_TIMESTAMP)]
"""A time in milliseconds, within windrow's range of 64 bits."""

BATCHES_KEPT: Final = 110
"""The number of batches whose small files are kept: some more than the hundred that Spark keeps in its logs."""

_VERSION: Final = 1
_HEAD: Final = re.compile(rb"windrow v([0-9]{1,9}) [0-9a-f]+")


@dataclass(frozen=True, slots=True)
class StoredFile(Generic[T]):
    """A file of a checkpoint; ``kind`` is the class of its content, by whose annotations msgspec checks it."""

    path: StoragePath
    class_: type[T]

    def write(self, content: T, *, once: bool = False) -> bool:
        """Write the file atomically; ``once`` returns False if another run has written another one before."""
        body = _json(content)
        with checkpoint_errors(self.path.parent):
            whole = self._head(body) + b"\n" + body
            if once:
                return write_once(self.path, whole)
            write_whole(self.path, whole)
            return True

    def read(self) -> T | None:
        """Returns the content of the file; None if it does not exist. Refuses a changed file."""
        with checkpoint_errors(self.path.parent):
            try:
                head, _, body = read_whole(self.path).partition(b"\n")
            except FileNotFoundError:
                return None
        written = _HEAD.fullmatch(head)
        if written is not None and int(written[1]) != _VERSION:
            raise IncompatibleStateError(
                "the checkpoint was written by another version",
                given=int(written[1]),
                expected=f"version {_VERSION}",
                where=str(self.path),
                hint="run it with the version of windrow that wrote it, or a newer one",
            )
        if head != self._head(body):
            raise damaged_file(self.path, "the file was changed: its checksum is another one")
        try:
            return msgspec.convert(json.loads(body), self.class_)
        except (ValueError, RecursionError) as error:
            raise damaged_file(self.path, f"{error}") from error

    def holds(self, content: T) -> bool:
        """Returns whether the file has this content. Refuses a changed file."""
        stored = self.read()
        return stored is not None and json.loads(_json(stored)) == json.loads(_json(content))

    def _head(self, body: bytes) -> bytes:
        return f"windrow v{_VERSION} {checksum(self.path.name, body)}".encode()


def _json(content: object) -> bytes:
    plain = msgspec.to_builtins(content, enc_hook=index)  # numpy's integers become ints
    return json.dumps(plain, indent=1, allow_nan=False).encode()


@contextmanager
def checkpoint_errors(folder: StoragePath) -> Iterator[None]:
    """Turns each ``OSError`` into a :class:`CheckpointError` that names the checkpoint's folder."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            "the checkpoint cannot be read or written",
            given=f"{error}",
            expected="a folder with space left, which this user may read and write",
            where=str(folder),
            hint="mend that and run again: what was done before is still there",
        ) from error


def damaged_file(file: StoragePath, reason: str) -> CheckpointError:
    """Returns the error for a file of the checkpoint that was changed or is missing."""
    expected = "the folder as the runs before left it"
    return damaged_state(reason, message="the checkpoint is damaged", expected=expected).at(str(file))


def file_numbers(folder: StoragePath, prefix: str = "", suffix: str = "") -> set[int]:
    """Returns the numbers in the names of files, between a prefix and a suffix; ignores other names."""
    name = re.compile(rf"{re.escape(prefix)}([0-9]{{1,18}}){re.escape(suffix)}")
    with checkpoint_errors(folder):
        matches = [name.fullmatch(file.name) for file in folder.glob("*")]
    return {int(match[1]) for match in matches if match is not None}


def is_there(file: StoragePath) -> bool:
    """Returns whether there is a file."""
    with checkpoint_errors(file.parent):
        return file.exists()
