"""Writes readings in real time, as files: ``python -m benchmarks.latency.feeder FOLDER SECONDS``.

It is a process of its own, so that the contenders, some of which run Python in the driver, do not hold it up.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["FILE_MS", "RATE", "SENSORS", "start_feeder"]

RATE: Final = 1_000  # readings a second
SENSORS: Final = 1_000
FILE_MS: Final = 100  # how much time a file holds


def start_feeder(folder: Path, seconds: int) -> subprocess.Popen[bytes]:
    """Start to write; the process ends by itself."""
    return subprocess.Popen([sys.executable, "-m", "benchmarks.latency.feeder", str(folder), str(seconds)])


def feed(folder: Path, seconds: int) -> None:
    """Write a file for each tenth of a second, when that is over; the time of a reading is that of the clock."""
    random = np.random.default_rng(20_240_501)
    names = pa.array([f"sensor-{number:07d}" for number in range(SENSORS)])
    begin = time.time_ns() // 1_000_000 // FILE_MS * FILE_MS + FILE_MS
    rows = RATE * FILE_MS // 1_000
    for number in range(seconds * 1_000 // FILE_MS):
        start = begin + number * FILE_MS
        table = pa.table(
            {
                "sensor": names.take(pa.array(random.integers(0, SENSORS, rows))),
                "at": start + np.arange(rows, dtype=np.int64) * FILE_MS // rows,
                "celsius": np.round(20 + 5 * random.standard_normal(rows), 2),
            }
        )
        time.sleep(max(0.0, (start + FILE_MS) / 1_000 - time.time()))
        hidden = folder / "_next.parquet"
        pq.write_table(table, hidden)
        os.replace(hidden, folder / f"{number:06d}.parquet")


if __name__ == "__main__":
    feed(Path(sys.argv[1]), int(sys.argv[2]))
