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
    """Reports on batches to the log and to the user's function, if there is one."""

    def __init__(self, lowered: Lowered, on_progress: OnProgress | None) -> None:
        self._name = lowered.pipeline.name
        self._sources = [step.id for step in lowered.topology.sources]
        self._sinks = [step.id for step in lowered.topology.sinks]
        self._on_progress = on_progress

    @property
    def is_wanted(self) -> bool:
        """Returns whether the log or a function of the user's takes reports."""
        return self._on_progress is not None or _LOG.isEnabledFor(logging.INFO)

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
            f"{sum(steps[source].records_in for source in self._sources)} records read",
            f"{sum(steps[sink].records_in for sink in self._sinks)} written",
            f"{sum(step.late for step in steps.values())} late",
            f"{sum(step.malformed for step in steps.values())} malformed",
        ]
        if lags:
            parts.append(f"watermark {max(lags)} ms behind")
        took = f"in {progress.duration_ms} ms"
        return f"pipeline {self._name}, batch {progress.batch}: {', '.join(parts)}, {took}"


class ReportPoller:
    """Reports on the batches of a query whose batches end in another process, which leaves reports in files."""

    def __init__(self, results: SpooledResults, reporter: Reporter) -> None:
        self._results = results
        self._reporter = reporter
        self._newest = -1
        self._lock = threading.Lock()

    def watch(self, query: StreamingQuery) -> None:
        """Look for reports while a query runs, if the log or the user's function takes them."""
        if self._reporter.is_wanted:
            threading.Thread(target=self._run, args=(query,), name="windrow reports", daemon=True).start()

    def flush(self) -> None:
        """Report on the batches that are there and were not reported on yet."""
        if not self._reporter.is_wanted:
            return
        with self._lock:
            for progress in self._results.reports(self._newest):
                self._newest = progress.batch
                self._reporter.report(progress)

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
