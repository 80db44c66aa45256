"""Defines the handle by which users watch, stop and drain a running pipeline."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from pyspark.errors import StreamingQueryException

from windrow.drawing.svg import text
from windrow.errors import UnsupportedOperationError, WindrowError
from windrow.functions import Distribution
from windrow.plan import Form, Pipeline
from windrow_runtime.metrics.health import Health
from windrow_runtime.metrics.reports import PipelineProgress
from windrow_runtime.operators.outcome import short_tracebacks
from windrow_runtime.outputs.result import PipelineResult
from windrow_spark.run.background import in_background, interrupted_alone
from windrow_spark.run.query import Query

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from windrow_spark.savepoint.description import SavepointDescription

_TURN_SECONDS: Final = 1.0
_LEAST_SECONDS: Final = 0.001  # Spark takes no 0


class RunningPipeline:
    """A pipeline that runs until it is stopped; made by :meth:`SparkRunner.start`.

    Its methods may be called from several threads. As a context manager it is stopped at the end of the block::

        with SparkRunner(checkpoint=folder).start(pipeline) as running:
            running.process_available()

    The end of the block is a call of :meth:`stop`, which raises an error if the pipeline has failed. If the block
    raises an exception, the pipeline is stopped as well, and the exception goes on. If the batch under way fails then,
    the exception gets a note that says so. An exception that is no ``Exception``, such as Ctrl-C, breaks the batch off.
    """

    def __init__(self, query: Query, streaming_query: StreamingQuery) -> None:
        self._query = query
        self._is_verbose = query.is_verbose
        self._streaming_query = streaming_query
        self._drain_over: threading.Event | None = None
        query.lock.is_owner_live = self._uses_checkpoint

    def __enter__(self) -> Self:
        return self

    def __exit__(self, class_: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            self.stop()
        else:
            try:
                self.stop(graceful=isinstance(error, Exception))
            except WindrowError as failure:
                # The block may have raised this very error, when it waited for the pipeline.
                if failure is not error and str(failure) != str(error):
                    error.add_note(f"the pipeline has failed too: {failure}")

    def __repr__(self) -> str:
        state = "active" if self.is_active else "ended"
        pipeline = self._query.lowered.pipeline
        return f"RunningPipeline({pipeline.name!r}, {len(pipeline.steps)} steps, {state})"

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that runs."""
        return self._query.lowered.pipeline

    def forms(self, pipeline: Pipeline) -> dict[str, Form]:
        """Returns the form in which each keyed step of this run runs, by its id, for ``pipeline.explain(running)``.

        Args:
            pipeline: The pipeline of this run; steps of another one have no form here.
        """
        steps = {step.id for step in pipeline.steps}
        return {step: form for step, form in self._query.lowered.steps.plan.forms().items() if step in steps}

    @property
    def streaming_query(self) -> StreamingQuery:
        """Spark's query, with its progress. A drain ends it and goes on in queries of its own."""
        return self._streaming_query

    @property
    def progress(self) -> PipelineProgress | None:
        """The report on the newest batch whose results the sinks have; None before the first batch of this run.

        Over Spark Connect it is read from the checkpoint each time.

        Raises:
            UnsupportedOperationError: If the pipeline has a :class:`~windrow.sinks.WriterSink`: Spark writes its
                batches by itself.
        """
        return self._query.counted().latest_report()

    @property
    def recent_progress(self) -> list[PipelineProgress]:
        """The reports on the newest batches of this run, up to a hundred, oldest first.

        Raises:
            UnsupportedOperationError: As :attr:`progress`.
        """
        return self._query.counted().reports(-1)

    def _repr_html_(self) -> str:
        """The state of the run, and a table of its newest report, for notebooks."""
        try:
            report = self.progress
        except UnsupportedOperationError:  # Spark writes by itself, so there are no reports
            report = None
        shown = "no batch is done yet" if report is None else report._repr_html_()
        return f"<p>{text(repr(self))}</p>\n{shown}"

    def health(self) -> Health:
        """Returns how the pipeline is: whether it runs, its newest batch, lag and backlog, and why it has failed.

        It raises no error of the pipeline's, and may be called after the end.
        """
        return self._query.health(is_active=self._uses_checkpoint())

    def counters(self) -> dict[str, dict[str, int]]:
        """Returns the counters of each step, by step id and name, as ``PipelineResult.counters`` has them at the end.

        They count since the start of this run, and grow with each batch that the sinks have written.

        Raises:
            UnsupportedOperationError: As :attr:`progress`.
        """
        return self._query.counted().metrics().counters

    def gauges(self) -> dict[str, dict[str, float]]:
        """Returns the gauges of users' functions, by step id and name: the values of the newest batch that set them.

        Raises:
            UnsupportedOperationError: As :attr:`progress`.
        """
        return self._query.counted().metrics().gauges

    def histograms(self) -> dict[str, dict[str, Distribution]]:
        """Returns what the histograms of users' functions have counted since the start, by step id and name.

        Raises:
            UnsupportedOperationError: As :attr:`progress`.
        """
        return self._query.counted().metrics().histograms

    def watermarks(self) -> dict[str, int | None]:
        """Returns the watermark that each keyed step has reached, by step id, in milliseconds since 1970, UTC.

        None stands where a step has no watermark: none of its elements has a timestamp so far, the first batch of this
        run is not done, or the stream is at its end, which ``PipelineProgress.ended`` shows.

        Raises:
            UnsupportedOperationError: As :attr:`progress`.
        """
        progress = self.progress
        keyed = self._query.lowered.topology.keyed
        return {step.id: None if progress is None else progress.steps[step.id].watermark for step in keyed}

    @property
    def is_active(self) -> bool:
        """Returns whether the pipeline runs or drains."""
        active = self._uses_checkpoint()
        if not active:
            self._query.close()
        return active

    def _uses_checkpoint(self) -> bool:
        over = self._drain_over
        if (over is not None and not over.is_set()) or self._query.is_ending:
            return True
        try:
            return not self._query.has_ended(self._streaming_query)
        except Exception:
            # The session was stopped, and its queries with it; the type of this error depends on the kind of session.
            return False

    @contextmanager
    def _released_at_end(self) -> Iterator[None]:
        """Close the outputs and the lock at the end of the block, unless the query or a drain goes on."""
        try:
            yield
        finally:
            if not self._uses_checkpoint():
                self._query.close()

    @short_tracebacks
    def await_termination(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the pipeline is stopped or drained, or fails.

        If it is interrupted, as by Ctrl-C, the pipeline goes on.

        Args:
            timeout_seconds: The longest time to wait; None: for ever. While it drains, the time counts anew.

        Returns:
            Whether it has ended.

        Raises:
            WindrowError: If the pipeline failed. A failed drain raises its error where it was called.
        """
        with interrupted_alone(), self._released_at_end():
            if not self._wait(timeout_seconds):
                return False
            over = self._drain_over
            return over is None or over.wait(timeout_seconds)

    def _wait(self, timeout_seconds: float | None) -> bool:
        """Wait for the end of the query some seconds, or for ever; returns whether it has ended."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        is_left = threading.Event()

        def wait() -> bool:
            # The wait is divided into turns, so that its thread ends soon after an interruption.
            while not is_left.is_set():
                left = _TURN_SECONDS if deadline is None else min(deadline - time.monotonic(), _TURN_SECONDS)
                if self._query.wait(self._streaming_query, max(left, _LEAST_SECONDS)):
                    return True
                if left < _TURN_SECONDS:
                    return False
            return False

        try:
            return in_background(wait)
        finally:
            is_left.set()

    @short_tracebacks
    def process_available(self) -> None:
        """Wait until all elements that the sources have now are processed.

        If it is interrupted, as by Ctrl-C, the pipeline goes on.

        Raises:
            WindrowError: If the pipeline failed, as :meth:`await_termination`.
        """
        in_background(self._process_available)
        self._query.reporter.flush()

    def _process_available(self) -> None:
        if self._query.lowered.by_clock:
            # Spark's own wait would never end: such a query always has another batch to run.
            self._query.wait_idle(self._streaming_query)
        else:
            try:
                self._streaming_query.processAllAvailable()
            except StreamingQueryException:
                self._query.wait(self._streaming_query)

    @short_tracebacks
    def stop(self, *, graceful: bool = True) -> PipelineResult:
        """Stop the pipeline. A later run with the same checkpoint goes on from there.

        If it is interrupted, as by Ctrl-C, the batch is broken off as without ``graceful``.

        Args:
            graceful: Whether the batch that is under way is finished and committed first; no other batch does any
                work. Otherwise the batch is broken off, and the next run does it again, under its number.

        Returns:
            The collected elements and the counts since the start.

        Raises:
            WindrowError: If it failed before, or fails in that batch. Not raised without ``graceful``.
            UnsupportedOperationError: If a sink calls it: the batch cannot wait for its own end.
        """
        end = self._query.stop if graceful else self._query.kill
        # The query goes on if a sink called this.
        with self._released_at_end():
            self._query.attend(lambda: end(self._streaming_query))
        return self._query.result()

    @short_tracebacks
    def savepoint(self, path: str | os.PathLike[str]) -> SavepointDescription:
        """Writes the state after the newest batch that is done into a folder; the pipeline goes on meanwhile.

        A run that begins from it is another run for sinks: it must not write the same targets as this one, which goes
        on. To move a pipeline, stop it and take the savepoint then: :func:`windrow_runtime.savepoint.take`.

        Args:
            path: The folder of the savepoint, which does not exist or is empty.

        Returns:
            What is in the savepoint.

        Raises:
            InvalidArgumentError: If the folder is not empty, or lies in that of the checkpoint or of a source.
            IncompatibleStateError: If no batch is done yet, or the stream is at its end.
            UnsupportedOperationError: Over Spark Connect, and if the checkpoint is not in a mounted file system.
            CheckpointError: If a file cannot be read or written.
        """
        # The runner imports this module, and savepoints need what the runner needs.
        from windrow_spark.savepoint.description import SavepointFolder
        from windrow_spark.savepoint.writing import write_savepoint

        query = self._query
        query.check_lock()
        return write_savepoint(
            query.lowered.spark, query.checkpoint, query.lowered.pipeline, SavepointFolder.at(path), is_live=True
        )

    @short_tracebacks
    def drain(self) -> PipelineResult:
        """End the stream: process the elements of the sources, fire every window and timer in event time, and stop.

        The batch that is under way is finished first. Elements that arrive while the pipeline drains may still be
        taken, by the batch with which the stream ends, or are left alone; none is dropped as late. Windows and
        timers in processing time that are not due do not fire; elements of such windows are counted as
        ``unfired_window_records_dropped``. The checkpoint is at its end then and cannot be used
        again. Where a drain fails or is interrupted, ``SparkRunner.run(pipeline)`` with the same checkpoint finishes
        it.

        Returns:
            The collected elements and the counts since the start.

        Raises:
            WindrowError: As :meth:`stop`.
            UnsupportedOperationError: As :meth:`stop`, and if it was stopped before.
        """
        over = threading.Event()
        if self._drain_over is None or self._drain_over.is_set():
            self._drain_over = over

        def drain() -> None:
            self._query.stop(self._streaming_query)
            self._query.check_lock()
            self._query.drain()

        with self._released_at_end():
            try:
                self._query.attend(drain)
            finally:
                # This is needed even if an interruption came before the drain began.
                over.set()
        return self._query.result()
