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
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

from windrow.addresses.redaction import redact_address
from windrow_runtime.outputs import whole_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROPERTY: Final = "windrow.files"


class StoragePath(Protocol):
    """A file or a folder of a checkpoint: a ``Path``, or a :class:`HadoopPath`, which has what windrow uses of one."""

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


class Files(Protocol):
    """What windrow asks of a file system that is not mounted. URLs name its files; failures are ``OSError``."""

    def exists(self, url: str) -> bool:
        """Returns whether there is a file or a folder."""

    def names(self, folder: str) -> list[str]:
        """Returns the names in a folder; none if there is no such folder."""

    def below(self, folder: str) -> list[str]:
        """Returns the URLs of all files in a folder and in those below it; none if there is no such folder."""

    def read(self, url: str) -> bytes:
        """Returns the content of a file."""

    def write(self, url: str, content: bytes) -> None:
        """Write a whole file, instead of one that is there: others see the old content or the new one."""

    def write_once(self, url: str, content: bytes) -> bool:
        """Write a file unless it is there; returns whether this content is there."""

    def modified(self, url: str) -> float:
        """Returns when a file was written, in seconds since 1970 by the clock of the file system."""

    def delete(self, url: str) -> bool:
        """Delete a file, or a folder with all that is in it; returns whether there was one."""

    def make_folder(self, url: str, mode: int) -> None:
        """Make a folder, and those above it, unless it is there."""


@dataclass(frozen=True, slots=True)
class HadoopPath:
    """A path in a file system that only Spark's JVM opens, such as ``s3a://`` or ``hdfs://``.

    Its methods do what those of ``Path`` do, and raise the same errors. Workers have no JVM: there it can only be read,
    and has what the driver has handed to the tasks of the batch.
    """

    url: str
    files: Files | None = None  # None: in a worker

    def __reduce__(self) -> tuple[type[HadoopPath], tuple[str]]:
        return HadoopPath, (self.url,)

    def __str__(self) -> str:
        return redact_address(self.url)

    def __fspath__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> HadoopPath:
        return HadoopPath(self.url.rpartition("/")[0], self.files)

    def __truediv__(self, name: str, /) -> HadoopPath:
        return HadoopPath(f"{self.url}/{name}", self.files)

    def absolute(self) -> HadoopPath:
        return self

    @property
    def _opened(self) -> Files:
        if self.files is None:
            raise OSError(errno.ENOTSUP, "no worker opens the file system of the checkpoint", str(self))
        return self.files

    def exists(self) -> bool:
        return self._opened.exists(self.url)

    def is_symlink(self) -> bool:
        return False

    def read_bytes(self) -> bytes:
        return _handed(self) if self.files is None else self.files.read(self.url)

    def write(self, content: bytes) -> None:
        """Write the whole file, instead of one that is there: others see the old content or the new one."""
        self._opened.write(self.url, content)

    def write_once(self, content: bytes) -> bool:
        """Write a file that no other writer has written; returns whether it is this content that is there.

        Whoever else writes a file of this name must write another content.
        """
        return self._opened.write_once(self.url, content)

    def modified(self) -> float:
        """Returns when the file was written, in seconds since 1970 by the clock of the file system."""
        return self._opened.modified(self.url)

    def unlink(self, missing_ok: bool = False) -> None:
        if not self._opened.delete(self.url) and not missing_ok:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))

    def clear(self) -> None:
        """Delete a folder with all that is in it."""
        self._opened.delete(self.url)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        self._opened.make_folder(self.url, mode)

    def glob(self, pattern: str, /) -> Iterator[HadoopPath]:
        return (self / name for name in self._opened.names(self.url) if fnmatchcase(name, pattern))

    def rglob(self, pattern: str, /) -> Iterator[HadoopPath]:
        found = (HadoopPath(url, self.files) for url in self._opened.below(self.url))
        return (path for path in found if fnmatchcase(path.name, pattern))


def write_whole(file: StoragePath, content: str | bytes) -> None:
    """Write a file atomically. A link in its place is replaced, not followed."""
    if isinstance(file, HadoopPath):
        file.write(content if isinstance(content, bytes) else content.encode())
    else:
        whole_files.write_whole(Path(file), content)


def read_whole(file: StoragePath, start: int = 0) -> bytes:
    """Returns what a file has from a byte on; raises an ``OSError`` if it is missing, or a link, a pipe or a folder."""
    if isinstance(file, HadoopPath):
        return file.read_bytes()[start:]
    return whole_files.read_whole(Path(file), start)


def clear(folder: StoragePath) -> None:
    """Delete a folder as far as possible, or a link itself. If something remains and matters, a later call fails."""
    if isinstance(folder, HadoopPath):
        folder.clear()
    else:
        whole_files.clear(Path(folder))


def set_time(file: StoragePath, seconds: float) -> None:
    """Set the time of a file, where the file system is mounted: others may not keep it."""
    if not isinstance(file, HadoopPath):
        os.utime(file, (seconds, seconds))


def hand_on(spark: SparkSession, files: Iterable[StoragePath]) -> None:
    """Hand what some files have to the tasks of jobs that this thread starts from now on, and threads that it starts.

    It does so only for files that workers cannot open.
    """
    handed: dict[str, str | None] = {}
    for file in files:
        if isinstance(file, HadoopPath):
            try:
                handed[file.url] = base64.b64encode(file.read_bytes()).decode()
            except FileNotFoundError:
                handed[file.url] = None
    if handed:
        spark.sparkContext.setLocalProperty(_PROPERTY, json.dumps(handed))


def _handed(file: HadoopPath) -> bytes:
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
