"""Defines what file sources need of a file system, and finds the one of a path."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO, Final, Protocol

from windrow.addresses.paths import PathGuard, is_hidden, local_path
from windrow.addresses.patterns import matches, split_pattern
from windrow_runtime.connectors.files.objects import ObjectFiles
from windrow_runtime.inputs.checks import path_missing

# Any in this module: what pyarrow opens.


_LOOKED_AT: Final = 100_000
"""Of how many files and folders the sizes are looked at when a run begins; a second on a local disk."""


class FileSystem(Protocol):
    """Lists and opens files; it is sent to workers."""

    def split(self, path: str) -> tuple[str, str]:
        """Splits an absolute path before its first component that is a pattern; "": all of the path is literal."""

    def find(self, path: str, literal: str, pattern: str) -> Iterable[str]:
        """Returns the files that a source of a path reads, whose absolute form :meth:`split` has split.

        One may come twice.

        Raises:
            SourceError: If nothing has the name of a path without a pattern, or a link leads out of the path.
            OSError: If the files cannot be listed.
        """

    def modified(self, files: Collection[str]) -> dict[str, int]:
        """Returns when files were written, in milliseconds since 1970."""

    def sizes(self, files: Collection[str]) -> dict[str, int]:
        """Returns the sizes of files in bytes, 0 for those that are gone."""

    def open(self, file: str) -> BinaryIO:
        """Opens a file for reading."""

    def open_columns(self, file: str) -> Any:
        """Returns what pyarrow opens to read parts of a file: its path, or an open file."""


class MountedFiles:
    """The files of the operating system."""

    def split(self, path: str) -> tuple[str, str]:
        return split_pattern(path)

    def find(self, path: str, literal: str, pattern: str) -> Iterator[str]:
        guard = PathGuard(literal + pattern, pattern)
        if not pattern and not os.path.exists(literal):
            raise path_missing(path)
        for root in _roots(literal, pattern, guard):
            files = _files_of(root, guard)
            yield from files if root == os.path.abspath(root) else map(os.path.abspath, files)

    def modified(self, files: Collection[str]) -> dict[str, int]:
        return {file: os.stat(file).st_mtime_ns // 1_000_000 for file in files}

    def sizes(self, files: Collection[str]) -> dict[str, int]:
        return {file: _size(file) for file in files}

    def open(self, file: str) -> BinaryIO:
        return open(file, "rb")

    def open_columns(self, file: str) -> Any:
        return file


MOUNTED: Final = MountedFiles()


def files_of(path: str) -> FileSystem | None:
    """Returns the file system of a path; None: windrow does not open its files by itself."""
    return MOUNTED if local_path(path) is not None else ObjectFiles.of(path)


def has_large_file(path: str, size: int) -> bool:
    """Returns whether a mounted folder, no pattern, has a file of ``size`` bytes among the first ones."""
    absolute = os.path.abspath(local_path(path) or path)
    if split_pattern(absolute)[1]:
        return False
    return any(_has_bytes(file, size) for file in islice(visible_below(absolute), _LOOKED_AT))


def _roots(literal: str, pattern: str, guard: PathGuard) -> Iterator[str]:
    """Yields the path, or the files and folders that match the pattern."""
    if not pattern:
        yield literal
        return
    for root in matches(literal, pattern):
        guard.check(root)
        yield root


def _files_of(path: str, guard: PathGuard) -> Iterator[str]:
    """Yields the file itself, or the files of a folder and of all folders below."""
    if os.path.isfile(path):
        yield path
    elif os.path.isdir(path):
        with os.scandir(path) as entries:
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                if entry.is_symlink():  # all others lie where their folder lies
                    guard.check(entry.path)
                elif entry.is_file(follow_symlinks=False):  # as the folder says, without a call for each file
                    yield entry.path
                    continue
                yield from _files_of(entry.path, guard)


def visible_below(path: str) -> Iterator[str]:
    """Yields a path, and the files and folders below it that are not hidden."""
    yield path
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if not is_hidden(name)]
        yield from (os.path.join(folder, name) for name in (*folders, *files) if not is_hidden(name))


def _has_bytes(file: str, size: int) -> bool:
    try:
        return os.path.isfile(file) and os.path.getsize(file) >= size
    except OSError:
        return False


def _size(file: str) -> int:
    try:
        return os.path.getsize(file)
    except OSError:
        return 0  # the worker that opens it says what is wrong
