"""The archives of kept checkpoints: which pipelines they are of, and how a checkpoint is taken out of one."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.kafka.topics import Topics
from tests.spark.checkpoints import joined, kept, paged, topics
from tests.spark.comparison import Outputs
from windrow import Pipeline

__all__ = [
    "COLLECTED",
    "INPUT",
    "KEPT",
    "ROOT",
    "TOPIC_ID",
    "Kept",
    "archive_of",
    "archives",
    "kept_of",
    "plain",
    "unpack",
]

_FOLDER = Path(__file__).parent
_SUFFIX = ".tar.xz"
ROOT = "@CHECKPOINT@"
"""Stands in the archive where Spark notes the absolute path of the checkpoint."""
TOPIC_ID = "@TOPIC-ID@"
"""Stands in the archive where offsets hold the id of the topic that was read, which a broker draws."""
COLLECTED = "collected.json"
"""The file of the archive with what the first run gave."""
INPUT = "input"
"""The folder for files that a pipeline reads. It is in that of the checkpoint, so that its path is known, too."""


_Made: TypeAlias = Callable[[Path, str], tuple[Pipeline, Outputs]]


@dataclass(frozen=True)
class Kept:
    """A pipeline with a kept checkpoint.

    Attributes:
        partitions: In how many partitions the first run had its state.
        key_groups: In how many key groups each of them.
        half: The pipeline over what the first run read, and its outputs. Takes the folder of the checkpoint, and where
            the broker answers, if it needs one.
        whole: The same over what both runs read.
        needs_broker: Whether it reads a topic.
    """

    partitions: int
    key_groups: int
    half: _Made
    whole: _Made
    needs_broker: bool = False


KEPT = {
    "kept": Kept(
        2,
        2,
        lambda folder, _: kept.pipeline(kept.READINGS[: kept.HALF]),
        # Two batches more, in which each step has something to say.
        lambda folder, _: kept.pipeline(kept.READINGS[: kept.HALF + 8]),
    ),
    "paged": Kept(
        1,
        1,
        lambda folder, _: paged.pipeline(folder / INPUT, paged.HALF),
        lambda folder, _: paged.pipeline(folder / INPUT, paged.FILES),
    ),
    "joined": Kept(
        1,
        1,
        lambda folder, _: joined.pipeline(folder / INPUT, joined.HALF),
        lambda folder, _: joined.pipeline(folder / INPUT, joined.FILES),
    ),
    "topics": Kept(
        1,
        2,
        lambda _, servers: topics.begin(servers),
        lambda _, servers: topics.pipeline(servers, topics.READINGS),
        needs_broker=True,
    ),
}
"""The pipelines, by the name that archives begin with."""


def archive_of(name: str, windrow: str, spark: str) -> Path:
    """The archive of a pipeline, made by these versions."""
    return _FOLDER / f"{name}-windrow-{windrow}-spark-{spark}{_SUFFIX}"


def archives() -> list[Path]:
    """All that are kept."""
    return sorted(_FOLDER.glob(f"*{_SUFFIX}"))


def kept_of(archive: Path) -> Kept:
    """The pipeline of an archive; skips the test where Spark is older than the one that made it."""
    name, _, _, _, made_by = archive.name.removesuffix(_SUFFIX).rsplit("-", 4)
    if _release(metadata.version("pyspark")) < _release(made_by):
        pytest.skip("Spark reads no checkpoints of a newer Spark")
    return KEPT[name]


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def unpack(archive: Path, folder: Path, servers: str = "") -> None:
    """Put a kept checkpoint into a folder, as if it had been made there, of topics that this broker has."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    marks = {ROOT: str(folder)}
    if servers:
        topics.make(servers)
        marks[TOPIC_ID] = Topics(servers, "").id_of(topics.IN)
    for file in folder.rglob("*"):
        if file.is_file():
            content = changed = file.read_bytes()
            for mark, text in marks.items():
                changed = changed.replace(mark.encode(), text.encode())
            if changed != content:
                file.write_bytes(changed)


# Any: what JSON holds.
def plain(found: dict[str, Any]) -> Any:
    """As JSON gives it back: lists for tuples, keys as text."""
    return json.loads(json.dumps(found))
