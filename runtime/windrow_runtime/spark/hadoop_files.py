"""Reads and writes files by Hadoop's file systems, in Spark's JVM, with the settings of the session."""

from __future__ import annotations

import errno
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from windrow.addresses.redaction import redact_address
from windrow_runtime.spark.checkpoint.storage import RemotePath
from windrow_runtime.spark.run.background import uninterrupted

# Any in this module: objects of the JVM.

T = TypeVar("T")

_WHOLE_AT_CLOSE: Final = "fs.capability.outputstream.abortable"
"""What Hadoop calls file systems where a file is there when it is closed, and not before, such as S3A."""
_ONCE: Final = "fs.option.create.conditional.overwrite"
"""S3A's option by which the second of two writers fails; elsewhere ``overwrite(false)`` suffices."""


class HadoopPath(RemotePath):
    """A path that the JVM of a session opens."""

    def __init__(self, url: str, opened: _Opened) -> None:
        super().__init__(url)
        self._opened = opened

    @staticmethod
    def of(spark: SparkSession, url: str) -> HadoopPath:
        """Returns the path of a URL whose scheme the session knows."""
        return HadoopPath(url, _called(lambda: _Opened.of(spark, url), url))

    def _at(self, url: str) -> HadoopPath:
        return HadoopPath(url, self._opened)

    def _call(self, call: Callable[[Any, Any], T]) -> T:
        """Calls a function of the file system and the JVM's path."""
        return _called(lambda: call(self._opened.files, self._opened.path(self.url)), self.url)

    def exists(self) -> bool:
        return bool(self._call(lambda files, path: files.exists(path)))

    def glob(self, pattern: str, /) -> Iterator[HadoopPath]:
        with suppress(FileNotFoundError):
            for name in self._call(lambda files, path: [each.getPath().getName() for each in files.listStatus(path)]):
                if fnmatchcase(name, pattern):
                    yield self / name

    def rglob(self, pattern: str, /) -> Iterator[HadoopPath]:
        with suppress(FileNotFoundError):
            for url in self._call(lambda files, path: [*_urls(files.listFiles(path, True))]):
                if fnmatchcase(url.rpartition("/")[2], pattern):
                    yield self._at(url)

    def read_bytes(self) -> bytes:
        def read(files: Any, path: Any) -> bytes:
            stream = files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

        return self._call(read)

    def write(self, content: bytes) -> None:
        if self._opened.is_whole_at_close:
            self._call(lambda files, path: _filled(files.create(path, True), content))
            return
        # Elsewhere renaming is one step.
        temporary = self.parent / f"_{self.name}.{secrets.token_hex(4)}"
        temporary._call(lambda files, path: _filled(files.create(path, True), content))
        self._call(lambda files, path: self._opened.replace(temporary.url, path))

    def write_once(self, content: bytes) -> bool:
        def write(files: Any, path: Any) -> None:
            _filled(files.createFile(path).recursive().overwrite(False).opt(_ONCE, True).build(), content)

        try:
            self._call(write)
        except OSError:
            # HDFS refuses a second writer when it opens the file, S3A when it closes it. The answer may have been lost.
            if not self.exists():
                raise
        return self.read_bytes() == content

    def modified(self) -> float:
        return float(self._call(lambda files, path: files.getFileStatus(path).getModificationTime())) / 1000

    def unlink(self, missing_ok: bool = False) -> None:
        if not self._call(lambda files, path: files.delete(path, False)) and not missing_ok:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", str(self))

    def clear(self) -> None:
        self._call(lambda files, path: files.delete(path, True))

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        self._call(lambda files, path: files.mkdirs(path, self._opened.rights(mode)))


@dataclass(frozen=True)
class _Opened:
    """A file system of the JVM's, and what is needed besides; Spark opens checkpoints with the same settings."""

    hadoop: Any
    settings: Any
    files: Any
    is_whole_at_close: bool
    overwrite: Any  # the array of options with which contexts of files, and nothing else, rename onto a file

    @staticmethod
    def of(spark: SparkSession, url: str) -> _Opened:
        jvm: Any = spark.sparkContext._jvm
        hadoop = jvm.org.apache.hadoop.fs
        settings = spark._jsparkSession.sessionState().newHadoopConf()
        path = hadoop.Path(url)
        files = path.getFileSystem(settings)
        rename = hadoop.Options.Rename.OVERWRITE
        overwrite = jvm.java.lang.reflect.Array.newInstance(rename.getClass(), 1)
        overwrite[0] = rename
        return _Opened(hadoop, settings, files, bool(files.hasPathCapability(path, _WHOLE_AT_CLOSE)), overwrite)

    def path(self, url: str) -> Any:
        return self.hadoop.Path(url)

    def rights(self, mode: int) -> Any:
        return self.hadoop.permission.FsPermission(mode)

    def replace(self, url: str, path: Any) -> None:
        """Rename a file onto another one."""
        context = self.hadoop.FileContext.getFileContext(self.files.getUri(), self.settings)
        context.rename(self.path(url), path, self.overwrite)


def _urls(found: Any) -> Iterator[str]:
    while found.hasNext():
        yield str(found.next().getPath().toString())


def _filled(stream: Any, content: bytes) -> None:
    """Write and close a file of the JVM's. It stays open if that fails, since a part of it would be there otherwise."""
    stream.write(content)
    stream.close()


def _called(call: Callable[[], T], url: str) -> T:
    """Returns the result of a call to the JVM, which Ctrl-C does not interrupt; raises its error as an ``OSError``."""
    try:
        # No signal reaches other threads.
        is_main = threading.current_thread() is threading.main_thread()
        return uninterrupted(call) if is_main else call()
    except Exception as error:  # py4j's, or PySpark's in its place
        cause: Any = getattr(error, "java_exception", None)
        if cause is None and not isinstance(error, PySparkException):
            raise
        if cause is not None and cause.getClass().getName() == "java.io.FileNotFoundException":
            raise FileNotFoundError(errno.ENOENT, "there is no such file", redact_address(url)) from None
        said = str(error if cause is None else cause.toString()).splitlines()[0]
        raise OSError(errno.EIO, said, redact_address(url)) from error
