"""Times ``distinct`` on columns, on Python objects, and in native Spark SQL: ``python -m benchmarks.repeated``.

Readings of 10,000 keys with ten values each. One of each key and value passes in 20 seconds of event time. Spark's
``dropDuplicatesWithinWatermark`` has the settings of windrow's own queries; it forgets a value when the watermark lies
behind it, so that fewer pass. All run in turn in one session, and the first round does not count.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.sinks import ParquetFileSink
from windrow.sources import ParquetFileSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Reading", "main", "pipeline", "write"]

KEYS: Final = 10_000
VALUES: Final = 10
_MILLIS_OF_BATCH: Final = 10_000
_BOUND: Final = timedelta(seconds=1)
_WITHIN: Final = timedelta(seconds=20)


class Reading(NamedTuple):
    """An element."""

    key: int
    value: int
    at: int


def write(folder: Path, batches: int, rows: int) -> None:
    """Writes batches of readings, a file of Parquet each, the older ones first."""
    chance = random.Random(1)
    for batch in range(batches):
        first = batch * _MILLIS_OF_BATCH
        columns = {
            "key": [chance.randrange(KEYS) for _ in range(rows)],
            "value": [chance.randrange(VALUES) for _ in range(rows)],
            "at": sorted(chance.randrange(first, first + _MILLIS_OF_BATCH) for _ in range(rows)),
        }
        file = folder / f"{batch:04}.parquet"
        pq.write_table(pa.table(columns), file)
        os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))


def pipeline(folder: Path, out: Path) -> Pipeline:
    """The pipeline that is timed."""
    readings = from_source(ParquetFileSource(str(folder), Reading, files_per_batch=1))
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(_BOUND)
    by_key = readings.assign_timestamps_and_watermarks(strategy, lambda reading: reading.at).key_by(
        lambda reading: reading.key
    )
    passed = by_key.distinct(lambda reading: reading.value, within=_WITHIN)
    return Pipeline("distinct", passed.sink_to(ParquetFileSink(str(out))))


def native(spark: SparkSession, folder: Path, out: Path, checkpoint: Path) -> None:
    """Runs the query of native Spark SQL until it has read all files."""
    from pyspark.sql import functions as f

    from benchmarks.tuning import tuned

    readings = spark.readStream.schema("key long, value long, at long").option("maxFilesPerTrigger", 1)
    timed = readings.parquet(str(folder)).withColumn("time", f.timestamp_millis("at"))
    passed = timed.withWatermark("time", f"{_WITHIN.total_seconds():.0f} seconds").dropDuplicatesWithinWatermark(
        ["key", "value"]
    )
    writer = passed.select("key", "value", "at").writeStream.format("parquet").trigger(availableNow=True)
    with tuned(spark):
        query = writer.option("path", str(out)).option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repeated", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="beside the first one, which does not count")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--rows", type=int, default=100_000, help="of a batch")
    options = parser.parse_args(arguments)
    from benchmarks.session import spark_session
    from windrow_runtime.spark import SparkRunner

    with tempfile.TemporaryDirectory(prefix="windrow-repeated-") as name, spark_session() as spark:
        source = Path(name, "in")
        source.mkdir()
        write(source, options.batches, options.rows)

        def windrow(*, columnar: bool) -> Callable[[Path], None]:
            def run(folder: Path) -> None:
                runner = SparkRunner(spark, checkpoint=folder / "checkpoint", columnar=columnar)
                runner.run(pipeline(source, folder / "out"))

            return run

        contenders: dict[str, Callable[[Path], None]] = {
            "windrow, columns": windrow(columnar=True),
            "windrow, objects": windrow(columnar=False),
            "native Spark SQL, tuned": lambda folder: native(spark, source, folder / "out", folder / "checkpoint"),
        }
        for turn in range(options.rounds + 1):
            for number, (contender, run) in enumerate(contenders.items()):
                folder = Path(name, f"{turn}-{number}")
                folder.mkdir()
                began = time.perf_counter()
                run(folder)
                seconds, passed = time.perf_counter() - began, _rows(folder / "out")
                counted = f"round {turn}" if turn else "warm-up"
                print(f"{counted}: {contender}: {seconds:.2f} s, {passed:,} passed", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0


def _rows(folder: Path) -> int:
    files = [str(file) for file in folder.rglob("*.parquet") if "_windrow" not in file.parts]
    return int(ds.dataset(files).count_rows())


if __name__ == "__main__":
    sys.exit(main())
