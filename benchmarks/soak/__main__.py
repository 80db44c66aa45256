"""A long run at a steady rate: ``python -m benchmarks.soak --minutes 10``. Does anything grow that should not?"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.environment import environment
from benchmarks.growth.live import BatchFigures, figures_of
from benchmarks.memory import resident
from benchmarks.section import Claim, Section
from benchmarks.session import spark_session
from benchmarks.soak.feeder import Feeder
from benchmarks.soak.flatness import HEADER, Sample, flat_claims
from benchmarks.soak.pipeline import TIME_TO_LIVE_SECONDS, Counts, soak_pipeline
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from windrow_runtime.spark import RunningPipeline

__all__ = ["main"]

_DRAIN_TIMEOUT_SECONDS = 300
# The record of the key group with the one user who closes all windows.
_ROWS_LEFT = 1


class Soak:
    """One long run.

    Args:
        spark: The session.
        folder: An empty folder.
        rate: Events a second.
        sample_seconds: How often to look.
    """

    def __init__(self, spark: SparkSession, folder: Path, rate: int, sample_seconds: float) -> None:
        self._spark = spark
        self._folder = folder
        self._sample_seconds = sample_seconds
        self._counts = Counts()
        self._seen = -1
        self._rows_read = 0
        self._last: BatchFigures | None = None
        incoming = folder / "incoming"
        incoming.mkdir()
        self._feeder = Feeder(incoming, rate)
        self.samples: list[Sample] = []
        pipeline = soak_pipeline(incoming, folder / "sessions", self._counts)
        runner = SparkRunner(spark, checkpoint=folder / "checkpoint")
        self._running: RunningPipeline = runner.start(pipeline, interval_seconds=1.0)

    def run(self, seconds: float) -> list[Claim]:
        """Run for so long, then let everything come to its end; gives what was found."""
        try:
            # Spark compiles, and workers import, in the first batch; the time begins behind it.
            self._feeder.write_second()
            while not self._rows_read:
                self._running.await_termination(0.5)
                self._batches()
            self._feeder.send_late = True
            with self._feeder:
                self._sample_until(seconds)
            claims = [*flat_claims(self.samples), *self._drain()]
        finally:
            result = self._running.stop()
        # The tumbling windows drop them, and nearly every batch has some.
        dropped = result.counter("late_records_dropped")
        text = f"{dropped:,} late events were counted of {self._feeder.late:,}"
        return [*claims, Claim(text, dropped == self._feeder.late)]

    def _sample_until(self, seconds: float) -> None:
        begin = time.monotonic()
        count = max(1, round(seconds / self._sample_seconds))
        for number in range(1, count + 1):
            self._running.await_termination(max(0.1, begin + number * self._sample_seconds - time.monotonic()))
            self.samples.append(self._sample(time.monotonic() - begin))
            print("  ".join(self.samples[-1].cells()), file=sys.stderr, flush=True)

    def _sample(self, seconds: float) -> Sample:
        batches = self._batches()
        self._feeder.forget(self._rows_read)
        memory, last = resident(), self._last
        assert last is not None, "there was a batch before the first sample"
        return Sample(
            seconds=seconds,
            jvm=memory.jvm,
            heap=_live_heap(self._spark),
            python=memory.python,
            objects=_live_objects(),
            workers=memory.workers,
            batch=median(batch.seconds for batch in batches) if batches else self._sample_seconds,
            batches=len(batches),
            waiting=self._feeder.rows - self._rows_read,
            state_rows=last.state_rows,
            state_mib=last.state_mib,
            open_windows=self._feeder.windows_opened - self._counts.windows,
            checkpoint_files=sum(1 for file in (self._folder / "checkpoint").rglob("*") if file.is_file()),
            load=os.getloadavg()[0],
        )

    def _batches(self) -> list[BatchFigures]:
        # A trigger that finds nothing to do is reported too, under the number of the batch that comes next.
        reports = (
            figures_of(progress)
            for progress in self._running.streaming_query.recentProgress
            if "addBatch" in progress.durationMs
        )
        batches = [batch for batch in reports if batch.number > self._seen]
        if batches:
            self._last = batches[-1]
            self._seen = self._last.number
            self._rows_read += sum(batch.input_rows for batch in batches)
        return batches

    def _drain(self) -> list[Claim]:
        """Close all windows, wait until state has expired, and see what is left."""
        self._running.process_available()
        self._feeder.close_windows()
        self._running.process_available()
        deadline = time.monotonic() + TIME_TO_LIVE_SECONDS + _DRAIN_TIMEOUT_SECONDS
        while True:
            self._batches()
            assert self._last is not None, "there were batches"
            if self._last.state_rows <= _ROWS_LEFT or time.monotonic() > deadline:
                break
            self._running.await_termination(0.5)
        counts, feeder, left = self._counts, self._feeder, self._last
        return [
            Claim(
                f"{left.state_rows} rows of state are left, {left.state_mib:.3f} MiB (at most {_ROWS_LEFT} rows)",
                left.state_rows <= _ROWS_LEFT,
            ),
            Claim(
                f"{counts.windows:,} tumbling windows fired of {feeder.windows_opened:,}",
                counts.windows == feeder.windows_opened,
            ),
            Claim(f"{counts.late:,} late events came out of {feeder.late:,}", counts.late == feeder.late),
        ]


def _live_heap(spark: SparkSession) -> float:
    """What the JVM's heap holds behind a collection, in MiB."""
    # Resident memory does not tell a heap that fills from one that was taken and is empty.
    assert spark.sparkContext._jvm is not None, "an embedded session has a JVM"
    bean = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    bean.gc()
    return float(bean.getHeapMemoryUsage().getUsed()) / 2**20


def _live_objects() -> int:
    """The containers in this process behind a collection: what is kept of a batch is too little to be seen in MiB."""
    gc.collect()
    # Python lists some of the tuples, now more of them and now fewer.
    return sum(type(found) is not tuple for found in gc.get_objects())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the samples and what they show; 1 if something grows or is left behind."""
    options = _parse(arguments)
    where = environment()
    # A heap of a gigabyte is soon taken as a whole, so that what grows then is a leak.
    settings = {"spark.driver.memory": "1g", "spark.sql.streaming.minBatchesToRetain": "10"}
    with (
        spark_session(settings) as spark,
        TemporaryDirectory(prefix="windrow-soak-", ignore_cleanup_errors=True) as folder,
    ):
        soak = Soak(spark, Path(folder), options.rate, options.sample_seconds)
        claims = soak.run(options.minutes * 60)
    section = Section("soak", f"{options.minutes:g} minutes, {options.rate:,} events a second", HEADER, claims=claims)
    section.rows.extend(sample.cells() for sample in soak.samples)
    print(f"{where.text()}\n\n{section.text()}")
    if options.json is not None:
        content = {
            "environment": asdict(where),
            "rate": options.rate,
            "samples": [asdict(sample) for sample in soak.samples],
            "claims": [asdict(claim) for claim in claims],
        }
        options.json.write_text(json.dumps(content, indent=2) + "\n")
    return 0 if all(claim.holds for claim in claims) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--rate", type=int, default=500, metavar="ROWS", help="events a second (default 500)")
    parser.add_argument(
        "--sample-seconds", type=float, default=30.0, metavar="S", help="how often to look (default 30)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args(arguments)
    if options.rate < 1 or options.minutes <= 0 or options.sample_seconds <= 0:
        parser.error("minutes, rate and seconds must be positive")
    if options.json is not None and not os.access(options.json.resolve().parent, os.W_OK):
        parser.error(f"cannot write {options.json}")
    return options


if __name__ == "__main__":
    sys.exit(main())
