"""The checkpoint folder of a query: what windrow keeps there beside Spark's own files."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from windrow.errors import IncompatibleStateError, InvalidArgumentError
from windrow.plan import Step
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark.checkpoint_files import check_whole, files_told, read_description
from windrow_runtime.spark.group_state import FINGERPRINT_BYTES
from windrow_runtime.spark.key_groups import KeyGroups
from windrow_runtime.spark.paths import as_spark_path

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Checkpoint", "fingerprint_of"]

_VERSION = 1
_END = "end-of-stream"
_DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint folder.

    Attributes:
        path: The folder, on the local file system or on one that every machine has mounted.
    """

    path: Path

    @staticmethod
    def at(path: str | os.PathLike[str]) -> Checkpoint:
        """The checkpoint in a folder, which is made if it is missing.

        Raises:
            InvalidArgumentError: For a path that is not one of a mounted file system.
            CheckpointError: If the folder cannot be made.
        """
        text = os.fspath(path)
        if "://" in text and not text.startswith("file://"):
            raise InvalidArgumentError(
                "the checkpoint must be in a mounted file system",
                given=text,
                expected="a path that the driver and all workers can open",
            )
        folder = Path(text.removeprefix("file://"))
        with files_told(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return Checkpoint(folder)

    @property
    def spark_folder(self) -> str:
        """Where Spark keeps its part."""
        return as_spark_path(self.path / "spark")

    @property
    def control_folder(self) -> Path:
        """Where the runner tells the query that the stream is at its end."""
        return self.path / "control"

    @property
    def clock_folder(self) -> Path:
        """Where the time of each batch is kept, for plans whose watermark Spark cannot follow."""
        return self.path / "clock"

    def last_planned(self) -> int:
        """The number of the last batch that Spark has planned; -1: none. It may still have to be run."""
        offsets = self.path / "spark" / "offsets"
        numbers = [int(file.name) for file in offsets.glob("*") if file.name.isdigit()]
        return max(numbers, default=-1)

    @property
    def results_folder(self) -> Path:
        """Where a Spark Connect server leaves what a run collected and counted."""
        return self.path / "results"

    def folder_of(self, step: Step) -> Path:
        """Where elements of a source are kept that Spark cannot read again from elsewhere."""
        return self.path / "sources" / str(step.index)

    def check_open(self, *, drain: bool) -> None:
        """Refuse a checkpoint whose stream is at its end.

        Args:
            drain: Whether the run ends the stream. A run that failed while it did so may be followed by another that
                finishes.

        Raises:
            IncompatibleStateError: If it is.
        """
        if (self.path / _DRAINED).exists():
            raise IncompatibleStateError(
                "the checkpoint was drained: its stream is at its end",
                given=str(self.path),
                expected="a checkpoint that was not drained",
                hint="use a new checkpoint, or run(pipeline, drain=False) where the stream goes on later",
            )
        if not drain and self.is_ending:
            raise IncompatibleStateError(
                "a run failed at the end of its stream: nothing can follow but what was left to do there",
                given=str(self.path),
                expected="a run that drains",
                hint="run(pipeline) finishes; then use a new checkpoint",
            )

    @property
    def is_ending(self) -> bool:
        """Whether the stream is at its end, and something may be left to do there."""
        return (self.control_folder / _END).exists()

    def end_stream(self) -> None:
        """Say that the stream is at its end."""
        _put(self.control_folder, _END)

    def mark_drained(self) -> None:
        """Say that everything is done that was left to do at the end of the stream."""
        _put(self.path, _DRAINED)

    def query_id(self) -> str:
        """What tells the query from those of other checkpoints; the same in every run. Call :meth:`groups_for` before.

        A checkpoint that an earlier version wrote without one is given one.
        """
        file = self.path / "windrow.json"
        stored = read_description(file)
        if "id" not in stored:
            stored["id"] = uuid.uuid4().hex
            _replace(file, stored)
        return str(stored["id"])

    def groups_for(self, topology: Topology, groups: KeyGroups) -> KeyGroups:
        """The key groups of the query: those of the first run, or ``groups`` if this is the first.

        Raises:
            IncompatibleStateError: If the folder belongs to another plan, or to an unknown version.
            CheckpointError: If it is damaged.
        """
        check_whole(self.path)
        file = self.path / "windrow.json"
        shape = _shape(topology)
        if not file.exists():
            written = {
                "version": _VERSION,
                "id": uuid.uuid4().hex,
                "partitions": groups.partitions,
                "groups": groups.count // groups.partitions,
                "steps": shape,
            }
            _replace(file, written)
            return groups
        stored = read_description(file)
        if stored.get("version") != _VERSION:
            raise IncompatibleStateError(
                "the checkpoint was written by another version",
                given=stored.get("version"),
                expected=f"version {_VERSION}",
                where=str(self.path),
            )
        if stored["steps"] != shape:
            raise IncompatibleStateError(
                "the checkpoint belongs to another plan",
                given=_difference(stored["steps"], shape),
                expected="the steps with which the checkpoint began",
                where=str(self.path),
                hint="give a changed plan a checkpoint of its own",
            )
        return KeyGroups.balanced(stored["partitions"], stored["groups"])


def _replace(file: Path, content: Mapping[str, object]) -> None:
    aside = file.with_name(f"_{file.name}")
    with files_told(file.parent):
        aside.write_text(json.dumps(content, indent=1), encoding="utf-8")
        aside.replace(file)


def _put(folder: Path, name: str) -> None:
    aside = folder / f"_{name}"
    with files_told(folder):
        aside.write_text("end\n", encoding="utf-8")
        aside.rename(folder / name)


def fingerprint_of(topology: Topology) -> bytes:
    """A hash of what the stored state of a plan depends on."""
    text = json.dumps(_shape(topology), sort_keys=True)
    return blake2b(text.encode(), digest_size=FINGERPRINT_BYTES).digest()


def _shape(topology: Topology) -> dict[str, str]:
    return {step.id: f"{step.node.kind} {step.node.describe()}" for step in topology.keyed}


def _difference(stored: Mapping[str, str], now: Mapping[str, str]) -> str:
    parts = [f"{name} is new" for name in now if name not in stored]
    parts += [f"{name} is gone" for name in stored if name not in now]
    parts += [
        f"{name} was {stored[name]!r} and is {now[name]!r}"
        for name in now
        if name in stored and stored[name] != now[name]
    ]
    return "; ".join(parts)
