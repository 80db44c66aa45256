"""Reads and writes small files of windrow's own: whole or not at all, with a checksum, and without following links.

A folder of results or of a checkpoint may be one that others write to as well. A link that they put in the place of a
file would have another file read or overwritten, and a changed file would lose rows.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from hashlib import blake2b
from pathlib import Path
from typing import Final

_CHECKSUM_BYTES: Final = 16
# Windows has neither.
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file such that nobody sees half of it. A link in its place is replaced, and leads nowhere meanwhile."""
    # Several tasks may write the same: each has a temporary name of its own. Spark does not list names with an
    # underscore.
    temporary = file.with_name(f"_{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as opened:
            opened.write(content if isinstance(content, bytes) else content.encode())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)  # such as a part of it, where the file system is full
        raise


def read_whole(file: Path) -> bytes:
    """Returns the content of a file; raises an ``OSError`` where there is none, or a link, a pipe or a folder."""
    opened = os.open(file, os.O_RDONLY | _NO_LINK)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "not a file", str(file))
    except BaseException:
        os.close(opened)
        raise
    with open(opened, "rb") as content:
        return content.read()


def checksum(name: str, body: bytes) -> str:
    """The checksum of a file: of its name, so that no file passes for another, and of its content."""
    return blake2b(name.encode() + b"\n" + body, digest_size=_CHECKSUM_BYTES).hexdigest()


def check_no_link(path: Path) -> None:
    """Refuse a link in the place of a folder with an ``OSError``: what lies behind it is none of ours."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a link stands where a folder is expected", str(path))


def clear(folder: Path) -> None:
    """Delete a folder, or what can be of it; of a link, the link. What is in the way later raises there."""
    if folder.is_symlink():
        folder.unlink()
    # On a network file system a folder stays as long as somebody reads in it.
    shutil.rmtree(folder, ignore_errors=True)
