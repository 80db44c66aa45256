"""Runs a lowered pipeline: starts, watches, stops and drains its streaming query, or runs its batch job."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.errors import PySparkPicklingError, StreamingQueryException
from pyspark.sql import DataFrame

from windrow.errors import CheckpointError, UnsupportedOperationError, WindrowError
from windrow.plan import Step
from windrow.time import now_millis
from windrow_runtime.bar import progress_shown
from windrow_runtime.lineage import RunLineage
from windrow_runtime.metrics.health import Health
from windrow_runtime.metrics.telemetry import PlainRun, Telemetry
from windrow_runtime.operators.outcome import secrets_of
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.outputs.output import Output
from windrow_runtime.outputs.process_lock import OwnStack
from windrow_runtime.outputs.registry import check_free, claim_targets, closing_outputs, open_outputs
from windrow_runtime.outputs.result import PipelineResult
from windrow_spark.checkpoint.batch_notes import CounterNotes
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.lease import LeaseLock, RunLock
from windrow_spark.checkpoint.storage import unset_elsewhere
from windrow_spark.clock_keeper import ClockKeeper
from windrow_spark.faults import engine_errors, engine_failure, shows_secret
from windrow_spark.lowering import Lowered
from windrow_spark.progress import OnProgress, ProgressKeeper, Reporter
from windrow_spark.quiet import QuietFailure, is_quiet
from windrow_spark.run.background import BackgroundCall, Ending, JobCalls, uninterrupted, wait_for_tasks
from windrow_spark.run.figures import QueryFigures
from windrow_spark.run.gate import BatchGate, Interrupted
from windrow_spark.run.idle import IdleBatches
from windrow_spark.run.measures import RunMeasure
from windrow_spark.run.waker import Waker
from windrow_spark.session import (
    FEW_ROWS_SETTINGS,
    MOUNTED_SETTINGS,
    ONLY_WITH_DATA,
    QUERY,
    QUERY_SETTINGS,
    SHUFFLE_PARTITIONS,
    is_connect,
    keep_session,
    settings_during,
)
from windrow_spark.shipping import sink_alone
from windrow_spark.sinks.batch_reports import Results, SpooledResults
from windrow_spark.sinks.batch_writer import BatchWriter, ConnectWriter, driver_sinks
from windrow_spark.sinks.spark_writer import WrittenBy, check_unwritten, spark_writer_of, written_by
from windrow_spark.sources.scanner import scanner_of
from windrow_spark.worker import JOB_BATCH, tell_now

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_SECONDS: Final = 0.05
_INITIAL_POLL_SECONDS: Final = 0.005
_PATIENCE_SECONDS: Final = 5.0
_ATTEMPTS: Final = 4
_A_MOMENT_SECONDS: Final = 0.001
_MOST_LINES: Final = 8
"""The most batches of elements that one query reads before the end of the stream: each takes a file of its own."""

T = TypeVar("T")


class Query:
    """Runs a lowered pipeline as a streaming query, which may be started several times in sequence.

    The outputs of sinks are by step id. If it is ``verbose``, Spark's log shows the failure of a batch, too, in a
    session that a runner started. ``begins`` says whether no batch was planned before. ``unfinished`` is the query that
    divides batches as the run before did, which finishes the batch that this one has begun. ``now`` is the clock
    of the runner.

    Attributes:
        measure: Measures how far the run is.
    """

    def __init__(
        self,
        lowered: Lowered,
        checkpoint: Checkpoint,
        lock: RunLock,
        outputs: Mapping[str, Output],
        keeper: ClockKeeper | None,
        *,
        verbose: bool,
        on_progress: OnProgress | None,
        begins: bool,
        now: Callable[[], int],
        lineage: RunLineage,
        unfinished: Lowered | None = None,
    ) -> None:
        self.lowered = lowered
        self._unfinished = unfinished
        self.lock = lock
        self.is_verbose = verbose
        self._is_quiet = is_quiet(lowered.spark) and not verbose
        self.checkpoint = checkpoint
        # Closes the outputs and releases the lock, after the last batch; the runner sets it.
        self.opened: ExitStack
        self._place = f"pipeline {lowered.pipeline.name!r}, checkpoint {checkpoint.path}"
        self._secrets = secrets_of(lowered.pipeline.steps)
        self._gate = BatchGate()
        self.failure: WindrowError | None = None  # for which the query has ended
        self._has_told_end = False
        self._interruption: BaseException | None = None  # which has broken it off
        self._now = now
        self._lineage = lineage
        self._started: StreamingQuery | None = None
        self._is_broken_off = False
        self._is_closing = False
        self._ending: Ending | None = None
        self._written = _by_query(lowered)
        self._loss: CheckpointError | None = None
        self._keeper = keeper
        self._waker: Waker | None = None  # begins batches when a window is due by the clock; None: Spark does
        if self._written is not None and isinstance(lock, LeaseLock):
            lock.on_loss = self._lose
        spooled = None
        if is_connect(lowered.spark):
            spooled = SpooledResults(Path(checkpoint.results_folder), lowered.codec)
            spooled.clear()
        self._results: Results = spooled or Results()
        self.measure = RunMeasure(lowered.topology, self._results, lowered.spark, begins=begins)
        if on_progress is not None:
            self.counted()  # raises an error for a pipeline that cannot report
        self.figures = QueryFigures(lowered.topology, self._is_running)
        self.telemetry = Telemetry(lowered.pipeline.name, "spark", self.figures, self._secrets)
        self.reporter = Reporter(
            lowered.pipeline.name,
            lowered.topology,
            on_progress,
            self.telemetry,
            self._results.metrics,
            spooled.reports if spooled else None,
        )
        self._batches = BatchWriter(
            lowered.sinks,
            lowered.classes,
            self._results,
            lowered.query_id,
            lowered.identities,
            ProgressKeeper(lowered.watched(), checkpoint.progress_file, lowered.clock),
            lowered.parts,
            keeper,
            checkpoint.newest_batch,
            outputs,
            CounterNotes(checkpoint.counters_folder),
            lock=lock,
            divisions=checkpoint.division,
        )
        self._write: Callable[[DataFrame, int], None] = self._write_here
        if spooled is not None:
            sinks = {number: sink_alone(step) for number, step in lowered.sinks.items()}
            self._write = ConnectWriter(replace(self._batches, sinks=sinks, outputs={}, lock=None), self._secrets)

    def attend(self, work: Callable[[], T]) -> T:
        """Does some work with the query in the background while this thread waits; returns the result.

        If this thread is interrupted, for example by Ctrl-C, the query is ended.
        """
        if self._gate.is_entered_here:
            # A sink calls this, which is an error unless the work aborts the batch.
            return work()
        call = BackgroundCall(work, self.lowered.spark)
        try:
            call.start()
            call.wait()
        except BaseException as error:
            self.end(error, call)
            raise
        return call.result()

    def end(self, error: BaseException, call: BackgroundCall[Any] | None = None) -> None:
        """End the query because of an exception, then close the outputs, and then release the lock, in this order.

        Further exceptions do not change the order. ``call`` is work that goes on meanwhile, and may start the query
        again until it sees that the query was aborted.
        """
        self._is_broken_off = True
        if self.failure is None:
            self._interruption = error

        def end() -> None:
            while True:
                if self._started is not None:
                    self.kill(self._started)
                if call is None or call.is_over(_POLL_SECONDS):
                    break
            # The work may have started the query just before it ended.
            if self._started is not None:
                self.kill(self._started)

        if self._ending is None:
            self._ending = Ending(end, self.close, self._place, self.lowered.limits.end_seconds)
        self._ending.close(error)

    def _lose(self, loss: CheckpointError) -> None:
        """Ends a query, in a thread that is not its own: another run has its checkpoint, or it cannot be written."""
        self._loss = self.failure = loss
        if self._started is not None:
            self.kill(self._started)

    @property
    def is_ending(self) -> bool:
        """Whether the query was told to end, and may still be at work, or its outputs are not closed yet."""
        return self._is_closing or (self._ending is not None and self._ending.is_pending)

    def close(self) -> None:
        """Close the outputs of a query that has ended, then release its lock. Later calls do nothing."""
        self._is_closing = True
        try:
            self.opened.close()
        finally:
            self._is_closing = False
            self._tell_end()

    def _tell_end(self) -> None:
        if not self._has_told_end:
            self._has_told_end = True
            self.telemetry.end(self.failure)
            self._lineage.end(self.failure or self._interruption)

    def _is_running(self) -> bool:
        """Returns whether the query of Spark runs, in any thread."""
        try:
            return self._started is not None and not self._has_told_end and bool(self._started.isActive)
        except Exception:
            # The session was stopped, and the query with it; the type of this error depends on the kind of session.
            return False

    def check_lock(self) -> None:
        """Refuse to go on if another run may use the checkpoint by now."""
        if self._loss is not None:
            raise self._loss
        if self._is_broken_off or not self.lock.is_held:
            raise UnsupportedOperationError(
                "the pipeline was stopped, and its checkpoint is free for other runs",
                given=self.lowered.pipeline.name,
                expected="a pipeline that runs",
                hint="run(pipeline) with the same checkpoint goes on, and drains",
            )

    def _start(self, **trigger: str | bool) -> StreamingQuery:
        """Starts the query with a Spark trigger, when a batch is done that the run before has divided otherwise."""
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            self.stop(self._started_by(unfinished, availableNow=True))
        return self._started_by(self.lowered, **trigger)

    def _started_by(self, lowered: Lowered, **trigger: str | bool) -> StreamingQuery:
        self.check_lock()
        self._gate = BatchGate()
        self._batches.division = division = lowered.division
        settings: dict[str, str | None] = {**QUERY, SHUFFLE_PARTITIONS: str(lowered.groups.partitions)}
        if "processingTime" in trigger and self._can_sleep:
            self._waker = Waker(self._wake_up)
            settings |= ONLY_WITH_DATA
        if division is not None:
            settings |= division.fixed_settings
        defaults = {**(FEW_ROWS_SETTINGS if lowered.has_few_rows else {}), **QUERY_SETTINGS}
        defaults |= MOUNTED_SETTINGS if self.checkpoint.is_mounted else unset_elsewhere(lowered.spark)
        with settings_during(lowered.spark, settings, defaults):
            writer = self._writer(lowered.frame).queryName(self._free_name())
            writer = writer.option("checkpointLocation", self.checkpoint.spark_folder)
            with engine_errors(self._place, self._secrets):
                self.checkpoint.hand_on(self.lowered.spark)
                try:
                    query: StreamingQuery = writer.trigger(**trigger).start()
                finally:
                    self.checkpoint.hand_nothing(self.lowered.spark)
                self._started = self.figures.query = query
                self.telemetry.begin()
                self._lineage.begin()
                try:
                    # Spark creates the sources, which read the session's settings, within milliseconds. A source that
                    # is created later gets the session's own settings, and is slower, not wrong.
                    patience = time.monotonic() + _PATIENCE_SECONDS
                    while query.status["message"].startswith("Initializing") and time.monotonic() < patience:
                        time.sleep(_INITIAL_POLL_SECONDS)
                    self.reporter.watch(query)
                    self.check_lock()
                except BaseException:
                    self.kill(query)
                    raise
        return query

    def _free_name(self) -> str:
        """Returns the name of the pipeline, with the identity of the query if another running query has that name.

        Spark refuses two queries of one name. Other threads start no query meanwhile.
        """
        running_names = {query.name for query in self.lowered.spark.streams.active}
        name = self.lowered.pipeline.name
        return f"{name} {self.lowered.query_id}" if name in running_names else name

    # Any: Spark's two classes of writers have no common type, and a user's WriterSink may return any DataStreamWriter.
    def _writer(self, frame: DataFrame) -> Any:
        if self._written is not None:
            number, step = self._written
            return spark_writer_of(step).stream_writer(frame, number, self.lowered.classes)
        try:
            return frame.writeStream.foreachBatch(self._write)
        except PySparkPicklingError as error:
            raise UnsupportedOperationError(
                "what writes the batches cannot be sent to the Spark Connect server",
                given=str(error.__cause__ or error).splitlines()[0],
                expected="functions of sinks, and a clock, that hold nothing but what can be pickled",
                where=self.lowered.pipeline.name,
                hint="open connections and files inside of the function",
            ) from error

    def _write_here(self, frame: DataFrame, batch: int) -> None:
        """Writes a batch in this process, and reports on it; called by ``foreachBatch``."""
        gate = self._gate
        gate.enter(batch, frame.sparkSession)
        try:
            self.lock.check()
            keep_session(frame.sparkSession)  # the thread is one of Spark's
            tell_now(frame.sparkSession)
            self.checkpoint.hand_on(frame.sparkSession, batch, self.lowered.clock)
            self._batches(frame, batch)
            if self._waker is not None and self._keeper is not None:
                self._waker.set(self._keeper.wake_at)
            report = self._results.latest_report()
            if report is not None:
                self.reporter.report(report)
        except Exception as error:
            if gate.is_stopping and not isinstance(error, WindrowError):
                raise Interrupted from None
            # Spark turns an error that is raised here into an exception of its own, and logs it.
            failure = self.failure = engine_failure(error, self._place, self._secrets)
            if self._is_quiet:
                raise QuietFailure(str(failure)) from None
            if shows_secret(error, self._secrets):
                raise failure from failure.__cause__
            raise
        finally:
            gate.leave()

    def start(self, interval_seconds: float) -> StreamingQuery:
        """Start the query, which runs until it is stopped."""
        if self.lowered.topology.keyed:
            # The previous run may have ended after a batch that moved the watermark: due timers fire at once.
            self.checkpoint.wake()
        interval = round(interval_seconds * 1000)
        asked = None if self._keeper is None else self._keeper.asked
        if asked is not None:
            asked.asked_once, asked.interval = None, interval
        return self._start(processingTime=f"{interval} milliseconds")

    @property
    def _can_sleep(self) -> bool:
        """Whether the driver knows when a batch without elements has something to do, so that Spark runs no others."""
        topology, keeper = self.lowered.topology, self._keeper
        is_known = keeper is not None and keeper.asked is not None and keeper.is_by_machine
        return is_known and not topology.by_clock and not is_connect(self.lowered.spark)

    def _wake_up(self) -> None:
        """Lets the running query run a batch; a checkpoint that cannot be written ends it."""
        try:
            self.checkpoint.wake_running(self._gate.begun)
        except CheckpointError as error:
            self._lose(error)

    def run_available(self) -> None:
        """Process the elements that the sources have now, and wait for the end.

        Spark runs batches for ever for a query that waits for the clock, so such a query is stopped after the first
        batch that found nothing to read.
        """
        # The first batch may be one that the previous run planned, before the sources had their present elements.
        planned = self.checkpoint.last_planned()
        self.lowered.wake()
        self._ask_once()
        if self.lowered.by_clock:
            idle = IdleBatches(self.lowered.clock)
            self._run_until(lambda query: idle.newest(query) > planned)
        else:
            self.wait(self._start(availableNow=True))
            self.check_lock()

    def _ask_once(self) -> None:
        """Notes that the run which begins asks the sources now, for all its batches."""
        if self._keeper is not None and self._keeper.asked is not None:
            self._keeper.asked.asked_once = now_millis()

    def _run_until(self, condition: Callable[[StreamingQuery], bool]) -> None:
        """Process the elements that the sources have now until a condition holds or the query ends, and stop it.

        Spark asks the sources for their offsets once, at the start, and runs as many batches as their elements need.
        """
        self._ask_once()
        query = self._start(availableNow=True)
        try:
            ended = self._wait_until(query, lambda: condition(query))
        except BaseException:
            self.kill(query)
            raise
        self.check_lock()
        if not ended:
            self.stop(query)

    def drain(self) -> None:
        """Process the elements that the sources have now, then fire every window in event time, and wait for the end.

        Elements that come meanwhile are left in the sources. A drain that failed is finished by the next one.
        """
        batches = 0 if self.checkpoint.is_ending else self._batches_left()
        if batches is None:
            self.run_available()
        if not self.lowered.topology.keyed:
            return
        # One query reads all elements and the end after them, where the number of their batches is known.
        self.checkpoint.end_stream(batches or 0)
        for _ in range(_ATTEMPTS):
            if self.checkpoint.has_fired_all():
                break
            if self.checkpoint.ending_batch() >= 0:
                # The end was read, but Spark has no rows for another batch, for example after a restart.
                self.checkpoint.wake()
            # The query is stopped then, since Spark would run batches for elements that arrived, or for the clock.
            self._run_until(lambda query: self.checkpoint.has_fired_all())
        else:
            raise UnsupportedOperationError(
                "the query ended before everything was fired that is due at the end of the stream",
                given=self.lowered.pipeline.name,
                expected="a query that nobody else stops",
                hint="run(pipeline) with the same checkpoint finishes the drain",
            )
        self.checkpoint.mark_drained()

    def _batches_left(self) -> int | None:
        """Returns the number of batches before the end of the stream; None: it is not known, or too many."""
        topology = self.lowered.topology
        # The lines before the end are told apart by the times of their files.
        if topology.by_clock or not topology.keyed or not self.checkpoint.is_mounted:
            return None
        batches = max(scanner_of(step).known_batches for step in topology.sources)
        if batches > (1 if self.checkpoint.has_run() else _MOST_LINES):
            return None
        if self.lowered.clock is None:
            return int(batches)
        # A watermark that windrow keeps takes a batch to each further level, and one to leave a source that has ended.
        return int(batches) + topology.depth - 1 + (len(topology.sources) > 1)

    def stop(self, query: StreamingQuery) -> None:
        """Stop a query after the running batch, which is finished and committed; no other batch begins."""
        last = self._gate.close(self.checkpoint.last_planned)
        if not self._wait_until(query, lambda: self.checkpoint.is_committed(last)):
            # Spark logs spurious errors if a query is stopped while it plans a batch.
            patience = time.monotonic() + _PATIENCE_SECONDS
            self._wait_until(
                query, lambda: self._gate.holds or not query.status["isTriggerActive"] or time.monotonic() > patience
            )
        self.kill(query)

    def kill(self, query: StreamingQuery) -> None:
        """Stop a query at once, and wait for its end.

        The next run repeats a batch that is interrupted, under its number.
        """
        if self._waker is not None:
            self._waker.close()
            self._waker = None
        self._gate.release()
        query.stop()
        wait_for_tasks(self.lowered.spark, str(query.runId))

    def _wait_until(self, query: StreamingQuery, condition: Callable[[], bool]) -> bool:
        """Wait for a condition, or for the end of a query; returns whether the query has ended."""
        while not condition():
            if self.wait(query, _POLL_SECONDS):
                return True
        return False if query.isActive else self.wait(query)

    def wait_idle(self, query: StreamingQuery) -> None:
        """Wait until a batch that begins later finds nothing to read."""
        if self._waker is not None:
            self._wait_asleep(query)
            return
        # The last planned batch may be older than the elements that the sources have now; so may the next one, which
        # Spark may be planning.
        next_batch = self.checkpoint.last_planned() + 1
        idle = IdleBatches(self.lowered.clock)
        if self._wait_until(query, lambda: idle.newest(query) > next_batch):
            raise UnsupportedOperationError("the query was stopped by somebody else", given=self.lowered.pipeline.name)

    def _wait_asleep(self, query: StreamingQuery) -> None:
        """Wait until the elements that the sources have now are processed, and nothing is due by them."""
        assert self.lowered.clock is not None, "windrow keeps the time of such a query"
        while True:
            try:
                query.processAllAvailable()
            except StreamingQueryException:
                self.wait(query)
            following = self.lowered.clock.find(self.checkpoint.last_planned() + 1)
            if following is None or following.settled:
                return
            if self.wait(query, _POLL_SECONDS):
                raise UnsupportedOperationError(
                    "the query was stopped by somebody else", given=self.lowered.pipeline.name
                )

    def wait(self, query: StreamingQuery, timeout_seconds: float | None = None) -> bool:
        """Wait for the end of a query; returns whether it has ended, and raises its failure."""
        try:
            ended = query.awaitTermination(timeout_seconds)  # type: ignore[arg-type]  # Spark takes fractions
        except StreamingQueryException as error:
            failure = self.failure = self.failure or engine_failure(error, self._place, self._secrets)
            raise failure from failure.__cause__
        if ended is not False and self._loss is not None:
            raise self._loss
        return ended is not False

    def has_ended(self, query: StreamingQuery) -> bool:
        """Returns whether no batch of a query runs any more; Spark's ``isActive`` is false before that."""
        if query.isActive:
            return False
        try:
            return query.awaitTermination(_A_MOMENT_SECONDS) is not False  # type: ignore[arg-type]  # as in wait
        except StreamingQueryException:
            return True

    def health(self, *, is_active: bool) -> Health:
        """Returns how the pipeline is, which runs or drains, if it ``is_active``."""
        if not is_active and self.failure is None and self._started is not None:
            with suppress(WindrowError):
                self.wait(self._started, _A_MOMENT_SECONDS)
        report = None if self._written is not None else self._results.latest_report()
        lags = [] if report is None else [step.lag_ms for step in report.steps.values() if step.lag_ms is not None]
        return Health(
            self.lowered.pipeline.name,
            "running" if is_active else "ended" if self.failure is None else "failed",
            is_ready=is_active and (report is not None or self.figures.newest() is not None),
            batch=None if report is None else report.batch,
            batch_age_seconds=None if report is None else max(0, self._now() - report.ended_at) / 1000,
            lag_ms=max(lags, default=None),
            backlog=self.figures.backlog(),
            last_error=self.failure,
        )

    def counted(self) -> Results:
        """Returns the results so far; raises an error if Spark writes a sink by itself, so that nothing is counted."""
        if self._written is not None:
            _, step = self._written
            raise UnsupportedOperationError(
                "Spark writes the batches of this sink by itself, so nobody counts, and reports on batches",
                given=sink_of(step).describe(),
                expected="sinks that the runner writes",
                where=step.where,
                hint="streaming_query.recentProgress has Spark's own reports",
            )
        return self._results

    def result(self) -> PipelineResult:
        """Returns the elements and counters collected so far."""
        self.reporter.flush()
        return _result_of(self.lowered, self._results)


def run_job(lowered: Lowered, on_progress: OnProgress | None, *, shows_progress: bool) -> PipelineResult:
    """Run a batch job, and write its sinks as batch 0; ``shows_progress``: whether it shows how far it is."""
    written = _by_query(lowered)
    if written is not None:
        _, step = written
        raise UnsupportedOperationError(
            "a DataStreamWriter writes streams only",
            given=sink_of(step).describe(),
            where=step.where,
            hint="to_dataframe(stream, batch=True).write writes with every writer of Spark's",
        )
    results = Results()
    pipeline, query, sinks = lowered.pipeline, lowered.query_id, lowered.topology.sinks
    check_free(sinks, query, begins=True)
    uninterrupted(lambda: check_unwritten(lowered.spark, sinks), lowered.spark)
    telemetry = Telemetry(pipeline.name, "spark", PlainRun(active=True), secrets_of(pipeline.steps))
    calls = JobCalls(lowered.spark, f"windrow {query}")
    with OwnStack() as opening:
        claims = opening.enter_context(ExitStack())  # released after the outputs are closed
        outputs = open_outputs(driver_sinks(sinks), query, lowered.identities)
        opening.enter_context(closing_outputs(outputs))
        claims.enter_context(claim_targets(sinks, query, begins=True))
        opened = opening.pop_all()
    try:
        telemetry.begin()
        progress = ProgressKeeper(lowered.watched(), None)
        write = BatchWriter(
            lowered.sinks,
            lowered.classes,
            results,
            query,
            lowered.identities,
            progress,
            lowered.parts,
            outputs=outputs,
            calls=calls,
        )
        measure = RunMeasure(lowered.topology, results, lowered.spark, begins=True, is_job=True)
        with (
            engine_errors(f"pipeline {pipeline.name!r}", secrets_of(pipeline.steps)),
            progress_shown(pipeline.name, measure, wanted=shows_progress),
        ):
            write(lowered.frame, JOB_BATCH)
    except BaseException as error:
        # An interruption takes precedence over the failure that it causes in Spark.
        interruption = calls.interruption or error
        telemetry.end(error if isinstance(interruption, WindrowError) else None)
        Ending(calls.end, opened.close, f"pipeline {pipeline.name!r}").close(interruption)
        if interruption is not error:
            raise interruption from None
        raise
    opened.close()
    report = results.latest_report()
    if report is not None:
        Reporter(pipeline.name, lowered.topology, on_progress, telemetry, results.metrics).report(report)
    telemetry.end()
    return _result_of(lowered, results)


def _result_of(lowered: Lowered, results: Results) -> PipelineResult:
    collected = {
        id(sink_of(step)): results.collected(number)
        for number, step in lowered.sinks.items()
        if written_by(step) is WrittenBy.RESULTS
    }
    counted = results.written()
    written = {} if _by_query(lowered) else {step.id: counted.get(step.id, 0) for step in lowered.topology.sinks}
    metrics = results.metrics()
    return PipelineResult(
        lowered.pipeline, metrics.counters, written, collected, gauges=metrics.gauges, histograms=metrics.histograms
    )


def _by_query(lowered: Lowered) -> tuple[int, Step] | None:
    """Returns the step of the sink that Spark's own query writes, with its number; None: there is none."""
    steps = lowered.sinks.items()
    return next(((number, step) for number, step in steps if written_by(step) is WrittenBy.QUERY), None)
