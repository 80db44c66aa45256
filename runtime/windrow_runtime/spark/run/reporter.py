"""Reports each batch to the user by a line in the log and a call of their ``on_progress``."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

from windrow_runtime.spark.lowering import Lowered
from windrow_runtime.spark.run.progress import PipelineProgress
from windrow_runtime.spark.sinks.results import SpooledResults

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

OnProgress: TypeAlias = "Callable[[PipelineProgress], object]"
"""Takes the report on a batch."""

_LOG: Final = logging.getLogger("windrow")
_POLL_SECONDS: Final = 0.2
_TURNS_TO_ASK: Final = 10


class Reporter:
    """Reports on batches to the log and to the user's function, if there is one.

    Args:
        lowered: The pipeline.
        on_progress: The function.
        spooled: Holds the reports on batches that end in another process, which leaves them in files.
    """

    def __init__(self, lowered: Lowered, on_progress: OnProgress | None, spooled: SpooledResults | None = None) -> None:
        self._name = lowered.pipeline.name
        self._topology = lowered.topology
        self._on_progress = on_progress
        self._spooled = spooled
        self._newest = -1
        self._lock = threading.Lock()

    def report(self, progress: PipelineProgress) -> None:
        """Report on a batch. Errors of the user's function are logged: a report does not stop the pipeline."""
        if _LOG.isEnabledFor(logging.INFO):
            _LOG.info(self._line(progress))
        if self._on_progress is None:
            return
        try:
            self._on_progress(progress)
        except Exception:
            _LOG.exception("on_progress raised for batch %d of pipeline %s, which goes on", progress.batch, self._name)

    def _line(self, progress: PipelineProgress) -> str:
        steps = progress.steps
        lags = [step.lag_ms for step in steps.values() if step.lag_ms is not None]
        parts = [
            f"{sum(steps[source.id].records_in for source in self._topology.sources)} records read",
            f"{sum(steps[sink.id].records_in for sink in self._topology.sinks)} written",
            f"{sum(step.late for step in steps.values())} late",
            f"{sum(step.malformed for step in steps.values())} malformed",
        ]
        if lags:
            parts.append(f"watermark {max(lags)} ms behind")
        took = f"in {progress.duration_ms} ms"
        return f"pipeline {self._name}, batch {progress.batch}: {', '.join(parts)}, {took}"

    @property
    def _is_wanted(self) -> bool:
        return self._on_progress is not None or _LOG.isEnabledFor(logging.INFO)

    def watch(self, query: StreamingQuery) -> None:
        """Look for reports in files while a query runs, if the log or the user's function takes them."""
        if self._spooled is not None and self._is_wanted:
            threading.Thread(target=self._run, args=(query,), name="windrow reports", daemon=True).start()

    def flush(self) -> None:
        """Report on the batches whose reports lie in files and were not passed on yet."""
        if self._spooled is None or not self._is_wanted:
            return
        with self._lock:
            for progress in self._spooled.reports(self._newest):
                self._newest = progress.batch
                self.report(progress)

    def _run(self, query: StreamingQuery) -> None:
        try:
            for turn in count():
                self.flush()
                # This is a call to the server, so it is made in some turns only.
                if turn % _TURNS_TO_ASK == 0 and not query.isActive:
                    return
                time.sleep(_POLL_SECONDS)
        except Exception:
            _LOG.exception("the reports on batches cannot be read any more; the pipeline goes on without them")
