"""Input: readings as parquet, made once from a seed and kept under ``benchmarks/data``."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["CLOSING_SENSOR", "SCHEMA", "WINDOW_MS", "Dataset", "DatasetSpec", "prepare"]

ROOT = Path(__file__).parent / "data"
# Raised when the generator changes, so that files of an older one are not used.
VERSION = 1
SEED = 20_240_501
SCHEMA = "sensor string, at long, celsius double"

WINDOW_MS = 5_000
START_MS = 1_700_000_000_000  # a multiple of the window size
ROWS_PER_SECOND = 10_000
# Below the watermark's delay of one second, so that nothing is late and all contenders have one right answer.
DISORDER_MS = 500
# One reading of this sensor, far in the future, makes the last batch. It closes every other window.
CLOSING_SENSOR = "closing"
CLOSING_GAP_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """What to generate.

    Attributes:
        keys: How many sensors.
        rows_per_batch: How many readings make a micro-batch.
        batches: How many micro-batches, the closing one left out.
        files_per_batch: How many files, and so splits, a micro-batch has.
    """

    keys: int
    rows_per_batch: int
    batches: int
    files_per_batch: int = 4

    @property
    def name(self) -> str:
        return f"keys{self.keys}-rows{self.rows_per_batch}-batches{self.batches}-files{self.files_per_batch}"


@dataclass(frozen=True, slots=True)
class Dataset:
    """Generated input: the specification and the folder."""

    spec: DatasetSpec
    path: Path


def prepare(spec: DatasetSpec) -> Dataset:
    """The dataset, from the cache or generated."""
    path = ROOT / spec.name
    stamp = path / "_complete.json"
    wanted = json.dumps({"version": VERSION, "seed": SEED, **asdict(spec)})
    if not (stamp.exists() and stamp.read_text() == wanted):
        if path.exists():
            shutil.rmtree(path)
        path.mkdir(parents=True)
        _generate(spec, path)
        stamp.write_text(wanted)
    return Dataset(spec, path)


def _generate(spec: DatasetSpec, path: Path) -> None:
    random = np.random.default_rng((SEED, spec.keys))
    names = np.array([f"sensor-{number:06d}" for number in range(spec.keys)])
    rows = spec.rows_per_batch // spec.files_per_batch
    if rows * spec.files_per_batch != spec.rows_per_batch:
        raise ValueError(f"{spec.rows_per_batch} rows do not fill {spec.files_per_batch} files evenly")
    written = 0
    for batch in range(spec.batches):
        for file in range(spec.files_per_batch):
            progress = (written + np.arange(rows, dtype=np.int64)) * 1_000 // ROWS_PER_SECOND
            at = START_MS + progress + random.integers(0, DISORDER_MS, rows)
            sensors = names[random.integers(0, spec.keys, rows)]
            celsius = np.round(20 + 5 * random.standard_normal(rows), 2)
            _write(path, batch, file, sensors, at, celsius)
            written += rows
    end = START_MS + written * 1_000 // ROWS_PER_SECOND + CLOSING_GAP_MS
    _write(path, spec.batches, 0, np.array([CLOSING_SENSOR]), np.array([end]), np.array([0.0]))


def _write(
    path: Path,
    batch: int,
    file: int,
    sensors: npt.NDArray[np.str_],
    at: npt.NDArray[np.int64],
    celsius: npt.NDArray[np.float64],
) -> None:
    target = path / f"batch{batch:03d}-{file}.parquet"
    pq.write_table(pa.table({"sensor": sensors, "at": at, "celsius": celsius}), target)
    # Spark's file source takes files in the order of their modification.
    modified = 1_700_000_000 + batch * 100 + file
    os.utime(target, (modified, modified))
