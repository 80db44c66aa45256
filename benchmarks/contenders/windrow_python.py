"""windrow with a Python ``AggregateFunction``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from benchmarks.contenders.base import Contender, Job, read_results
from benchmarks.readings import Mean, Reading, WindowMean, WithMean
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.sinks import FunctionSink, ParquetFileSink, Sink
from windrow.sources import ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner

__all__ = ["WindrowTumblingMean"]


class WindrowTumblingMean(Contender):
    """``key_by(sensor).window(5 s).aggregate(Mean(), ...)`` on :class:`SparkRunner`."""

    def run(self, job: Job) -> Any:
        taken: list[WindowMean] = []

        def take(_: int, results: Sequence[WindowMean]) -> None:
            taken.extend(results)

        sink: Sink[WindowMean] = ParquetFileSink(job.results) if job.sink == "parquet" else FunctionSink(take)
        # Not drained: the closing reading closes the windows, as it does for the other contenders.
        SparkRunner(job.spark).run(_pipeline(job, sink), drain=False)
        if job.sink == "parquet":
            return read_results(job)
        sensors, ends, means = zip(*taken, strict=True)
        return pa.table({"sensor": sensors, "window_end": ends, "mean": means})


def _pipeline(job: Job, sink: Sink[WindowMean]) -> Pipeline:
    source = ParquetFileSource(job.dataset.path, Reading, files_per_batch=job.dataset.spec.files_per_batch)
    means = (
        from_source(source)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)), timestamp=lambda r: r.at
        )
        .key_by(lambda r: r.sensor)
        .window(TumblingEventTimeWindows.of(timedelta(seconds=5)))
        .aggregate(Mean(), WithMean())
    )
    return Pipeline("tumbling-mean", means.sink_to(sink))
