"""The first batch of a program: ``python -m benchmarks.first_batch``.

The demo's pipeline, and a query of tuned Spark SQL that does what one of its two steps does, each in a process of its
own, so that Java, Spark and the Python workers are new.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.environment import environment
from benchmarks.workloads import TUNED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["main"]

_ROOT = Path(__file__).parent.parent
_READINGS = _ROOT / "examples" / "data" / "readings"
_ROUNDS = 3


def _native(spark: SparkSession, folder: Path) -> None:
    from pyspark.sql import functions as f

    from benchmarks.tuning import tuned

    readings = spark.readStream.schema("sensor string, at timestamp, celsius double")
    windows = (
        readings.option("maxFilesPerTrigger", 1)
        .json(str(_READINGS))
        .withWatermark("at", "3 seconds")
        .groupBy(f.window("at", "5 seconds"), "sensor")
    )
    coldest = windows.agg(f.min_by("at", "celsius"), f.min("celsius"))
    writer = coldest.writeStream.format("json").outputMode("append").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    with tuned(spark):
        query = writer.start(str(folder / "out"))
        query.awaitTermination()


def _windrow(spark: SparkSession, folder: Path) -> None:
    from examples import sensor_min
    from windrow_runtime.spark import SparkRunner

    SparkRunner(spark).run(sensor_min.build(_READINGS, folder / "out").pipeline)


_CONTENDERS: dict[str, Callable[[SparkSession, Path], None]] = {TUNED: _native, "windrow": _windrow}


def _be_child(name: str) -> None:
    """Run one of them on the session that a runner makes, and print what Spark says of its batches."""
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

    from windrow_spark.session import local_session

    begun = time.perf_counter()
    seconds: list[float] = []
    first: list[float] = []
    over = threading.Event()

    class Watch(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  Spark's name
            pass

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            seconds.append(event.progress.durationMs["triggerExecution"] / 1_000)
            if not first:
                first.append(time.perf_counter() - begun)

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
            over.set()

    spark = local_session(2)
    spark.streams.addListener(Watch())
    with TemporaryDirectory(prefix="windrow-first-") as folder:
        _CONTENDERS[name](spark, Path(folder))
        over.wait(30)
    print(json.dumps({"first": seconds[0], "later": median(seconds[2:]), "from start": first[0]}))
    spark.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both in turn, and print the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_batch", description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help=f"how often each runs (default {_ROUNDS})")
    parser.add_argument("--child", choices=_CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child is not None:
        _be_child(options.child)
        return 0
    print(environment().text(), flush=True)
    # Python compiles a module once, not for each process.
    system = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in _CONTENDERS}
    for _ in range(options.rounds):
        for name, runs in found.items():
            command = [sys.executable, "-m", "benchmarks.first_batch", "--child", name]
            told = subprocess.run(
                command, cwd=_ROOT, env=system, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
            )
            runs.append(json.loads(told.stdout.splitlines()[-1]))
    print("\n| contender | first batch s | x tuned | from the start of the program s | a later batch s |")
    print("|---|---:|---:|---:|---:|")
    native = median(run["first"] for run in found[TUNED])
    for name, runs in found.items():
        first, start, later = (median(run[key] for run in runs) for key in ("first", "from start", "later"))
        print(f"| {name} | {first:.2f} | {first / native:.2f} | {start:.2f} | {later:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
