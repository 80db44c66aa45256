"""A file system in memory, as S3 is one for windrow: it has no folders, and times of whole seconds."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from windrow_spark.checkpoint.storage import HadoopPath

__all__ = ["MemoryFiles", "MemoryPath", "folder_in"]


class MemoryFiles:
    """Files by their URLs; ``before_read`` is called before each read, as another process that writes meanwhile."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.times: dict[str, float] = {}
        self.before_read: Callable[[str], None] = lambda url: None
        # Called while a file is deleted to rename one to it, and while one that is renamed is in both places.
        self.in_gap: Callable[[str], None] = lambda url: None
        self.fails = False
        self.fails_to_write = False


class MemoryPath(HadoopPath):
    """A path in it."""

    def __init__(self, url: str, files: MemoryFiles) -> None:
        super().__init__(url)
        self.files = files

    def _at(self, url: str) -> MemoryPath:
        return MemoryPath(url, self.files)

    def _fail(self, *, writes: bool = False) -> None:
        if self.files.fails or (writes and self.files.fails_to_write):
            raise OSError(errno.EIO, "the network is down", self.url)

    def exists(self) -> bool:
        self._fail()
        return self.url in self.files.content or any(self._below())

    def _below(self) -> list[str]:
        return [url for url in self.files.content if url.startswith(f"{self.url}/")]

    def glob(self, pattern: str, /) -> Iterator[MemoryPath]:
        self._fail()
        names = {url.removeprefix(f"{self.url}/").partition("/")[0] for url in self._below()}
        return (self / name for name in sorted(names) if fnmatchcase(name, pattern))

    def rglob(self, pattern: str, /) -> Iterator[MemoryPath]:
        return (path for path in map(self._at, self._below()) if fnmatchcase(path.name, pattern))

    def read_bytes(self) -> bytes:
        self.files.before_read(self.url)
        self._fail()
        if self.url not in self.files.content:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url)
        return self.files.content[self.url]

    def write(self, content: bytes) -> None:
        self._fail(writes=True)
        self.files.content.pop(self.url, None)
        self.files.in_gap(self.url)
        self.rewrite(content)

    def rewrite(self, content: bytes) -> None:
        self._fail(writes=True)
        self.files.content[self.url] = content
        self.files.times[self.url] = float(int(time.time()))

    def write_once(self, content: bytes, *, whole: bool = False) -> bool:
        if self.url not in self.files.content:
            self.write(content)
        return self.files.content[self.url] == content

    def modified(self) -> float:
        if self.url not in self.files.content:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url)
        return self.files.times[self.url]

    def unlink(self, missing_ok: bool = False) -> None:
        if self.files.content.pop(self.url, None) is None and not missing_ok:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url)

    def rename(self, target: HadoopPath) -> None:
        self._fail(writes=True)
        if self.url not in self.files.content or target.url in self.files.content:
            raise OSError(errno.EIO, "it cannot be moved", self.url)
        self.files.content[target.url] = self.files.content[self.url]
        self.files.in_gap(target.url)
        self.files.content.pop(self.url, None)

    def clear(self) -> None:
        for url in (self.url, *self._below()):
            self.files.content.pop(url, None)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        pass


def folder_in(files: MemoryFiles, name: str = "checkpoint") -> MemoryPath:
    """A folder of such a file system."""
    return MemoryPath(f"mem://{name}", files)
