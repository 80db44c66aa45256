"""Input: readings as parquet, made once from a seed and kept under ``benchmarks/data``."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from benchmarks.problems import BOUND_MS, LATENESS_MS, WINDOW_MS

__all__ = [
    "CLOSING_SENSOR",
    "COLD",
    "MIDDLE_CELSIUS",
    "SCHEMA",
    "WARM",
    "Dataset",
    "DatasetSpec",
    "Format",
    "Shape",
    "prepare",
]

ROOT = Path(__file__).parent / "data"
# Raised when the generator changes, so that files of an older one are not used.
VERSION = 3
SEED = 20_240_501
SCHEMA = "sensor string, at long, celsius double"
_SCHEMA = pa.schema([("sensor", pa.string()), ("at", pa.int64()), ("celsius", pa.float64())])

START_MS = 1_700_000_040_000  # a multiple of a minute, and so of every window size
# Below the watermark's delay, so that without late readings nothing is late and all contenders have one right answer.
DISORDER_MS = 500
# One reading of this sensor, far in the future, makes the last batch. It closes every other window.
CLOSING_SENSOR = "closing"
CLOSING_GAP_MS = 3_600_000

# Turns: a fifth of the sensors speaks for ten seconds, then the next, so each is silent for more than the gap.
TURN_MS = 10_000
TURNS = 5
# Late readings: most come while their window is kept, the others when it is gone for certain.
LATE_SHARE = 0.04
TOO_LATE_SHARE = 0.01
LATE_MS = (5_000, 25_000)
TOO_LATE_SPREAD_MS = 10_000
# The sensors that send half of the readings where they are skewed.
BUSY_SENSORS = 100

# The streams where there are two.
COLD = "cold"
WARM = "warm"
MIDDLE_CELSIUS = 20.0

Format = Literal["parquet", "json", "csv"]
"""How readings are written: Parquet files, files with a JSON object on each line, or CSV files with a header."""

Shape = Literal["steady", "turns", "late", "skewed", "two"]
"""How readings fall.

``steady``: every sensor at any time. ``turns``: sensors speak in turns, so that sessions end. ``late``: 4 % come 5 to
25 seconds late, 1 % when their window is gone by any rule. ``skewed``: a hundred sensors send half of the readings,
and the readings that a sensor has in a batch are in one file, so that their order is known. ``two``: as ``steady``, in
two streams, each in a folder of its own: readings below 20 degrees, and the others.
"""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """What to generate.

    Attributes:
        keys: How many sensors.
        rows_per_batch: How many readings make a micro-batch.
        batches: How many micro-batches, the closing one left out.
        files_per_batch: How many files, and so splits, a micro-batch has.
        rows_per_second: How many readings there are for a second of event time.
        shape: How they fall.
        format: How they are written.
    """

    keys: int
    rows_per_batch: int
    batches: int
    files_per_batch: int = 4
    rows_per_second: int = 10_000
    shape: Shape = "steady"
    format: Format = "parquet"

    @property
    def name(self) -> str:
        """The name of the folder."""
        return (
            f"{self.shape}{self.rows_per_second}-keys{self.keys}-rows{self.rows_per_batch}"
            f"-batches{self.batches}-files{self.files_per_batch}{'' if self.format == 'parquet' else f'-{self.format}'}"
        )

    @property
    def rows(self) -> int:
        """All readings but the closing one."""
        return self.rows_per_batch * self.batches


@dataclass(frozen=True, slots=True)
class Dataset:
    """Generated input: the specification and the folder."""

    spec: DatasetSpec
    path: Path

    def files(self, batch: int) -> list[Path]:
        """The files of a batch, in the order in which Spark takes them."""
        return sorted(self.path.rglob(f"batch{batch:03d}-*.{self.spec.format}"))

    # Any: pyarrow ships no types.
    def tables(self, batch: int) -> list[Any]:
        """The readings of a batch, a table for each of its files."""
        if self.spec.format == "parquet":
            return [pq.read_table(file) for file in self.files(batch)]
        if self.spec.format == "csv":
            types = pyarrow.csv.ConvertOptions(column_types=_SCHEMA)
            return [pyarrow.csv.read_csv(file, convert_options=types) for file in self.files(batch)]
        options = pyarrow.json.ParseOptions(explicit_schema=_SCHEMA, unexpected_field_behavior="error")
        return [pyarrow.json.read_json(file, parse_options=options) for file in self.files(batch)]


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
    names = pa.array([f"sensor-{number:07d}" for number in range(spec.keys)])
    rows = spec.rows_per_batch // spec.files_per_batch
    if rows * spec.files_per_batch != spec.rows_per_batch:
        raise ValueError(f"{spec.rows_per_batch} rows do not fill {spec.files_per_batch} files evenly")
    written = 0
    for batch in range(spec.batches):
        for file in range(spec.files_per_batch):
            # Files of a skewed batch lie side by side in time, the others one behind the other.
            side_by_side = spec.shape == "skewed"
            first = batch * spec.rows_per_batch + file if side_by_side else written
            step = spec.files_per_batch if side_by_side else 1
            progress = (first + step * np.arange(rows, dtype=np.int64)) * 1_000 // spec.rows_per_second
            sensors = _sensors(spec, file, progress, random)
            at = START_MS + progress + random.integers(0, DISORDER_MS, rows)
            if spec.shape == "late":
                at -= _delays(spec, batch, rows, random)
            celsius = np.round(20 + 5 * random.standard_normal(rows), 2)
            of_sensors = names.take(pa.array(sensors))
            for folder, mine in _streams(spec, path, celsius):
                _write(folder, batch, file, of_sensors.filter(pa.array(mine)), at[mine], celsius[mine], spec.format)
            written += rows
    end = START_MS + written * 1_000 // spec.rows_per_second + CLOSING_GAP_MS
    closing = pa.array([CLOSING_SENSOR]), np.array([end]), np.array([0.0])
    for folder, _ in _streams(spec, path, closing[2]):
        _write(folder, spec.batches, 0, *closing, spec.format)


def _streams(
    spec: DatasetSpec, path: Path, celsius: npt.NDArray[np.float64]
) -> list[tuple[Path, npt.NDArray[np.bool_]]]:
    """The folders of the streams, and which readings are in each."""
    if spec.shape != "two":
        return [(path, np.ones(len(celsius), np.bool_))]
    is_cold = celsius < MIDDLE_CELSIUS
    found = [(path / COLD, is_cold), (path / WARM, ~is_cold)]
    for folder, _ in found:
        folder.mkdir(exist_ok=True)
    return found


def _sensors(spec: DatasetSpec, file: int, progress: Numbers, random: np.random.Generator) -> Numbers:
    rows = len(progress)
    if spec.shape == "turns":
        speakers = spec.keys // TURNS
        return random.integers(0, speakers, rows) + speakers * (progress // TURN_MS % TURNS)
    sensors = random.integers(0, spec.keys, rows)
    if spec.shape == "skewed":
        busy = random.integers(0, min(BUSY_SENSORS, spec.keys), rows)
        sensors = np.where(random.random(rows) < 0.5, busy, sensors)
        sensors += file - sensors % spec.files_per_batch
    return sensors


def _delays(spec: DatasetSpec, batch: int, rows: int, random: np.random.Generator) -> Numbers:
    """How late readings are.

    Native Spark SQL judges lateness by the watermark of the batch before, windrow by that of the batch. Too late by
    both is what would have been so two batches ago. Before the third batch there is nothing that could be.
    """
    draw = random.random(rows)
    delays = np.where(draw < LATE_SHARE, random.integers(*LATE_MS, rows), 0)
    if batch >= 2:
        two_batches = 2 * spec.rows_per_batch * 1_000 // spec.rows_per_second
        gone = two_batches + LATENESS_MS + BOUND_MS + 2 * WINDOW_MS
        far = gone + random.integers(0, TOO_LATE_SPREAD_MS, rows)
        delays = np.where(draw > 1 - TOO_LATE_SHARE, far, delays)
    return delays


# Any: pyarrow ships no types.
def _write(
    path: Path, batch: int, file: int, sensors: Any, at: Numbers, celsius: npt.NDArray[np.float64], format_: Format
) -> None:
    target = path / f"batch{batch:03d}-{file}.{format_}"
    table = pa.table({"sensor": sensors, "at": at, "celsius": celsius}, _SCHEMA)
    if format_ == "parquet":
        pq.write_table(table, target)
    elif format_ == "csv":
        with target.open("w", encoding="ascii") as lines:
            lines.write("sensor,at,celsius\n")
            lines.writelines([f"{row['sensor']},{row['at']},{row['celsius']}\n" for row in table.to_pylist()])
    else:
        with target.open("w", encoding="ascii") as lines:
            lines.writelines([json.dumps(row, separators=(",", ":")) + "\n" for row in table.to_pylist()])
    # Spark's file source takes files in the order of their modification.
    modified = 1_700_000_000 + batch * 100 + file
    os.utime(target, (modified, modified))
