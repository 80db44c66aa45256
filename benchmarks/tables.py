"""Times a million rows written to tables by workers, with one core and with two: ``python -m benchmarks.tables``.

Delta, Iceberg and PostgreSQL take the rows of one batch job, whose source is a folder of Parquet files. Each number of
cores has a session of its own, in turn. The server of PostgreSQL, and the catalog of Iceberg, run beside them on all
cores of the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.environment import environment
from benchmarks.session import spark_session
from tests.outputs.postgres import running_server
from windrow import Pipeline, from_source
from windrow.sinks import DatabaseSink, DeltaSink, IcebergSink, ParquetFileSink, Sink
from windrow.sources import ParquetFileSource
from windrow_runtime.spark import SparkRunner

_FILES: Final = 8
_ROWS: Final = 1_000_000
_ROUNDS: Final = 3


@dataclass(frozen=True)
class Reading:
    sensor: str
    number: int
    value: float


def _make(folder: Path) -> None:
    folder.mkdir()
    for file, numbers in enumerate(np.array_split(np.arange(_ROWS), _FILES)):
        sensors = pa.array(np.char.add("sensor", (numbers % 97).astype(str)).tolist())
        values = np.random.default_rng(file).normal(size=len(numbers))
        pq.write_table(pa.table({"sensor": sensors, "number": numbers, "value": values}), folder / f"{file}.parquet")


def _sinks(here: Path, server: str) -> dict[str, Callable[[int], Sink[Reading]]]:
    """The sinks, each of a table by its number."""
    catalog = {"type": "sql", "uri": f"sqlite:///{here}/catalog.db", "warehouse": f"file://{here}/warehouse"}
    return {
        "Parquet files": lambda number: ParquetFileSink(here / f"files-{number}"),
        "Delta": lambda number: DeltaSink(here / f"delta-{number}"),
        "Iceberg": lambda number: IcebergSink(f"db.t{number}", properties=catalog),
        "PostgreSQL": lambda number: DatabaseSink(server, f"t{number}"),
        "PostgreSQL, by key": lambda number: DatabaseSink(server, f"k{number}", key="number"),
    }


def _seconds(here: Path, server: str, cores: int, turn: int) -> dict[str, float]:
    """The seconds of each job, the second of two."""
    seconds: dict[str, float] = {}
    with spark_session(cores=cores) as spark:
        for name, sink in _sinks(here, server).items():
            for run in range(2):
                readings = from_source(ParquetFileSource(here / "in", Reading))
                pipeline = Pipeline("copy", readings.sink_to(sink(100 * turn + 10 * cores + run)))
                begun = time.perf_counter()
                SparkRunner(spark).run_batch(pipeline)
                seconds[name] = time.perf_counter() - begun
    return seconds


def main() -> None:
    from pyiceberg.catalog import load_catalog

    print(environment().text())
    with running_server() as postgres, tempfile.TemporaryDirectory() as folder:
        here, server = Path(folder), f"postgresql://windrow@/postgres?host={postgres}"
        password = {"PGPASSFILE": str(here / "password")}
        (here / "password").write_text("*:*:*:*:se/cr@t word\n")
        (here / "password").chmod(0o600)
        _make(here / "in")
        (here / "warehouse").mkdir()
        uri = f"sqlite:///{here}/catalog.db"
        load_catalog("default", type="sql", uri=uri, warehouse=f"file://{here}/warehouse").create_namespace("db")
        for turn in range(_ROUNDS):
            for cores in (1, 2):
                done = subprocess.run(
                    [sys.executable, "-m", "benchmarks.tables", folder, server, str(cores), str(turn)],
                    env={**os.environ, **password},
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                seconds = json.loads(done.stdout.splitlines()[-1])
                shown = "; ".join(f"{job} {_ROWS / each / 1000:,.0f}k rows/s" for job, each in seconds.items())
                print(f"{cores} {'core' if cores == 1 else 'cores'}: {shown}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(_seconds(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        main()
