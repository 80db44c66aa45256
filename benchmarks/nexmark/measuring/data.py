"""Generates the streams that the contenders read, once; a batch has a fixed number of their files."""

from __future__ import annotations

import json
import os
import shutil
from argparse import Namespace
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import ROOT
from benchmarks.nexmark.reference.generate import generate

__all__ = ["BATCH_EVENTS", "FEWEST_BATCHES", "FILES_PER_BATCH", "STREAMS", "Data", "prepare"]

# Any in this module: pyarrow ships no types.

BATCH_EVENTS: Final = 250_000
FEWEST_BATCHES: Final = 4
FILES_PER_BATCH: Final = 4
STREAMS: Final = ("person", "auction", "bid")

_RATE: Final = 1_000
_DISORDER_MS: Final = 2_000
# Far behind all windows of the queries, one that holds all times of the data included.
_CLOSING_MS: Final = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp() * 1_000)
_CLOSING_FILE: Final = "99999.parquet"
_FIRST_MODIFIED: Final = 1_700_000_000


@dataclass(frozen=True)
class Data:
    """A folder of streams.

    Attributes:
        path: The folder.
        events: How many events the streams have together.
        batches: Into how many micro-batches they are cut.
    """

    path: Path
    events: int
    batches: int

    @property
    def events_per_batch(self) -> int:
        """How many events each batch has."""
        return self.events // self.batches

    @property
    def closed(self) -> Path:
        """The same streams, each with an event behind it that is so late that its watermark closes every window."""
        return self.path / "closed"

    @cached_property
    def manifest(self) -> dict[str, int]:
        """What the generator says about the data."""
        found: dict[str, int] = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        return found


def prepare(events: int, *, batches: int | None = None) -> Data:
    """Generate data, unless it is there.

    Args:
        events: How many events to make, at least; as many more as make files of equal size.
        batches: How many batches to make; by default as many as have 250,000 events each, and four at least.
    """
    wanted = batches or max(FEWEST_BATCHES, round(events / BATCH_EVENTS))
    files = wanted * FILES_PER_BATCH
    events = -(-events // files) * files
    data = Data(ROOT / "nexmark" / f"events{events}-batches{wanted}", events, wanted)
    if not data.path.exists():
        unfinished = data.path.with_name(f"{data.path.name}-{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        # One burst: windows close in each batch, and no leap of time lets a batch close what several others hold.
        arguments = {"rate": _RATE, "bursts": 1, "disorder_ms": _DISORDER_MS}
        generate(Namespace(out=unfinished, events=events, seed=1, files=files, **arguments))
        for stream in STREAMS:
            _finish(unfinished / stream, unfinished / "closed" / stream)
        unfinished.rename(data.path)
    return data


def _finish(stream: Path, closed: Path) -> None:
    """Give the files the order of their names, in which Spark takes them, and make the stream that is closed."""
    closed.mkdir(parents=True)
    files = sorted(stream.iterdir())
    for number, file in enumerate(files):
        os.utime(file, (_FIRST_MODIFIED + number,) * 2)
        (closed / file.name).hardlink_to(file)
    schema = pq.read_schema(files[0])
    target = closed / _CLOSING_FILE
    pq.write_table(pa.Table.from_pylist([_closing(schema)], schema), target)
    os.utime(target, (_FIRST_MODIFIED + len(files),) * 2)


def _closing(schema: Any) -> dict[str, object]:
    """The last event of a stream, which has no partner in any other: its ids are negative and all different."""
    times = {"date_time", "expires"}
    return {
        field.name: "" if pa.types.is_string(field.type) else _CLOSING_MS if field.name in times else -1 - number
        for number, field in enumerate(schema)
    }
