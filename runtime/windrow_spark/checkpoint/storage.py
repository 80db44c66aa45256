"""Opens the files of a checkpoint where they lie: in a mounted file system, or in one that Spark's JVM opens.

Windrow asks little of a file system: to write and read whole files, to write a file that nobody else has written, and
the names in a folder. A file that is written anew is there all the time where files appear when they are closed, as on
S3A, or where renaming is one step, as on HDFS. On others, such as ``abfs``, it is missing for a moment.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from windrow.addresses.redaction import redact_address
from windrow.errors import warn
from windrow_runtime.operators.errors import line_of_caller
from windrow_runtime.outputs import whole_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: objects of the JVM.

T = TypeVar("T")

Guard: TypeAlias = Callable[[Callable[[], Any]], Any]
"""Calls a function so that Ctrl-C does not interrupt it."""

_PROPERTY: Final = "windrow.files"
_WHOLE_AT_CLOSE: Final = "fs.capability.outputstream.abortable"
"""What Hadoop calls file systems where a file is there when it is closed, and not before, such as S3A."""
_ONCE: Final = "fs.option.create.conditional.overwrite"
"""S3A's option by which the second of two writers fails; elsewhere ``overwrite(false)`` suffices."""
_REPLACED: Final = ("Status Code: 412", "RemoteFileChangedException")
"""What S3A says when it opens an object with the ETag that it saw, which the object has no more."""
_READS: Final = 10  # of a file that others replace

S3A_UPLOADS: Final = "fs.s3a.optimized.copy.from.local.enabled"

ELSEWHERE_SETTINGS: Final = {
    # Hadoop's client of S3 would upload the files of state through Netty, of which Spark and Amazon's SDK have other
    # versions; the upload fails with status 100, and so does each batch.
    S3A_UPLOADS: "false"
}
"""The further settings of a query whose checkpoint lies in another file system, unless the session has others."""


class HadoopPath:
    """A path in a file system that only Spark's JVM opens, such as ``s3a://`` or ``hdfs://``.

    Its methods do what those of ``Path`` do, and raise the same errors. Workers have no JVM: there it can only be read,
    and has what the driver has handed to the tasks of the batch.
    """

    def __init__(self, url: str, opened: _Opened | None = None) -> None:
        self.url = url
        self._opened = opened  # None: in a worker

    @staticmethod
    def of(spark: SparkSession, url: str, guard: Guard) -> HadoopPath:
        """Returns the path of a URL whose scheme the session knows."""
        return HadoopPath(url, _called(lambda: _Opened.of(spark, url, guard), url, guard))

    def __reduce__(self) -> tuple[type[HadoopPath], tuple[str]]:
        return HadoopPath, (self.url,)

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
        return type(self)(url, self._opened)

    def absolute(self) -> Self:
        return self

    def is_symlink(self) -> bool:
        return False

    def _call(self, call: Callable[[_Opened, Any], T]) -> T:
        """Calls a function of the file system and the JVM's path."""
        opened = self._opened
        if opened is None:
            raise OSError(errno.ENOTSUP, "no worker opens the file system of the checkpoint", str(self))
        return _called(lambda: call(opened, opened.hadoop.Path(self.url)), self.url, opened.guard)

    def exists(self) -> bool:
        return bool(self._call(lambda opened, path: opened.files.exists(path)))

    def glob(self, pattern: str, /) -> Iterator[Self]:
        with suppress(FileNotFoundError):
            for name in self._call(
                lambda opened, path: [each.getPath().getName() for each in opened.files.listStatus(path)]
            ):
                if fnmatchcase(name, pattern):
                    yield self / name

    def rglob(self, pattern: str, /) -> Iterator[Self]:
        with suppress(FileNotFoundError):
            for url in self._call(lambda opened, path: [*_urls(opened.files.listFiles(path, True))]):
                if fnmatchcase(url.rpartition("/")[2], pattern):
                    yield self._at(url)

    def read_bytes(self) -> bytes:
        def read(opened: _Opened, path: Any) -> bytes:
            stream = opened.files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

        if self._opened is None:
            return _handed(self)
        for _ in range(_READS - 1):
            with suppress(_ReplacedError):
                return self._call(read)
        return self._call(read)

    def write(self, content: bytes) -> None:
        """Replace the whole file at once: others see its old content or the new one.

        Where Hadoop renames onto a file by deleting it first, which HDFS does not, others may see none for a moment.
        """

        def write(opened: _Opened, path: Any) -> None:
            if opened.is_whole_at_close:
                _filled(opened.files.create(path, True), content)
            else:
                opened.rename(path, content, opened.overwrite)

        self._call(write)

    def rewrite(self, content: bytes) -> None:
        """Overwrite the file without removing it from its folder; others may see it empty meanwhile."""
        self._call(lambda opened, path: _filled(opened.files.create(path, True), content))

    def write_once(self, content: bytes, *, whole: bool = False) -> bool:
        """Write a file unless it exists; returns whether it has this content, which no other writer has.

        A process that is killed meanwhile may leave it empty, unless it is written as a ``whole``.
        """

        def write(opened: _Opened, path: Any) -> None:
            if opened.is_whole_at_close or not whole:
                _filled(opened.files.createFile(path).recursive().overwrite(False).opt(_ONCE, True).build(), content)
            else:
                opened.rename(path, content, opened.keep)

        try:
            self._call(write)
        except OSError:
            # HDFS refuses a second writer when it opens the file, S3A when it closes it. The answer may have been lost.
            if not self.exists():
                raise
        return self.read_bytes() == content

    def modified(self) -> float:
        """Returns when the file was written, in seconds since 1970 by the clock of the file system."""
        return float(self._call(lambda opened, path: opened.files.getFileStatus(path).getModificationTime())) / 1000

    def unlink(self, missing_ok: bool = False) -> None:
        if not self._call(lambda opened, path: opened.files.delete(path, False)) and not missing_ok:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", str(self))

    def rename(self, target: HadoopPath) -> None:
        """Move a file or a folder to a name that nothing has; its folder is made if need be.

        Raises:
            OSError: If there is nothing to move, or the name is taken.
        """

        def rename(opened: _Opened, path: Any) -> bool:
            goal = opened.hadoop.Path(target.url)
            # An object store has no folders; others would move a folder into one that has the name.
            if not opened.is_whole_at_close:
                if opened.files.exists(goal):
                    return False
                opened.files.mkdirs(goal.getParent())
            return bool(opened.files.rename(path, goal))

        if not self._call(rename):
            raise OSError(errno.EIO, f"it cannot be moved to {target!r}", str(self))

    def clear(self) -> None:
        """Delete a folder with all that is in it."""
        self._call(lambda opened, path: opened.files.delete(path, True))

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        self._call(lambda opened, path: opened.files.mkdirs(path, opened.hadoop.permission.FsPermission(mode)))


class _ReplacedError(OSError):
    """A file was replaced by another process while S3A opened it, between its requests for the size and the content."""


@dataclass(frozen=True)
class _Opened:
    """A file system of the JVM's, and what is needed besides; Spark opens checkpoints with the same settings."""

    hadoop: Any
    settings: Any
    files: Any
    is_whole_at_close: bool
    guard: Guard
    keep: Any  # the array of options with which contexts of files rename to a name that no file has
    overwrite: Any  # that with which they, and nothing else, rename onto a file

    @staticmethod
    def of(spark: SparkSession, url: str, guard: Guard) -> _Opened:
        jvm: Any = spark.sparkContext._jvm
        hadoop = jvm.org.apache.hadoop.fs
        settings = spark._jsparkSession.sessionState().newHadoopConf()
        for name, value in unset_elsewhere(spark).items():
            settings.set(name, value)
        path = hadoop.Path(url)
        # The JVM keeps it: a file system that was opened before has the settings of then.
        files = path.getFileSystem(settings)
        rename = hadoop.Options.Rename.OVERWRITE
        keep, overwrite = (jvm.java.lang.reflect.Array.newInstance(rename.getClass(), size) for size in (0, 1))
        overwrite[0] = rename
        is_whole = bool(files.hasPathCapability(path, _WHOLE_AT_CLOSE))
        return _Opened(hadoop, settings, files, is_whole, guard, keep, overwrite)

    def rename(self, path: Any, content: bytes, options: Any) -> None:
        """Write a file beside a path, and rename it to that."""
        temporary = self.hadoop.Path(path.getParent(), f"_{path.getName()}.{secrets.token_hex(4)}")
        _filled(self.files.create(temporary, True), content)
        self.hadoop.FileContext.getFileContext(self.files.getUri(), self.settings).rename(temporary, path, options)


def _urls(files: Any) -> Iterator[str]:
    while files.hasNext():
        yield str(files.next().getPath().toString())


def _filled(stream: Any, content: bytes) -> None:
    """Write and close a file of the JVM's. It stays open if that fails, since a part of it would be there otherwise."""
    stream.write(content)
    stream.close()


def _called(call: Callable[[], T], url: str, guard: Guard) -> T:
    """Returns the result of a call to the JVM; raises its error as an ``OSError``."""
    from pyspark.errors import PySparkException

    try:
        # No signal reaches other threads.
        is_main = threading.current_thread() is threading.main_thread()
        result: T = guard(call) if is_main else call()
        return result
    except Exception as error:  # py4j's, or PySpark's in its place
        cause: Any = getattr(error, "java_exception", None)
        if cause is None and not isinstance(error, PySparkException):
            raise
        if cause is not None and cause.getClass().getName() == "java.io.FileNotFoundException":
            raise FileNotFoundError(errno.ENOENT, "there is no such file", redact_address(url)) from None
        said = str(error if cause is None else cause.toString()).splitlines()[0]
        raised = _ReplacedError if any(mark in said for mark in _REPLACED) else OSError
        raise raised(errno.EIO, said, redact_address(url)) from error


def unset_elsewhere(spark: SparkSession) -> dict[str, str]:
    """Returns the settings of a query whose checkpoint lies in another file system, but those that users have set."""
    return {
        name: value
        for name, value in ELSEWHERE_SETTINGS.items()
        if all(spark.conf.get(f"{prefix}{name}", None) is None for prefix in ("", "spark.hadoop."))
    }


def warn_of_uploads(path: HadoopPath) -> None:
    """Warn of a file system on S3 that the session has opened before with the uploads that fail for files of state."""

    def fails(opened: _Opened, path: Any) -> bool:
        before, now = (conf.getBoolean(S3A_UPLOADS, True) for conf in (opened.files.getConf(), opened.settings))
        return bool(before and not now)

    if path.url.startswith("s3a://") and path._call(fails):
        location = line_of_caller()
        warn(
            "the session has opened the file system of the checkpoint before, and may fail to store state there",
            given=f"{path!r}, opened with {S3A_UPLOADS}=true",
            where=location,
            hint=f"start the session with the setting spark.hadoop.{S3A_UPLOADS}=false",
            location=location,
        )


StoragePath: TypeAlias = Path | HadoopPath
"""A file or a folder of a checkpoint."""


def write_whole(file: StoragePath, content: str | bytes) -> None:
    """Write a file atomically. A link in its place is replaced, not followed."""
    if isinstance(file, HadoopPath):
        file.write(content if isinstance(content, bytes) else content.encode())
    else:
        whole_files.write_whole(Path(file), content)


def write_once(file: StoragePath, content: bytes) -> bool:
    """Write a file atomically; returns False if another process, which has no lock, has written it before."""
    if isinstance(file, HadoopPath):
        return file.write_once(content, whole=True)
    write_whole(file, content)
    return True


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
    """Hand the contents of files to the tasks of jobs that this thread, or a thread that it starts, runs later.

    It does so only for files that workers cannot open; without files, nothing is handed any more.
    """
    handed: dict[str, str | None] = {}
    for file in files:
        if isinstance(file, HadoopPath):
            try:
                handed[file.url] = base64.b64encode(file.read_bytes()).decode()
            except FileNotFoundError:
                handed[file.url] = None
    value = json.dumps(handed) if handed else None
    spark.sparkContext.setLocalProperty(_PROPERTY, value)  # type: ignore[arg-type]  # None removes it


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
