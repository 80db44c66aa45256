"""Copies the files of a checkpoint that tell how far its sources were read, and by which plan and which times."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from windrow.errors import UnsupportedOperationError
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_file import checkpoint_errors, damaged_file, file_numbers
from windrow_spark.paths import url_of_path
from windrow_spark.session import SHUFFLE_PARTITIONS

# Any in this module: what JSON holds.

_OWN_FILES: Final = ("plan", "streams", "newest-batch")
_KEPT_BATCHES: Final = 2
"""The batches before the next one whose notes are copied: Spark compares the last two."""


def copy_logs(source: Checkpoint, target: Checkpoint, batch: int) -> None:
    """Copies the logs of a checkpoint as of the end of a batch; the target has no files yet.

    A batch that was planned after it, and has not begun, is copied as well: sources may have noted what it reads.
    """
    with checkpoint_errors(source.path):
        for file in _logs(source, batch):
            to = Path(target.path, file.relative_to(source.path))
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to)


def _logs(checkpoint: Checkpoint, batch: int) -> Iterator[Path]:
    own, spark = Path(checkpoint.path), Path(checkpoint.spark_path)
    yield from (own / name for name in _OWN_FILES if (own / name).exists())
    numbers = range(batch + 1 - _KEPT_BATCHES, batch + 2)
    # A run may go on meanwhile: a batch that it has done by now is to be done again, and what the offsets of a batch
    # refer to was there before them.
    of_done = numbers[:-1]
    for folder, kept in (
        (spark / "offsets", numbers),
        (spark / "commits", of_done),
        (own / "clock", numbers),
        (own / "counters", numbers),
    ):
        yield from (folder / f"{number}" for number in sorted(file_numbers(folder) & {*kept}))
    for folder in (own / "sources", spark / "sources"):
        yield from (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.startswith("."))


def fit_logs(checkpoint: Checkpoint, before: str, partitions: int) -> None:
    """Fits copied logs to the folder of a checkpoint, and to another number of partitions.

    ``before`` is the folder of the checkpoint from which they come.
    """
    spark = Path(checkpoint.spark_path)
    old, new = (f"{url_of_path(os.path.abspath(path))}/".encode() for path in (before, checkpoint.path))
    with checkpoint_errors(spark):
        for log in (spark / "sources").rglob("*"):
            if log.is_file():
                content = log.read_bytes()
                if old in content:
                    log.write_bytes(content.replace(old, new))
        for number in file_numbers(spark / "offsets"):
            offsets = spark / "offsets" / f"{number}"
            offsets.write_bytes(_with_partitions(offsets, partitions))


def _with_partitions(offsets: Path, partitions: int) -> bytes:
    """Returns a file of Spark's log of offsets with another number of partitions, by which Spark would go on."""
    lines = offsets.read_bytes().split(b"\n")
    try:
        settings: dict[str, Any] = json.loads(lines[1])
        settings["conf"][SHUFFLE_PARTITIONS] = str(partitions)
    except (ValueError, LookupError, TypeError) as error:
        raise damaged_file(offsets, f"{error}") from error
    lines[1] = json.dumps(settings, separators=(",", ":")).encode()
    return b"\n".join(lines)


def check_state_format(checkpoint: Checkpoint, batch: int) -> None:
    """Refuses state whose versions have identities, as Spark's second format of checkpoints gives them."""
    commits = Path(checkpoint.spark_path, "commits", f"{batch}")
    with checkpoint_errors(commits.parent):
        content = commits.read_bytes()
    if b"stateUniqueIds" in content and b'"stateUniqueIds":null' not in content:
        raise UnsupportedOperationError(
            "the state of the checkpoint has another format of Spark's",
            given="spark.sql.streaming.stateStore.checkpointFormatVersion = 2",
            expected="version 1, Spark's default",
            where=str(checkpoint.path),
        )
