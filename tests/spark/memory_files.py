"""A file system in memory, as S3 is one for windrow: it has no folders, and times of whole seconds."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable

from windrow_runtime.spark.checkpoint.storage import HadoopPath

__all__ = ["MemoryFiles", "folder_in"]


class MemoryFiles:
    """Files by their URLs; ``before_read`` is called before each read, as another process that writes meanwhile."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.times: dict[str, float] = {}
        self.before_read: Callable[[str], None] = lambda url: None
        self.fails = False

    def exists(self, url: str) -> bool:
        return url in self.content or any(name.startswith(f"{url}/") for name in self.content)

    def names(self, folder: str) -> list[str]:
        below = [url.removeprefix(f"{folder}/") for url in self.below(folder)]
        return sorted({path.partition("/")[0] for path in below})

    def below(self, folder: str) -> list[str]:
        return [url for url in self.content if url.startswith(f"{folder}/")]

    def read(self, url: str) -> bytes:
        self.before_read(url)
        if self.fails:
            raise OSError(errno.EIO, "the network is down", url)
        if url not in self.content:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
        return self.content[url]

    def write(self, url: str, content: bytes) -> None:
        if self.fails:
            raise OSError(errno.EIO, "the network is down", url)
        self.content[url] = content
        self.times[url] = float(int(time.time()))

    def write_once(self, url: str, content: bytes) -> bool:
        if url not in self.content:
            self.write(url, content)
        return self.content[url] == content

    def modified(self, url: str) -> float:
        return self.times[url]

    def delete(self, url: str) -> bool:
        found = [url, *self.below(url)]
        there = [self.content.pop(each) for each in found if each in self.content]
        return bool(there)

    def make_folder(self, url: str, mode: int) -> None:
        pass


def folder_in(files: MemoryFiles, name: str = "checkpoint") -> HadoopPath:
    """A folder of such a file system."""
    return HadoopPath(f"mem://{name}", files)
