"""A third pipeline whose checkpoint is kept: a join on columns, whose rows lie in segments. Do not change it.

Where the first run ends its one key group has segments of both sides, of two levels, and a tail. Names of sensors are
long and random, so that few rows make a segment. The last files bring keys that every segment has, and a new one.
"""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha512
from pathlib import Path

from tests.spark.comparison import Outputs, millis
from windrow import Pipeline, WatermarkStrategy, from_source, joins
from windrow.sources import ParquetFileSource

__all__ = ["FILES", "HALF", "pipeline"]

FILES = 14
"""How many files each source has. A batch has one of each."""
HALF = 12
_SENSORS = 200


@dataclass(frozen=True)
class Reading:
    sensor: str
    at: int
    number: int


@dataclass(frozen=True)
class Pair:
    sensor: str
    left: int
    right: int


def pipeline(folder: Path, files: int) -> tuple[Pipeline, Outputs]:
    """The pipeline over the first so many files of each source, which are written to a folder."""
    outputs = Outputs()
    left, right = (
        from_source(
            ParquetFileSource(str(folder / name), Reading, files_per_batch=1), name=name
        ).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(millis(50)), timestamp=lambda reading: reading.at
        )
        for name in ("left", "right")
    )
    for number in range(files):
        _write(folder / "left", number, number * 1_000)
        _write(folder / "right", number, number * 1_000 + 400)
    pairs = (
        left.key_by(lambda reading: reading.sensor)
        .interval_join(right.key_by(lambda reading: reading.sensor))
        .between(millis(-60_000), millis(60_000))
        .apply(
            joins.into(
                Pair,
                joins.left(lambda reading: reading.sensor),
                joins.left(lambda reading: reading.number),
                joins.right(lambda reading: reading.number),
            ),
            name="pairs",
        )
    )
    # Of two sources that a batch reads, either may come first.
    outputs.add("pairs", pairs.map(lambda pair: (pair.sensor, pair.left, pair.right)), key=repr)
    return outputs.pipeline("joined"), outputs


def _write(folder: Path, file: int, at: int) -> None:
    """A file of readings: one of each sensor of some."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sensors = [each for each in range(_SENSORS) if each % 4 == file % 4 or file >= HALF]
    folder.mkdir(parents=True, exist_ok=True)
    columns = {
        "sensor": pa.array([b64encode(sha512(str(each).encode()).digest()[:48]).decode() for each in sensors]),
        "at": pa.array([at + each for each in sensors], pa.int64()),
        "number": pa.array([file * 1_000 + each for each in sensors], pa.int64()),
    }
    path = folder / f"{file}.parquet"
    pq.write_table(pa.table(columns), path)
    # A source takes the oldest file first.
    os.utime(path, (1_600_000_000 + file,) * 2)
