"""Runs a plan of windrow as a contender."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from benchmarks.check import Outcome
from benchmarks.contenders.base import Contender, Job, read_results
from benchmarks.data import COLD, WARM
from benchmarks.problems import BOUND_MS
from benchmarks.readings import Reading
from windrow import DataStream, DataStreamSink, KeyedStream, Pipeline, WatermarkStrategy, from_source
from windrow.sinks import FunctionSink, ParquetFileSink, Sink
from windrow.sources import CsvFileSource, JsonFileSource, ParquetFileSource
from windrow_runtime.spark import SparkRunner

__all__ = ["Build", "Join", "Sinks", "WindrowJoin", "WindrowPlan"]

# Any in this module: Arrow tables and records of any kind; pyarrow ships no types.


@dataclass(frozen=True, slots=True)
class Sinks:
    """Where a plan's results go.

    Attributes:
        results: The results.
        late: Readings that are too late for their window.
    """

    results: Sink[Any]
    late: Sink[Reading]


Build = Callable[[DataStream[Reading], Sinks], Sequence[DataStreamSink]]
"""Makes a plan of readings that have timestamps."""

Join = Callable[[KeyedStream[Reading, str], KeyedStream[Reading, str]], DataStream[Any]]
"""Makes a stream of two streams of readings, by sensor."""


_SOURCES: Final = {"parquet": ParquetFileSource, "json": JsonFileSource, "csv": CsvFileSource}


class WindrowPlan(Contender):
    """A plan on :class:`SparkRunner`.

    Args:
        build: Makes the plan.
        finish: Makes the columns of an answer from the table of results, when the time has been taken.
        columnar: Whether steps run on columns where they can, or all on objects.
    """

    def __init__(self, build: Build, finish: Callable[[Any], Any] | None = None, *, columnar: bool = True) -> None:
        self._build = build
        self._finish = finish
        self._columnar = columnar

    def run(self, job: Job) -> Outcome:
        results, late = _Taken(job, job.results), _Taken(job, job.late)
        ends = self._ends(job, Sinks(results.sink, late.sink))
        # Not drained: the closing reading closes the windows, as it does for the other contenders.
        runner = SparkRunner(job.spark, columnar=self._columnar, key_groups_per_partition=job.key_groups)
        runner.run(Pipeline("benchmark", *ends), drain=False)
        table = results.table()
        if self._finish is not None:
            table = self._finish(table)
        # A plan that has a sink for late readings has another beside it.
        return Outcome(table, late.count() if len(ends) > 1 else None)

    def _ends(self, job: Job, sinks: Sinks) -> Sequence[DataStreamSink]:
        return self._build(readings_in(job), sinks)


class WindrowJoin(WindrowPlan):
    """A plan of two streams on :class:`SparkRunner`.

    Args:
        join: Makes results of the cold readings and of the warm ones, by sensor.
    """

    def __init__(self, join: Join) -> None:
        super().__init__(lambda _, sinks: ())
        self._join = join

    def _ends(self, job: Job, sinks: Sinks) -> Sequence[DataStreamSink]:
        cold, warm = (readings_in(job, folder).key_by(lambda r: r.sensor) for folder in (COLD, WARM))
        return [self._join(cold, warm).sink_to(sinks.results)]


def readings_in(job: Job, folder: str = "") -> DataStream[Reading]:
    """The dataset, or the stream in a folder of it, with timestamps."""
    spec = job.dataset.spec
    source = _SOURCES[spec.format](job.dataset.path / folder, Reading, files_per_batch=spec.files_per_batch)
    return from_source(source).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=BOUND_MS)), timestamp=lambda r: r.at
    )


@dataclass(slots=True)
class _Taken:
    """A sink, and what it took."""

    job: Job
    folder: Path
    records: list[Any] = field(default_factory=list)

    @property
    def sink(self) -> Sink[Any]:
        if self.job.sink == "parquet":
            return ParquetFileSink(self.folder, overwrite=True)
        return FunctionSink(lambda _, records: self.records.extend(records))

    def table(self) -> Any:
        if self.job.sink == "parquet":
            return read_results(self.folder)
        names = self.records[0]._fields
        return pa.table(dict(zip(names, zip(*self.records, strict=True), strict=True)))

    def count(self) -> int:
        if self.job.sink == "parquet":
            return len(read_results(self.folder)) if any(self.folder.rglob("*.parquet")) else 0
        return len(self.records)
