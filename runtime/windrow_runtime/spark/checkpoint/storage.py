"""Opens the files of a checkpoint where they lie: in a mounted file system, or in one that Spark's JVM opens.

Windrow asks little of a file system: to write and read whole files, to write a file that nobody else has written, and
the names in a folder. Nothing depends on renaming, nor on times.
"""

from __future__ import annotations

import base64
import errno
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

from windrow.addresses.redaction import redact_address
from windrow_runtime.outputs import whole_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROPERTY: Final = "windrow.files"


class StoragePath(Protocol):
    """A file or a folder of a checkpoint: a ``Path``, or a :class:`RemotePath` with what windrow uses of one."""

    @property
    def name(self) -> str: ...
    @property
    def parent(self) -> Self: ...
    def __truediv__(self, name: str, /) -> Self: ...
    def __fspath__(self) -> str: ...
    def absolute(self) -> Self: ...
    def exists(self) -> bool: ...
    def is_symlink(self) -> bool: ...
    def read_bytes(self) -> bytes: ...
    def unlink(self, missing_ok: bool = False) -> None: ...
    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None: ...
    def glob(self, pattern: str, /) -> Iterator[Self]: ...
    def rglob(self, pattern: str, /) -> Iterator[Self]: ...


class RemotePath:
    """A path in a file system that is not mounted, such as ``s3a://`` or ``hdfs://``, as workers have it.

    Workers have no JVM that opens it: a file has what the driver has handed to the tasks of the batch. On the driver it
    is a :class:`~windrow_runtime.spark.hadoop_files.HadoopPath`, whose methods do what those of ``Path`` do, raise the
    same errors, and are the only ones that are called there.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def __reduce__(self) -> tuple[type[RemotePath], tuple[str]]:
        return RemotePath, (self.url,)

    def __repr__(self) -> str:
        return redact_address(self.url)

    def __fspath__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> Self:
        return self._at(self.url.rpartition("/")[0])

    def __truediv__(self, name: str, /) -> Self:
        return self._at(f"{self.url}/{name}")

    def _at(self, url: str) -> Self:
        return type(self)(url)

    def absolute(self) -> Self:
        return self

    def is_symlink(self) -> bool:
        return False

    def read_bytes(self) -> bytes:
        return _handed(self)

    def exists(self) -> bool:
        raise self._unopened()

    def write(self, content: bytes) -> None:
        """Write the whole file, instead of one that is there: others see the old content or the new one."""
        raise self._unopened()

    def write_once(self, content: bytes) -> bool:
        """Write a file unless it is there; returns whether this content, which no other writer has, is there."""
        raise self._unopened()

    def modified(self) -> float:
        """Returns when the file was written, in seconds since 1970 by the clock of the file system."""
        raise self._unopened()

    def unlink(self, missing_ok: bool = False) -> None:
        raise self._unopened()

    def clear(self) -> None:
        """Delete a folder with all that is in it."""
        raise self._unopened()

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        raise self._unopened()

    def glob(self, pattern: str, /) -> Iterator[Self]:
        raise self._unopened()

    def rglob(self, pattern: str, /) -> Iterator[Self]:
        raise self._unopened()

    def _unopened(self) -> OSError:
        return OSError(errno.ENOTSUP, "no worker opens the file system of the checkpoint", str(self))


def write_whole(file: StoragePath, content: str | bytes) -> None:
    """Write a file atomically. A link in its place is replaced, not followed."""
    if isinstance(file, RemotePath):
        file.write(content if isinstance(content, bytes) else content.encode())
    else:
        whole_files.write_whole(Path(file), content)


def read_whole(file: StoragePath, start: int = 0) -> bytes:
    """Returns what a file has from a byte on; raises an ``OSError`` if it is missing, or a link, a pipe or a folder."""
    if isinstance(file, RemotePath):
        return file.read_bytes()[start:]
    return whole_files.read_whole(Path(file), start)


def clear(folder: StoragePath) -> None:
    """Delete a folder as far as possible, or a link itself. If something remains and matters, a later call fails."""
    if isinstance(folder, RemotePath):
        folder.clear()
    else:
        whole_files.clear(Path(folder))


def set_time(file: StoragePath, seconds: float) -> None:
    """Set the time of a file, where the file system is mounted: others may not keep it."""
    if not isinstance(file, RemotePath):
        os.utime(file, (seconds, seconds))


def hand_on(spark: SparkSession, files: Iterable[StoragePath]) -> None:
    """Hand what some files have to the tasks of jobs that this thread starts from now on, and threads that it starts.

    It does so only for files that workers cannot open.
    """
    handed: dict[str, str | None] = {}
    for file in files:
        if isinstance(file, RemotePath):
            try:
                handed[file.url] = base64.b64encode(file.read_bytes()).decode()
            except FileNotFoundError:
                handed[file.url] = None
    if handed:
        spark.sparkContext.setLocalProperty(_PROPERTY, json.dumps(handed))


def _handed(file: RemotePath) -> bytes:
    """Returns what the driver has handed to this task of a file; raises an ``OSError`` if that is nothing."""
    from pyspark import TaskContext

    context = TaskContext.get()
    handed = json.loads((context and context.getLocalProperty(_PROPERTY)) or "{}")
    if file.url not in handed:
        raise OSError(errno.ENOTSUP, "the driver has not handed the file to the tasks of the batch", str(file))
    content = handed[file.url]
    if content is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    return base64.b64decode(content)
