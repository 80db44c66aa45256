"""Measures the processor time that a million rows take in each stage of a batch: ``python -m benchmarks.stages``.

A cluster runs the tasks of a stage side by side, so this is the number that more cores divide; what the driver takes
is divided by none. While a query runs, the processor time of all its processes, JVM and Python, is read twenty times
a second, and counted for the stage that Spark runs then.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Final

from benchmarks.answers import answer
from benchmarks.check import check
from benchmarks.contenders.base import Job
from benchmarks.contenders.catalogue import contender
from benchmarks.data import DatasetSpec, Format, prepare
from benchmarks.environment import environment
from benchmarks.memory import processor_seconds
from benchmarks.section import markdown_table
from benchmarks.session import spark_session
from benchmarks.workloads import DECLARED, PYTHON, TUNED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTERVAL: Final = 0.05  # seconds; all processes are listed each time
_SOURCES: Final = "sources, s"
_KEYED: Final = "keyed steps, sinks, s"
_DRIVER: Final = "driver, s"
_ROWS: Final = 1_000_000
_BATCHES: Final = 3
_KEY_GROUPS: Final = (2,)
_FORMATS: Final[tuple[Format, ...]] = ("json", "parquet")
_KEYS: Final = (1, 1_000, 100_000)  # all elements of the first have one key, the hottest that there can be


@dataclass
class StageClock:
    """Counts processor seconds by what runs, while its ``with`` block does.

    Attributes:
        seconds: By the kind of stage; what is used while no stage runs is the driver's.
    """

    spark: SparkSession
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> StageClock:
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        assert self._thread is not None, "the block has begun"
        self._thread.join()

    def _count(self) -> None:
        running, before = self._running(), processor_seconds()
        while not self._stop.wait(_INTERVAL):
            now = processor_seconds()
            self.seconds[running] += now - before
            running, before = self._running(), now

    def _running(self) -> str:
        tracker = self.spark.sparkContext.statusTracker()
        active = set(tracker.getActiveStageIds())
        if not active:
            return _DRIVER
        for number in tracker.getActiveJobsIds():
            job = tracker.getJobInfo(number)
            # The first stage of a job that shuffles is that of its sources.
            if job is not None and active & set(job.stageIds):
                return _SOURCES if len(job.stageIds) > 1 and min(job.stageIds) in active else _KEYED
        return _DRIVER


def _measure(spark: SparkSession, name: str, spec: DatasetSpec, key_groups: int) -> list[str]:
    """Returns a row of the table, of a query that runs after one that warms it up."""
    dataset = prepare(spec)
    right = answer("tumbling", dataset)
    seconds, elapsed = defaultdict[str, float](float), 0.0
    for is_warm in (False, True):
        with TemporaryDirectory(prefix="windrow-bench-") as scratch, StageClock(spark) as clock:
            begun = time.perf_counter()
            outcome = contender("tumbling", name).run(Job(spark, dataset, "parquet", Path(scratch), key_groups))
            elapsed = time.perf_counter() - begun
        check(outcome, right)
        if is_warm:
            seconds = clock.seconds
    millions = spec.rows / 1e6
    parts = [seconds[part] / millions for part in (_SOURCES, _KEYED, _DRIVER)]
    groups = str(key_groups or "")
    return [
        spec.format,
        f"{spec.keys:,}",
        name,
        groups,
        *(f"{each:.2f}" for each in parts),
        f"{elapsed / millions:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=_ROWS, help="the rows of a batch (default %(default)s)")
    parser.add_argument("--batches", type=int, default=_BATCHES, help="how many batches (default %(default)s)")
    parser.add_argument(
        "--key-groups", type=int, nargs="+", default=_KEY_GROUPS, metavar="N", help="of a shuffle partition"
    )
    options = parser.parse_args()
    print(environment().text())
    rows: list[list[str]] = []
    with spark_session() as spark:
        for format_ in _FORMATS:
            for keys in _KEYS:
                spec = DatasetSpec(keys, options.rows, options.batches, format=format_)
                jobs = [(name, each) for each in options.key_groups for name in (DECLARED, PYTHON)]
                for name, key_groups in [*jobs, (TUNED, 0)]:
                    rows.append(_measure(spark, name, spec, key_groups))
                    print("...", *rows[-1], file=sys.stderr, flush=True)
    print(markdown_table(("input", "keys", "contender", "key groups", _SOURCES, _KEYED, _DRIVER, "elapsed, s"), rows))


if __name__ == "__main__":
    main()
