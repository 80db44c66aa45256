"""A query that is fed one batch at a time, so that two of them can be measured in turn."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import pyarrow.parquet as pq

from benchmarks.errors import MeasurementError
from benchmarks.growth.records import Event, column_sessions, columns, notes, sessions, timed_notes, totals, tumbling
from windrow import DataStream, Pipeline, from_source
from windrow.sinks import ParquetFileSink
from windrow.sources import ParquetFileSource
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["FORMS", "BatchFigures", "LiveQuery", "Steps", "figures_of"]

_MIB = 2**20

# Any: results are of every type, and are only counted.
Steps: TypeAlias = Callable[[DataStream[Event]], DataStream[Any]]
"""What a query computes."""

FORMS: Final[Mapping[str, Steps]] = {
    "columns": columns,
    "column sessions": column_sessions,
    "table": tumbling,
    "session": sessions,
    "process": totals,
    "notes": notes,
    "timed notes": timed_notes,
}
"""The forms of state."""


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """What Spark reports of a batch.

    Attributes:
        number: Its number.
        input_rows: The rows that it read.
        seconds: From its trigger to its commit.
        state_rows: The rows of state behind it: records of key groups, pages, segments of lists, timers.
        state_mib: The size of the state's files, compressed.
        written_mib: What its state operators wrote, before RocksDB compresses and compacts it.
    """

    number: int
    input_rows: int
    seconds: float
    state_rows: int
    state_mib: float
    written_mib: float


def figures_of(progress: StreamingQueryProgress) -> BatchFigures:
    """The figures in one of Spark's progress reports."""
    operators = progress.stateOperators
    return BatchFigures(
        number=progress.batchId,
        input_rows=progress.numInputRows,
        seconds=progress.durationMs.get("triggerExecution", 0) / 1_000,
        state_rows=sum(operator.numRowsTotal for operator in operators),
        state_mib=sum(operator.customMetrics.get("rocksdbSstFileSize", 0) for operator in operators) / _MIB,
        written_mib=sum(operator.customMetrics.get("rocksdbTotalBytesWritten", 0) for operator in operators) / _MIB,
    )


class _Running(Protocol):
    """A query that runs until it is stopped."""

    @property
    def streaming_query(self) -> StreamingQuery:
        """Spark's."""
        ...

    def process_available(self) -> None:
        """Wait until what there is has been read."""
        ...

    def stop(self) -> object:
        """Stop it."""
        ...


class _Native:
    """The query of native Spark SQL, with the settings of Spark's that windrow gives its own."""

    def __init__(self, spark: SparkSession, source: Path, output: Path, checkpoint: Path) -> None:
        from pyspark.sql import functions as f

        from benchmarks.tuning import tuned

        events = spark.readStream.schema("user string, at bigint, amount double").parquet(str(source))
        events = events.withColumn("time", f.timestamp_millis("at")).withWatermark("time", "10 seconds")
        windows = events.groupBy(f.window("time", "1 hour"), "user")
        totals = windows.agg(f.count("*").alias("events"), f.sum("amount").alias("amount"))
        writer = totals.writeStream.format("parquet").outputMode("append")
        writer = writer.option("checkpointLocation", str(checkpoint))
        with tuned(spark):
            self.streaming_query = writer.start(str(output))
            # A query takes the settings of its session when it makes its sources.
            self.process_available()

    def process_available(self) -> None:
        self.streaming_query.processAllAvailable()

    def stop(self) -> None:
        self.streaming_query.stop()


class LiveQuery:
    """A streaming query over events, fed through a folder, with a folder of results.

    Args:
        spark: The session.
        folder: For its input and its checkpoint: an empty one, or that of a query that was stopped.
        steps: What it computes; None: native Spark SQL computes sums over an hour.
        files: In how many files the events of a batch come: Spark gives each to one core. Several lie in a folder for
            each batch, which Spark lists by a job of its own when there are many, unless the session says otherwise.
    """

    def __init__(self, spark: SparkSession, folder: Path, steps: Steps | None, files: int = 1) -> None:
        self._output = folder / "output"
        self._input = folder / "input"
        self._input.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._files = files
        self._fed = len(list(self._input.iterdir()))
        self._seen = -1
        source = self._input / "*" if files > 1 else self._input
        self._running: _Running
        if steps is None:
            self._running = _Native(spark, source, self._output, folder / "checkpoint")
        else:
            results = steps(from_source(ParquetFileSource(source, Event)))
            pipeline = Pipeline(folder.name, results.sink_to(ParquetFileSink(self._output)))
            self._running = SparkRunner(spark, checkpoint=folder / "checkpoint").start(pipeline)
        if self._fed:
            # A query that is started again runs a batch for what was left due.
            self._running.process_available()
            self._seen = max((batch.batchId for batch in self._running.streaming_query.recentProgress), default=-1)

    @property
    def id(self) -> str:
        """The id of Spark's query."""
        return str(self._running.streaming_query.id)

    @property
    def results(self) -> int:
        """How many results there are so far."""
        return sum(pq.read_metadata(file).num_rows for file in self._output.glob("[!._]*.parquet"))

    def feed(self, events: pa.Table) -> list[BatchFigures]:
        """Run a batch with these events, and those without data that follow; gives the figures of each.

        Raises:
            MeasurementError: If Spark split the events into several batches.
        """
        self._fed += 1
        hidden = self._folder / "hidden"
        if self._files == 1:
            pq.write_table(events, hidden)
            os.replace(hidden, self._input / f"{self._fed:04d}.parquet")
        else:
            hidden.mkdir()
            rows = -(-events.num_rows // self._files)
            for number in range(self._files):
                pq.write_table(events.slice(number * rows, rows), hidden / f"{number}.parquet")
            # A folder, so that all files appear at once.
            os.replace(hidden, self._input / f"{self._fed:04d}")
        self._running.process_available()
        reports = (figures_of(progress) for progress in self._running.streaming_query.recentProgress)
        batches = [batch for batch in reports if batch.number > self._seen]
        if sum(batch.input_rows > 0 for batch in batches) != 1:
            raise MeasurementError(f"the events were not read as one batch: {batches}")
        self._seen = batches[-1].number
        return batches

    def stop(self) -> None:
        """Stop the query."""
        self._running.stop()

    def __enter__(self) -> LiveQuery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
