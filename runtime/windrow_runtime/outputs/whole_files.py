"""Reads and writes windrow's own small files: completely or not at all, with a checksum, and without following links.

Others may write to a folder of results or of a checkpoint as well. A link that they put in the place of a file would
have another file read or overwritten, and a changed file would lose rows.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

_CHECKSUM_BYTES: Final = 16
_AT_ONCE: Final = 16
"""How many files are changed at the same time: a network file system or an object store answers each in its time."""
_SLOW_SECONDS: Final = 0.001
"""A change that takes longer waits for an answer; a local file system renames a file in 0.1 ms."""
# Windows has neither.
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def write_whole(file: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Write a file atomically. A link in its place is replaced, not followed.

    A ``durable`` file has its content after a power failure, too, if it is there at all.
    """
    # Several tasks may write the same: each has a temporary name of its own. Spark does not list names with an
    # underscore.
    temporary = file.with_name(f"_{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as opened:
            opened.write(content if isinstance(content, bytes) else content.encode())
            if durable:
                opened.flush()
                os.fsync(opened.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)  # may be incomplete, for example if the file system is full
        raise


def append_bytes(file: Path, content: bytes, *, create: bool = False) -> None:
    """Adds to a file, for good where power fails; raises an ``OSError`` if it is a link, or missing unless made."""
    made = os.O_CREAT if create else 0
    with open(os.open(file, os.O_WRONLY | os.O_APPEND | _NO_LINK | made, 0o666), "ab") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def read_whole(file: Path, start: int = 0) -> bytes:
    """Returns what a file has from a byte on; raises an ``OSError`` if it is missing, or a link, a pipe or a folder."""
    opened = os.open(file, os.O_RDONLY | _NO_LINK)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "not a file", str(file))
    except BaseException:
        os.close(opened)
        raise
    with open(opened, "rb") as content:
        content.seek(start)
        return content.read()


def checksum(name: str, body: bytes) -> str:
    """Returns the checksum of a file's name and content; with the name, no file can be replaced by another."""
    return blake2b(name.encode() + b"\n" + body, digest_size=_CHECKSUM_BYTES).hexdigest()


def check_no_link(path: Path) -> None:
    """Raise an ``OSError`` for a folder that is a link: windrow does not touch what it leads to."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a link stands where a folder is expected", str(path))


def change_all(change: Callable[[T], object], files: Sequence[T], few: int = _AT_ONCE) -> None:
    """Changes files, several at the same time; raises the first error, and leaves the files whose turn has not come.

    The first ``few`` are changed one by one, and so are all where threads would take longer, as in a local file system.
    """
    begun = time.perf_counter()
    for done, file in enumerate(files):
        is_slow = time.perf_counter() - begun > done * _SLOW_SECONDS
        if done >= few and is_slow and sys.platform != "emscripten":  # a browser has no threads
            with ThreadPoolExecutor(_AT_ONCE, "windrow-files") as pool:
                for _ in pool.map(change, files[done:]):
                    pass
            return
        change(file)


def clear(folder: Path) -> None:
    """Delete a folder as far as possible, or a link itself. If something remains and matters, a later call fails."""
    if folder.is_symlink():
        folder.unlink()
    # On a network file system a folder stays as long as somebody reads in it.
    shutil.rmtree(folder, ignore_errors=True)
