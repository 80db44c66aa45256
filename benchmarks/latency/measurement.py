"""From the end of a window to its result in the sink, while readings come in real time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.parquet as pq

from benchmarks.answers import window_means
from benchmarks.check import Outcome, check
from benchmarks.contenders import native, windrow_declared, windrow_python
from benchmarks.contenders.windrow_run import Build, Sinks
from benchmarks.data import SCHEMA
from benchmarks.errors import MeasurementError
from benchmarks.latency.feeder import start_feeder
from benchmarks.latency.visible import Visible, files_of_spark, files_of_windrow, results_in
from benchmarks.problems import SECOND_MS
from benchmarks.readings import Reading
from benchmarks.report import ratio
from benchmarks.section import Section
from benchmarks.tuning import tuned
from benchmarks.workloads import DECLARED, LATENCY, PYTHON, TUNED
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.sinks import ParquetFileSink
from windrow.sources import ParquetFileSource
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.scale import Scale

__all__ = ["measure_latency"]

# Any in this module: Arrow tables; pyarrow ships no types.

# The JVM compiles what Spark does in a batch over a hundred of them, and for so long windows do not count.
_WARM_SECONDS: Final = 40
_SECONDS: Final = 60
_QUICK_WARM_SECONDS: Final = 4
_QUICK_SECONDS: Final = 4
_PATIENCE_SECONDS: Final = 60
_POLL_SECONDS: Final = 0.5
_HEADER: Final = ("contender", "windows", "p50 ms", "x tuned", "p99 ms", "x tuned", "ms a batch", "load")


@dataclass(frozen=True, slots=True)
class _Folders:
    incoming: Path
    results: Path
    checkpoint: Path


@dataclass(frozen=True, slots=True)
class _Started:
    """A query that runs; ``batch_ms`` gives the times of its last batches."""

    batch_ms: Callable[[], list[int]]
    stop: Callable[[], object]
    visible: Visible


def measure_latency(spark: SparkSession, scale: Scale) -> Section:
    """Run the contenders in turn, each on readings that come while it runs.

    Raises:
        WrongResultError: If the results of a window are wrong.
        MeasurementError: If a window did not come out.
    """
    section = Section(
        LATENCY, "a thousand readings a second, tumbling mean of 1 s: from the end of a window to its result", _HEADER
    )
    wanted = [name for name in (TUNED, DECLARED, PYTHON) if scale.wants(name)]
    waits: dict[str, list[float]] = {name: [] for name in wanted}
    batches: dict[str, list[int]] = {name: [] for name in wanted}
    loads: dict[str, float] = dict.fromkeys(wanted, 0.0)
    for number in range(scale.rounds):
        for name in wanted:
            print(f"... {LATENCY}: {name}, round {number + 1} of {scale.rounds}", file=sys.stderr, flush=True)
            with TemporaryDirectory(prefix="windrow-bench-") as scratch:
                found, times = _run(spark, name, Path(scratch), scale)
            waits[name] += found
            batches[name] += times
            loads[name] = max(loads[name], os.getloadavg()[0])
    base = np.percentile(waits[TUNED], (50, 99)) if TUNED in waits else None
    for name in wanted:
        half, most = np.percentile(waits[name], (50, 99))
        times_half, times_most = (None, None) if base is None else (half / base[0], most / base[1])
        row = [name, f"{len(waits[name])}", f"{half:,.0f}", ratio(times_half), f"{most:,.0f}", ratio(times_most)]
        section.rows.append([*row, f"{median(batches[name]):,.0f}", f"{loads[name]:.1f}"])
    return section


def _run(spark: SparkSession, name: str, scratch: Path, scale: Scale) -> tuple[list[float], list[int]]:
    """Returns the waits for the windows that count, and the times of the last batches, both in milliseconds."""
    folders = _Folders(scratch / "incoming", scratch / "results", scratch / "checkpoint")
    folders.incoming.mkdir()
    warm, counted = (_QUICK_WARM_SECONDS, _QUICK_SECONDS) if scale.quick else (_WARM_SECONDS, _SECONDS)
    query = _native(spark, folders) if name == TUNED else _windrow(spark, folders, _PLANS[name])
    try:
        feeder = start_feeder(folders.incoming, warm + counted)
        if feeder.wait() != 0:
            raise MeasurementError(f"{LATENCY}: the process that writes readings failed")
        readings = pq.read_table(folders.incoming, partitioning=None)
        # The last reading closes the windows that end before it.
        last = int(readings["at"].to_numpy().max()) // SECOND_MS * SECOND_MS
        _await_window(folders.results, query.visible, last, name)
        batches = query.batch_ms()
    finally:
        query.stop()
    results, shown = results_in(folders.results, query.visible)
    check(Outcome(results), window_means(readings, SECOND_MS, last))
    ends = [end for end in sorted(shown) if end > last - counted * SECOND_MS]
    return [shown[end] - end for end in ends], batches


def _await_window(results: Path, visible: Visible, last: int, name: str) -> None:
    patience = time.monotonic() + _PATIENCE_SECONDS
    while last not in results_in(results, visible)[1]:
        if time.monotonic() > patience:
            raise MeasurementError(f"{LATENCY}, {name}: the last window has not come out")
        time.sleep(_POLL_SECONDS)


def _native(spark: SparkSession, folders: _Folders) -> _Started:
    readings = spark.readStream.schema(SCHEMA).parquet(str(folders.incoming))
    writer = native.by_second(readings).writeStream.format("parquet").outputMode("append")
    writer = writer.option("path", str(folders.results)).option("checkpointLocation", str(folders.checkpoint))
    with tuned(spark):
        query = writer.trigger(processingTime="0 seconds").start()
    return _Started(lambda: _batch_ms(query), query.stop, files_of_spark)


_PLANS: Final[dict[str, Build]] = {DECLARED: windrow_declared.by_second, PYTHON: windrow_python.by_second}


def _windrow(spark: SparkSession, folders: _Folders, build: Build) -> _Started:
    readings = from_source(ParquetFileSource(folders.incoming, Reading)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(0)), timestamp=lambda r: r.at
    )
    ends = build(readings, Sinks(ParquetFileSink(folders.results), ParquetFileSink(folders.results / "late")))
    running = SparkRunner(spark, checkpoint=folders.checkpoint).start(Pipeline(LATENCY, *ends))
    return _Started(lambda: _batch_ms(running.streaming_query), running.stop, files_of_windrow)


# Any: Spark's query.
def _batch_ms(query: Any) -> list[int]:
    return [report.durationMs["triggerExecution"] for report in query.recentProgress if report.numInputRows]
