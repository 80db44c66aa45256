"""Reads and writes files by Hadoop's file systems, in Spark's JVM, with the settings of the session."""

from __future__ import annotations

import errno
import secrets
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from windrow.addresses.redaction import redact_address
from windrow_runtime.spark.checkpoint.storage import HadoopPath
from windrow_runtime.spark.run.background import uninterrupted

# Any in this module: objects of the JVM.

T = TypeVar("T")

_WHOLE_AT_CLOSE: Final = "fs.capability.outputstream.abortable"
"""What Hadoop calls file systems where a file is there when it is closed, and not before, such as S3A."""
_ONCE: Final = "fs.option.create.conditional.overwrite"
"""S3A's option by which the second of two writers fails; elsewhere ``overwrite(false)`` suffices."""


def open_elsewhere(spark: SparkSession, url: str) -> HadoopPath:
    """Opens a folder in a file system that the JVM of a session knows."""
    return HadoopPath(url, HadoopFiles(spark, url))


class HadoopFiles:
    """The files of one file system: :class:`~windrow_runtime.spark.checkpoint.storage.Files`."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        self._jvm: Any = jvm
        # Spark opens the checkpoint of a query with the same settings.
        self._settings = _called(lambda: spark._jsparkSession.sessionState().newHadoopConf(), url)
        self._files = _called(lambda: self._path(url).getFileSystem(self._settings), url)
        self._is_whole_at_close: bool | None = None

    def _path(self, url: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(url)

    def exists(self, url: str) -> bool:
        return bool(_called(lambda: self._files.exists(self._path(url)), url))

    def names(self, folder: str) -> list[str]:
        try:
            found = _called(lambda: self._files.listStatus(self._path(folder)), folder)
        except FileNotFoundError:
            return []
        return _called(lambda: [str(each.getPath().getName()) for each in found], folder)

    def below(self, folder: str) -> list[str]:
        def walk() -> list[str]:
            found, files = [], self._files.listFiles(self._path(folder), True)
            while files.hasNext():
                found.append(str(files.next().getPath().toString()))
            return found

        try:
            return _called(walk, folder)
        except FileNotFoundError:
            return []

    def read(self, url: str) -> bytes:
        def read() -> bytes:
            stream = self._files.open(self._path(url))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

        return _called(read, url)

    def write(self, url: str, content: bytes) -> None:
        def write() -> None:
            path = self._path(url)
            if self._is_whole_at_close is None:
                self._is_whole_at_close = bool(self._files.hasPathCapability(path, _WHOLE_AT_CLOSE))
            if self._is_whole_at_close:
                _filled(self._files.create(path, True), content)
                return
            # Elsewhere renaming is one step, and Hadoop's contexts of files alone rename onto a file that is there.
            folder, _, name = url.rpartition("/")
            temporary = self._path(f"{folder}/_{name}.{secrets.token_hex(4)}")
            _filled(self._files.create(temporary, True), content)
            rename = self._jvm.org.apache.hadoop.fs.Options.Rename
            options = self._jvm.java.lang.reflect.Array.newInstance(rename.OVERWRITE.getClass(), 1)
            options[0] = rename.OVERWRITE
            context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._files.getUri(), self._settings)
            context.rename(temporary, path, options)

        _called(write, url)

    def write_once(self, url: str, content: bytes) -> bool:
        def write() -> None:
            new = self._files.createFile(self._path(url)).recursive().overwrite(False).opt(_ONCE, True)
            _filled(new.build(), content)

        try:
            _called(write, url)
        except OSError:
            # HDFS refuses a second writer when it opens the file, S3A when it closes it. The answer may have been lost.
            if not self.exists(url):
                raise
        return self.read(url) == content

    def modified(self, url: str) -> float:
        status = _called(lambda: self._files.getFileStatus(self._path(url)), url)
        return float(status.getModificationTime()) / 1000

    def delete(self, url: str) -> bool:
        return bool(_called(lambda: self._files.delete(self._path(url), True), url))

    def make_folder(self, url: str, mode: int) -> None:
        rights = self._jvm.org.apache.hadoop.fs.permission.FsPermission
        _called(lambda: self._files.mkdirs(self._path(url), rights(mode)), url)


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
