"""Spark's part of a checkpoint: whether it is whole, and what a process that died left behind in it.

Spark notes what it plans in ``offsets``, what is done in ``commits``, and how far each source was read in ``sources``.
Where one of these is gone it begins anew there, without a word, and passes over rows or numbers batches a second time.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

from windrow_runtime.spark.checkpoint_files import damaged_file, files_told

__all__ = ["check_source_logs", "check_spark_files", "clear_leftovers", "last_number"]

_LOGS: Final = ("offsets", "commits")
_FORMAT: Final = "v1"
_HEAD: Final = 2
_GONE: Final = "it is gone"
_RAN: Final = "batches have run"
_COMPACT: Final = ".compact"
_STATE_FILE: Final = re.compile(r"\d+(_[^.]*)?\.(zip|changelog|delta|snapshot)")


def last_number(folder: Path) -> int:
    """The highest number that a file of a log has; -1: there is none."""
    return max(_numbers(folder), default=-1)


def check_spark_files(spark: Path, newest: int, *, stateful: bool) -> None:
    """Refuse a folder of Spark's of which a part is gone, where Spark would go on as if it had never been.

    Args:
        spark: The folder.
        newest: The number of the newest batch that is known to have run; -1: none.
        stateful: Whether the query has state.

    Raises:
        CheckpointError: If so, with the file that is missing.
    """
    with files_told(spark):
        # In this order, since the query of a DataFrame may be running: Spark plans a batch when the one before is done.
        planned = _numbers(spark / "offsets")
        done = last_number(spark / "commits")
        last = max(planned, default=-1)
        has_metadata = (spark / "metadata").exists()
        has_state = any((spark / "state").glob("*"))
    if last < done:
        raise damaged_file(spark / "offsets", f"batch {done} is done, and its plan is gone")
    if last < newest:
        reason = f"batch {newest} has run, and Spark's newest plan is that of batch {last}"
        raise damaged_file(spark / "offsets" / str(newest), reason if planned else f"{_GONE}, and {_RAN}")
    if not planned:
        return
    if not has_metadata:
        raise damaged_file(spark / "metadata", f"{_GONE}, and {_RAN}")
    if last > 0 and last - 1 not in planned:
        raise damaged_file(spark / "offsets" / str(last - 1), f"{_GONE}, and batch {last} goes on from there")
    if done < last - 1:
        raise damaged_file(spark / "commits" / str(last - 1), f"{_GONE}, and batch {last} is planned")
    if stateful and done >= 0 and not has_state:
        raise damaged_file(spark / "state", f"{_GONE}, and {_RAN}")


def check_source_logs(spark: Path, sources: int) -> None:
    """Refuse a folder where what a source has read is not noted up to the newest batch.

    Spark would give the numbers that are missing to new files, and take those files for read.

    Args:
        spark: The folder.
        sources: How many sources the query has.

    Raises:
        CheckpointError: If so, with the file that is missing.
    """
    batch = last_number(spark / "offsets")
    if batch < 0:
        return
    with files_told(spark):
        lines = (spark / "offsets" / str(batch)).read_text(encoding="utf-8", errors="replace").splitlines()
    # What is not as Spark writes it is for Spark to refuse. A DataFrame may bring several sources, or one twice.
    if lines[:1] != [_FORMAT] or len(lines) != _HEAD + sources:
        return
    for number, line in enumerate(lines[_HEAD:]):
        log = spark / "sources" / str(number)
        with files_told(log):
            missing = _missing_entry(log, line)
        if missing is not None:
            raise damaged_file(log / str(missing), f"{_GONE}, and batch {batch} has read the source beyond")


def _missing_entry(log: Path, offset: str) -> int | None:
    """The first entry that a source's log lacks, or None."""
    try:
        told: Any = json.loads(offset)  # Any: as each kind of source has it
    except ValueError:
        return None  # "-": nothing was read
    names = {file.name for file in log.glob("[0-9]*")}
    if isinstance(told, dict) and set(told) == {"logOffset"}:
        last = int(told["logOffset"])
        # A compact entry holds all before it, which Spark deletes.
        compact = [int(name.removesuffix(_COMPACT)) for name in names if name.endswith(_COMPACT)]
        first = max((number for number in compact if number <= last), default=-1) + 1
        return next((number for number in range(first, last + 1) if str(number) not in names), None)
    # Kafka and the rate source note where they began.
    notes_start = isinstance(told, int) or (isinstance(told, dict) and _is_kafka(told))
    return 0 if notes_start and "0" not in names else None


def _is_kafka(offset: dict[str, Any]) -> bool:
    return bool(offset) and all(
        isinstance(partitions, dict) and all(name.isdigit() for name in partitions)
        for partitions in offset.values()
    )


def clear_leftovers(spark: Path) -> None:
    """Remove what a process that died was about to write. Called while no other run uses the folder.

    Spark refuses to begin a query where it finds such a file; so until a batch is planned, what was prepared for the
    first one goes, too. The identity of the query stays, and what the sources noted: Kafka's first offsets are to be
    those of the first start.

    Raises:
        CheckpointError: If there is state though no batch was planned, or if files cannot be removed.
    """
    with files_told(spark):
        for log in (spark / name for name in _LOGS):
            checksums = {f".{number}.crc" for number in _numbers(log)}
            for file in log.glob(".*"):
                if file.name not in checksums:
                    file.unlink(missing_ok=True)
        if any(_numbers(spark / name) for name in _LOGS):
            return
        state = next((file for file in spark.glob("state/**/*") if _STATE_FILE.fullmatch(file.name)), None)
    if state is not None:
        raise damaged_file(spark / "offsets", f"{_GONE}, and there is state in {state.relative_to(spark)}")
    with files_told(spark):
        if (spark / "state").exists():
            shutil.rmtree(spark / "state")
        if not _is_json(spark / "metadata"):
            for file in [*spark.glob("metadata"), *spark.glob(".metadata.*")]:
                file.unlink()


def _is_json(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return True


def _numbers(folder: Path) -> set[int]:
    return {int(file.name) for file in folder.glob("*") if file.name.isdigit()}
