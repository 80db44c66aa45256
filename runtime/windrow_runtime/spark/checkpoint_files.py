"""Reads and writes the small files of a checkpoint folder, and tells what is wrong with them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from windrow.errors import CheckpointError

__all__ = [
    "DESCRIPTION_VERSION",
    "damaged_file",
    "files_told",
    "read_description",
    "read_number",
    "write_whole",
]

DESCRIPTION_VERSION = 4
"""The version of what windrow notes of a plan. Those below were never released."""
_RESTORE = "restore the checkpoint folder as a whole from a copy, or begin a new one"
_SHOWN = 20
_FIELDS = frozenset(
    {"version", "windrow", "id", "partitions", "groups", "fingerprint", "time", "sources", "steps"}
)


@contextmanager
def files_told(folder: Path) -> Iterator[None]:
    """Tells what cannot be read or written in a checkpoint folder.

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


def read_description(file: Path) -> dict[str, Any]:  # Any: as JSON has it
    """What windrow noted of the first run.

    Raises:
        CheckpointError: If the file cannot be read, or does not hold that.
    """
    with files_told(file.parent):
        data = file.read_bytes()
    try:
        description = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged_file(file, f"{error}") from error
    # Another version may have other fields; whoever reads them looks at the version first.
    missing = {"version"} if not isinstance(description, dict) else {"version"} - description.keys()
    if not missing and description["version"] == DESCRIPTION_VERSION:
        missing = _FIELDS - description.keys()
    if missing:
        raise damaged_file(file, f"no {', '.join(sorted(missing))}")
    checked: dict[str, Any] = description
    return checked


def read_number(file: Path) -> int | None:
    """The number of a batch that a file holds; None: there is no file.

    Raises:
        CheckpointError: If the file cannot be read, or does not hold a number.
    """
    with files_told(file.parent):
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
    if not data.strip().isdigit():
        raise damaged_file(file, f"{data[:_SHOWN]!r} is not the number of a batch")
    return int(data)


def write_whole(file: Path, text: str) -> None:
    """Write a file such that nobody sees half of it."""
    # Several tasks may write the same: each has a name of its own aside. Spark does not list names with an underscore.
    aside = file.with_name(f"_{file.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(file)


def damaged_file(file: Path, reason: str) -> CheckpointError:
    """The error for a file that is not as it was written."""
    return CheckpointError(
        "the checkpoint is damaged",
        given=reason,
        expected="the folder as the runs before left it",
        where=str(file),
        hint=_RESTORE,
    )
