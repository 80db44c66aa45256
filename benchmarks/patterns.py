"""Times a pattern of three parts on Spark and in the interpreter: ``python -m benchmarks.patterns``.

Payments of 10,000 cards, at 10,000 a second of event time, are up to half a second out of order. A pattern is a payment
below 10, one above 50 and one above 90, within a minute. The first batches, in which workers start, do not count.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.patterns import Pattern
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import ParquetFileSource
from windrow_runtime.local import LocalRunner

__all__ = ["Payment", "Rise", "main", "pipeline", "write"]

CARDS: Final = 10_000
FILES: Final = 4
_PER_SECOND: Final = 10_000
_DISORDER: Final = 500
_FIRST: Final = 3
"""So many batches do not count."""


class Payment(NamedTuple):
    """An element."""

    card: int
    at: int
    amount: float


class Rise(NamedTuple):
    """A match."""

    small: Payment
    middle: Payment
    large: Payment


def write(folder: Path, batches: int, rows: int) -> None:
    """Writes batches of payments in files of Parquet, the older ones first."""
    chance = random.Random(1)
    for batch in range(batches):
        for part in range(FILES):
            first = batch * rows + part * (rows // FILES)
            times = [
                each * 1_000 // _PER_SECOND + chance.randrange(_DISORDER)
                for each in range(first, first + rows // FILES)
            ]
            table = pa.table(
                {
                    "card": [chance.randrange(CARDS) for _ in times],
                    "at": times,
                    "amount": [chance.random() * 100 for _ in times],
                }
            )
            file = folder / f"{batch:04}-{part}.parquet"
            pq.write_table(table, file)
            os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))


def pipeline(folder: Path, sink: ParquetFileSink[Rise] | CollectSink[Rise]) -> Pipeline:
    """The pipeline that is timed."""
    payments = from_source(ParquetFileSource(str(folder), Payment, files_per_batch=FILES))
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=_DISORDER))
    stamped = payments.assign_timestamps_and_watermarks(strategy, lambda payment: payment.at)
    pattern = (
        Pattern[Payment]
        .begin("small", lambda payment: payment.amount < 10)
        .followed_by("middle", lambda payment: payment.amount > 50)
        .followed_by("large", lambda payment: payment.amount > 90)
        .within(timedelta(minutes=1))
    )
    return Pipeline("rises", stamped.key_by(lambda payment: payment.card).pattern(pattern).select(Rise).sink_to(sink))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.patterns", description=__doc__)
    parser.add_argument("--batches", type=int, default=10, help="beside the first ones, which do not count")
    parser.add_argument("--rows", type=int, default=400_000, help="of a batch")
    parser.add_argument("--interpreter", action="store_true", help="the interpreter, over one batch")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="windrow-patterns-") as name:
        folder = Path(name)
        (folder / "in").mkdir()
        if options.interpreter:
            write(folder / "in", 1, options.rows)
            begun, used = time.perf_counter(), time.process_time()
            LocalRunner().run(pipeline(folder / "in", CollectSink[Rise]()))
            seconds, used = time.perf_counter() - begun, time.process_time() - used
            print(
                f"interpreter: {options.rows / seconds:,.0f} elements a second, {options.rows / used:,.0f} by its CPU"
            )
            return 0
        (folder / "made").mkdir()
        write(folder / "made", options.batches + _FIRST, options.rows)
        return _on_spark(folder, options.batches, options.rows)


def _on_spark(folder: Path, batches: int, rows: int) -> int:
    from benchmarks.measure import BatchWatch
    from benchmarks.memory import processor_seconds
    from benchmarks.session import spark_session
    from windrow_runtime.spark import SparkRunner

    with spark_session() as spark, BatchWatch(spark) as watch:
        runner = SparkRunner(spark, checkpoint=folder / "checkpoint")
        used = processor_seconds()
        for part, count in (("the first batches", _FIRST), ("the others", batches)):
            for file in sorted((folder / "made").iterdir())[: count * FILES]:
                file.rename(folder / "in" / file.name)
            # Between the runs nothing is drained: matches that are open go on.
            runner.run(pipeline(folder / "in", ParquetFileSink(str(folder / "out"))), drain=False)
            before, used = used, processor_seconds()
            print(f"{part}: {(used - before) / (count * rows) * 1e6:.1f} us of processor time an element", flush=True)
        reported = [batch for batch in watch.batches(queries=2) if batch.input_rows]
    seconds = [batch.seconds for batch in reported[_FIRST:]]
    matches = sum(pq.read_metadata(file).num_rows for file in (folder / "out").rglob("*.parquet"))
    shown = ", ".join(f"{each:.2f}" for each in seconds)
    print(f"seconds of {len(seconds)} batches of {rows:,}: {shown}; load {os.getloadavg()[0]:.1f}; {matches:,} matches")
    print(f"Spark: {rows * len(seconds) / sum(seconds):,.0f} elements a second")
    return 0 if len(seconds) == batches else 1


if __name__ == "__main__":
    sys.exit(main())
