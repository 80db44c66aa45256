"""Lists the files of a source in the order in which its elements come, for the interpreter and for batch jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from windrow.addresses.paths import PathGuard, check_visible, is_hidden, local_path
from windrow.addresses.patterns import listed, matches, split_pattern
from windrow.plan import Step
from windrow_runtime.inputs.checks import path_missing
from windrow_runtime.operators.errors import errors_at


def list_files(step: Step, path: str) -> dict[str, int]:
    """Returns the sizes of a path's files, by time of modification, and those of one millisecond by name.

    A streaming query reads those of one millisecond as the file system lists them; here the order is the same at each
    run. The names are absolute.
    """
    guard = PathGuard(path)
    with errors_at(step.where):
        local = local_path(path)
        check_visible(local or path)
        literal, pattern = split_pattern(local) if local is not None else ("", "")
        if not pattern and not os.path.exists(literal):
            raise path_missing(path)
        with listed(path):
            # A pattern with alternatives may match a file twice.
            files = {file for root in _roots(literal, pattern, guard) for file in _files_of(root, guard)}
            found = {file: Path(file).stat() for file in map(os.path.abspath, files)}
    order = sorted(found, key=lambda file: (found[file].st_mtime_ns // 1_000_000, file))
    return {file: found[file].st_size for file in order}


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
                if not is_hidden(entry.name):
                    if entry.is_symlink():  # all others lie where their folder lies
                        guard.check(entry.path)
                    yield from _files_of(entry.path, guard)
