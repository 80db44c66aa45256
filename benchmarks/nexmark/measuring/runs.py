"""Runs a query of Nexmark by each contender over the same files, and takes its time."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from pyspark.sql import SparkSession

from benchmarks.errors import MeasurementError, WrongResultError
from benchmarks.measure import Batch, BatchWatch
from benchmarks.nexmark.__main__ import query_of
from benchmarks.nexmark.measuring.answers import check
from benchmarks.nexmark.measuring.data import FILES_PER_BATCH, Data
from benchmarks.nexmark.measuring.native import NATIVE
from benchmarks.nexmark.measuring.tables import Tables
from benchmarks.nexmark.streams import Streams
from benchmarks.spark_runs import use_fresh_workers
from benchmarks.tuning import tuned
from windrow_runtime.spark import SparkRunner

__all__ = ["AT_THE_END", "Contender", "Speed", "Timing", "Warmth", "compare", "run_native", "timing_of"]

Contender = Literal["windrow", "native"]
_CONTENDERS: Final[tuple[Contender, ...]] = ("windrow", "native")

AT_THE_END: Final = frozenset({"q4", "q15", "q16", "q17", "q18", "q19"})
"""The queries whose results come at the end of the input, so that their time goes on to it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of one run.

    Attributes:
        events: The events of all batches with data but the first.
        steady: The seconds of these batches.
        to_the_end: The seconds from the trigger of the second batch until everything is written.
        batches: The batches with data.
    """

    events: int
    steady: float
    to_the_end: float
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a contender was.

    Attributes:
        runs: The runs that count.
    """

    runs: list[Timing] = field(default_factory=list)

    @property
    def steady(self) -> float:
        """Events a second while there is input."""
        return self._events / sum(run.steady for run in self.runs)

    @property
    def to_the_end(self) -> float:
        """Events a second with the time that the results at the end of the input take."""
        return self._events / sum(run.to_the_end for run in self.runs)

    @property
    def _events(self) -> int:
        return sum(run.events for run in self.runs)


@dataclass(frozen=True, slots=True)
class Warmth:
    """How long a contender runs before it counts.

    Attributes:
        data: What it reads.
        seconds: When no other run begins.
        runs: How many there are at most.
    """

    data: Data
    seconds: float
    runs: int


def compare(query: str, data: Data, spark: SparkSession, rounds: int, warmth: Warmth) -> dict[Contender, Speed]:
    """Run a query in turn by each contender that can state it.

    Raises:
        WrongResultError: If a result is not the reference's.
        MeasurementError: If a query did not take the input in the batches that it should.
    """
    wanted = [name for name in _CONTENDERS if name == "windrow" or query in NATIVE]
    for name in wanted:
        _tell(f"{query}: {name}, warming up")
        end = time.monotonic() + warmth.seconds
        for number in range(warmth.runs):
            if number and time.monotonic() > end:
                break
            with TemporaryDirectory(prefix="windrow-nexmark-") as scratch:
                _RUNS[name](query, warmth.data, spark, Path(scratch))
    speeds: dict[Contender, Speed] = {name: Speed() for name in wanted}
    for number in range(rounds):
        for name, speed in speeds.items():
            _tell(f"{query}: {name}, round {number + 1} of {rounds}")
            try:
                speed.runs.append(_timed(query, name, data, spark))
            except (WrongResultError, MeasurementError) as error:
                raise type(error)(f"{name}: {error}") from error
    return speeds


def _timed(query: str, name: Contender, data: Data, spark: SparkSession) -> Timing:
    gc.collect()
    use_fresh_workers(spark)
    with TemporaryDirectory(prefix="windrow-nexmark-") as scratch:
        with BatchWatch(spark) as watch:
            _RUNS[name](query, data, spark, Path(scratch))
            ended = time.time()
            # A drain goes on in a second query, which windrow starts.
            batches = watch.batches(queries=2 if name == "windrow" else 1)
        check(query, data, Path(scratch, "out"))
    _tell(f"{query}: {name}, seconds of batches: {' '.join(f'{batch.seconds:.2f}' for batch in batches)}")
    return timing_of(batches, data, ended)


def timing_of(batches: Sequence[Batch], data: Data, ended: float) -> Timing:
    """The time of a run, of the batches that Spark reports and the time when everything was written.

    Raises:
        MeasurementError: If the query did not take the input in the batches that the data has.
    """
    with_input = [batch for batch in batches if batch.input_rows]
    # One more reads what closes the windows: windrow's mark of the end, or the events behind the end.
    if len(with_input) - data.batches not in (0, 1):
        raise MeasurementError(f"{len(with_input)} batches had input, not {data.batches} and a closing one: {batches}")
    steady = with_input[1 : data.batches]
    events = data.events_per_batch * len(steady)
    batches = tuple(with_input[: data.batches])
    return Timing(events, sum(batch.seconds for batch in steady), ended - steady[0].began, batches)


def _run_windrow(query: str, data: Data, spark: SparkSession, scratch: Path) -> None:
    pipeline = query_of(query)(Streams(data.path, files_per_batch=FILES_PER_BATCH), scratch / "out")
    # The checkpoint is deleted with the folder, and not within the run, as for the other contender.
    SparkRunner(spark, checkpoint=scratch / "checkpoint").run(pipeline)


def run_native(query: str, data: Data, spark: SparkSession, scratch: Path) -> None:
    """Run a query of Spark's own, with windrow's settings of Spark, into the folder ``out`` of an empty one."""
    native = NATIVE[query]
    with tuned(spark):
        results = native.build(Tables(spark, data, is_closed=native.has_windows))
        writer = results.writeStream.outputMode("append").trigger(availableNow=True).format("parquet")
        writer = writer.option("checkpointLocation", str(scratch / "checkpoint")).option("path", str(scratch / "out"))
        writer.partitionBy(*native.folders).start().awaitTermination()


_RUNS: Final[Mapping[Contender, Callable[[str, Data, SparkSession, Path], None]]] = {
    "windrow": _run_windrow,
    "native": run_native,
}


def _tell(text: str) -> None:
    print(f"... {text}", file=sys.stderr, flush=True)
