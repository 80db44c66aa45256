"""Reads what is noted in names and in small files of a checkpoint folder, and tells what is wrong with the folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windrow.errors import CheckpointError

__all__ = [
    "checkpoint_errors",
    "damaged_file",
    "file_numbers",
    "read_number",
]

_RESTORE = "restore the checkpoint folder as a whole from a copy, or begin a new one"
_SHOWN = 20
_NUMBER = re.compile(rb"\s*([0-9]{1,18})\s*")


@contextmanager
def checkpoint_errors(folder: Path) -> Iterator[None]:
    """Turns what cannot be read or written in a checkpoint folder into an error that says so.

    Raises:
        CheckpointError: For every ``OSError``.
    """
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            "the checkpoint cannot be read or written",
            given=f"{error}",
            expected="a folder with space left, which this user may read and write",
            where=str(folder),
            hint="mend that and run again: what was done before is still there",
        ) from error


def file_numbers(folder: Path, prefix: str = "", suffix: str = "") -> set[int]:
    """The numbers by which files of a folder are named, between a prefix and a suffix. Other names are left out."""
    name = re.compile(rf"{re.escape(prefix)}([0-9]{{1,18}}){re.escape(suffix)}")
    found = (name.fullmatch(file.name) for file in folder.glob("*"))
    return {int(match[1]) for match in found if match is not None}


def read_number(file: Path) -> int | None:
    """The number of a batch that a file holds; None: there is no file.

    Raises:
        CheckpointError: If the file cannot be read, or does not hold a number.
    """
    with checkpoint_errors(file.parent):
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
    number = _NUMBER.fullmatch(data)
    if number is None:
        raise damaged_file(file, f"{data[:_SHOWN]!r} is not the number of a batch")
    return int(number[1])


def damaged_file(file: Path, reason: str) -> CheckpointError:
    """The error for a file that is not as it was written."""
    return CheckpointError(
        "the checkpoint is damaged",
        given=reason,
        expected="the folder as the runs before left it",
        where=str(file),
        hint=_RESTORE,
    )
