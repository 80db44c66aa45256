"""Time of each micro-batch, as Spark reports it, for every kind of query alike."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from benchmarks.data import DatasetSpec
from benchmarks.errors import MeasurementError

__all__ = ["Batch", "BatchWatch", "Timing", "timing"]

_EVENTS_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch.

    Attributes:
        number: Spark's batch id.
        input_rows: The rows that Spark counted at its sources: 0 for a batch without data.
        seconds: From the trigger to the commit.
        began: When the trigger was, in seconds since the epoch.
        state_written: The bytes that its state operators wrote, before RocksDB compresses and compacts them.
    """

    number: int
    input_rows: int
    seconds: float
    began: float
    state_written: int = 0


class _Reports(JStreamingQueryListener):
    """Takes reports of progress as Spark has them, in one piece.

    PySpark's own way asks the JVM for each figure of a report: with the metrics of RocksDB that takes a tenth of a
    second of processor time, from the batch that runs meanwhile.
    """

    def __init__(self, watch: BatchWatch) -> None:
        super().__init__(watch)
        self._watch = watch

    # Any: an object of the JVM.
    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802  Spark's name
        self._watch.reported(jevent.progress().json())


class BatchWatch(StreamingQueryListener):
    """Collects the batches of the query that runs while its ``with`` block does.

    A listener sees queries that a runner keeps to itself as well, so that all contenders are timed by the same clock.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._changed = threading.Condition()
        self._running = 0
        self._started = 0
        self._reports: list[str] = []
        self._wrapper: Any = None

    # Any: an object of the JVM.
    @property
    def _jlistener(self) -> Any:
        """What PySpark gives to the JVM when the listener is added and removed."""
        if self._wrapper is None:
            jvm = SparkContext._jvm
            assert jvm is not None
            self._wrapper = jvm.PythonStreamingQueryListenerWrapper(_Reports(self))
        return self._wrapper

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  Spark's name
        with self._changed:
            self._running += 1
            self._started += 1

    def reported(self, report: str) -> None:
        """Spark reports a batch, in JSON."""
        with self._changed:
            self._reports.append(report)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        pass  # see _Reports

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def __enter__(self) -> BatchWatch:
        self._spark.streams.addListener(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spark.streams.removeListener(self)

    def batches(self, *, queries: int = 1) -> list[Batch]:
        """The batches of the query, in order, once Spark has reported its end.

        Args:
            queries: How many queries there may be, one behind the other; a drain goes on in a second one.

        Raises:
            MeasurementError: If there was none or another one, or Spark did not report their end.
        """
        with self._changed:
            # Events come from a queue of Spark's, a little after the query itself has ended.
            ended = self._changed.wait_for(
                lambda: self._started > 0 and self._running == 0, timeout=_EVENTS_TIMEOUT_SECONDS
            )
            if not ended or self._started > queries:
                raise MeasurementError(f"{self._started} queries began and {self._running} did not end")
            return sorted(map(_batch, self._reports), key=lambda batch: batch.number)


def _batch(report: str) -> Batch:
    found = json.loads(report)
    rows = sum(source["numInputRows"] for source in found["sources"])
    seconds = found["durationMs"].get("triggerExecution", 0) / 1_000
    began = datetime.fromisoformat(found["timestamp"]).timestamp()
    written = sum(state["customMetrics"].get("rocksdbTotalBytesWritten", 0) for state in found["stateOperators"])
    return Batch(found["batchId"], rows, seconds, began, written)


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of one query.

    Attributes:
        first_batch: Seconds for the first batch, with fresh Python workers; None for an engine without batches.
        batches: Seconds for each batch between the first and the closing one: the steady state. For an engine without
            batches, those of the whole input.
        rows_per_batch: How many rows each of these has.
    """

    first_batch: float | None
    batches: tuple[float, ...]
    rows_per_batch: int

    @property
    def rows_per_second(self) -> float:
        """The rows of the steady state by its time."""
        return self.rows_per_batch * len(self.batches) / sum(self.batches)


def timing(batches: Sequence[Batch], spec: DatasetSpec) -> Timing:
    """The time of a query over a dataset.

    Rows are those of the files: what Spark counts at the source doubles where a query scans its input twice.

    Raises:
        MeasurementError: If the query did not split the input into the batches that the dataset means.
    """
    with_data = [batch for batch in batches if batch.input_rows]
    if len(with_data) != spec.batches + 1:
        raise MeasurementError(f"{len(with_data)} batches had data, not {spec.batches} and the closing one: {batches}")
    first, *steady = with_data[:-1]
    return Timing(first.seconds, tuple(batch.seconds for batch in steady), spec.rows_per_batch)
