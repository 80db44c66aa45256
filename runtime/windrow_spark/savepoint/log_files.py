"""Copies the files of a checkpoint that tell how far its sources were read, and by which plan and which times."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from windrow.errors import UnsupportedOperationError
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_file import checkpoint_errors, damaged_file, file_numbers
from windrow_spark.clock import decode_watermark
from windrow_spark.paths import url_of_path
from windrow_spark.session import SHUFFLE_PARTITIONS

# Any in this module: what JSON holds.

_OWN_FILES: Final = ("plan", "streams", "newest-batch")
_HEAD: Final = 2
"""The lines of a file of offsets before those of sources: the version and the settings."""
_NOTHING: Final = b"-"
"""The line of a source of which nothing was read."""
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


@dataclass(frozen=True, slots=True)
class QuerySources:
    """The sources of a query in Spark's logs: those of the plan in their order, and the control folder at the end.

    Attributes:
        places: Where each source was in the logs; None: it is new.
        has_control: Whether the query has a control folder, as those with keyed steps do.
        before: How many sources of the plan the logs have.
        had_control: Whether they have a control folder.
    """

    places: Sequence[int | None]
    has_control: bool
    before: int
    had_control: bool

    @property
    def in_logs(self) -> int:
        """How many sources the logs have."""
        return self.before + self.had_control

    @property
    def wanted(self) -> Sequence[int | None]:
        """The place of each source in the logs, that of the control folder at the end."""
        control = [self.before if self.had_control else None] if self.has_control else []
        return [*self.places, *control]

    @property
    def are_others(self) -> bool:
        """Whether the logs have to be written anew."""
        return [*self.wanted] != [*range(self.in_logs)]


def fit_logs(checkpoint: Checkpoint, before: str, partitions: int, sources: QuerySources | None = None) -> None:
    """Fits copied logs to the folder of a checkpoint, to another number of partitions, and to other sources.

    ``before`` is the folder of the checkpoint from which they come. Without ``sources`` they stay as they are.
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
            if sources is not None and sources.are_others:
                offsets.write_bytes(_with_sources(offsets, sources))
        if sources is not None and sources.are_others:
            _place_logs(spark / "sources", sources.wanted)
        if not (spark / "metadata").exists():  # no state was stored, with which it would have come
            (spark / "metadata").write_text(json.dumps({"id": f"{uuid.uuid4()}"}), encoding="utf-8")


def _place_logs(logs: Path, wanted: Sequence[int | None]) -> None:
    """Gives the logs of sources their new numbers; those of sources that are gone are removed."""
    if not logs.exists():
        return
    former = logs.with_name("former-sources")
    logs.rename(former)
    logs.mkdir()
    for number, place in enumerate(wanted):
        if place is not None and (former / f"{place}").exists():
            (former / f"{place}").rename(logs / f"{number}")
    shutil.rmtree(former)


def _with_sources(offsets: Path, sources: QuerySources) -> bytes:
    """Returns a file of Spark's log of offsets with the lines of other sources; a new one has read nothing."""
    head, lines = _lines(offsets)
    if len(lines) != sources.in_logs:
        raise UnsupportedOperationError(
            "other sources cannot take the place of a stream that has several sources for Spark",
            given=f"{len(lines)} sources in {offsets}",
            expected=f"{sources.in_logs}, one for each source of the plan",
            hint="leave the sources as they were",
        )
    return b"\n".join([*head, *(_NOTHING if place is None else lines[place] for place in sources.wanted)])


def offsets_of(offsets: Path) -> list[bytes]:
    """Returns the lines of sources in a file of Spark's log of offsets."""
    return _lines(offsets)[1]


def _lines(offsets: Path) -> tuple[list[bytes], list[bytes]]:
    """Returns the first lines of a file of Spark's log of offsets, and those of sources."""
    lines = offsets.read_bytes().split(b"\n")
    return lines[:_HEAD], lines[_HEAD:]


def next_watermark(checkpoint: Checkpoint, batch: int) -> int:
    """Returns the watermark that Spark keeps for the batch after one that is done."""
    commits = Path(checkpoint.spark_path, "commits", f"{batch}")
    try:
        with checkpoint_errors(commits.parent):
            return decode_watermark(int(json.loads(commits.read_bytes().split(b"\n")[1])["nextBatchWatermarkMs"]))
    except (ValueError, LookupError, TypeError) as error:
        raise damaged_file(commits, f"{error}") from error


def _with_partitions(offsets: Path, partitions: int) -> bytes:
    """Returns a file of Spark's log of offsets with another number of partitions, by which Spark would go on."""
    head, lines = _lines(offsets)
    try:
        settings: dict[str, Any] = json.loads(head[1])
        settings["conf"][SHUFFLE_PARTITIONS] = str(partitions)
    except (ValueError, LookupError, TypeError) as error:
        raise damaged_file(offsets, f"{error}") from error
    head[1] = json.dumps(settings, separators=(",", ":")).encode()
    return b"\n".join([*head, *lines])


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
