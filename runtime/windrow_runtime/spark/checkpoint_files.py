"""What can be seen to be wrong with a checkpoint folder before Spark looks at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from windrow.errors import CheckpointError

__all__ = ["DESCRIPTION_VERSION", "check_whole", "damaged_file", "files_told", "read_description"]

DESCRIPTION_VERSION = 4
"""The version of what windrow notes of a plan. Those below were never released."""
_RESTORE = "restore the checkpoint folder as a whole from a copy, or begin a new one"
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


def check_whole(folder: Path) -> None:
    """Refuse a folder of which a part is gone, and where Spark would begin anew or fail without a word.

    Raises:
        CheckpointError: If so.
    """
    with files_told(folder):
        planned, done = (_batches(folder / "spark" / name) for name in ("offsets", "commits"))
        described = (folder / "windrow.json").exists()
    if (planned or done) and not described:
        raise damaged_file(folder / "windrow.json", "it is gone, and batches have run")
    if done and (not planned or max(planned) < max(done)):
        raise damaged_file(folder / "spark" / "offsets", f"batch {max(done)} is done, and its plan is gone")


def _batches(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.glob("*") if file.name.isdigit()]


def damaged_file(file: Path, reason: str) -> CheckpointError:
    """The error for a file that is not as it was written."""
    return CheckpointError(
        "the checkpoint is damaged",
        given=reason,
        expected="the folder as the runs before left it",
        where=str(file),
        hint=_RESTORE,
    )
