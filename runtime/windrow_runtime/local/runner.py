"""Runs a pipeline in process, over bounded input."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from windrow.addresses.paths import checked_path
from windrow.errors import InvalidArgumentError, no_attribute, require_callable, warn
from windrow.functions.names import function_name
from windrow.plan import Form, Pipeline, Step
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, now_millis
from windrow.triggers.call_text import call_text
from windrow_runtime.bar import Measure, progress_shown
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.checks import check_bounded, check_sources, ends_when_silent, rows_there
from windrow_runtime.inputs.reader import reader_of
from windrow_runtime.lineage import OpenLineage, RunLineage
from windrow_runtime.local.batch_reports import BatchReports
from windrow_runtime.local.execution import Execution, StampedElements
from windrow_runtime.local.journal import recorders_of, recording_of
from windrow_runtime.local.key_order import KeyOrder
from windrow_runtime.local.run_start import RunStart, savepoint_reader
from windrow_runtime.operators.choose import form_text
from windrow_runtime.operators.errors import line_of_caller
from windrow_runtime.operators.outcome import short_tracebacks
from windrow_runtime.operators.state.time_to_live import TtlTimer
from windrow_runtime.operators.topology import (
    Port,
    Topology,
    check_step_names,
    in_processing_time,
    sink_of,
    source_of,
    timestamps_of,
    topology_of,
)
from windrow_runtime.operators.watermarks import TimestampScale, clock_millis
from windrow_runtime.outputs.output import Output
from windrow_runtime.outputs.registry import (
    check_free,
    check_owners,
    claim_targets,
    closing_outputs,
    identities,
    open_outputs,
)
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.outputs.writer import writer_of


class LocalRunner:
    """Runs a pipeline over bounded input, without Spark and without Java.

    It works batch by batch, as Spark does: a batch runs under the watermark that the batches before it made. When
    every source is at its end, and ``drain`` is set, the watermark advances to the end of time, which fires what is
    left.

    Args:
        clock: Gives processing time in milliseconds; by default the clock of the machine.
        fast: Whether steps of common shapes run in a faster form; the results are the same.
        record: Whether the result has a recording of what went through each keyed step, from which
            :func:`windrow_runtime.pictures.timeline` draws a picture. No step runs in a faster form then.
        isolates_functions: Whether functions are called as copies, as workers of Spark have them: what a call changes
            in a variable around the function is not seen outside then. By default a program can watch calls through a
            closure; a test of its own has :class:`windrow_runtime.testing.StreamHarness`, which makes copies. What a
            call leaves on ``self`` is gone at the next batch and key in any case, as on Spark. A function whose code
            may leave something there, or that has lists or dicts in its attributes, is called key by key, which is
            slower.
        shuffles_keys: A seed, by which each batch processes one key after the other, in another order; None: timers
            fire in order of time, and elements come in order of arrival. Spark promises no order among the keys of a
            batch, so a test that passes with several seeds leans on none. The order within a key stays.
        progress: Whether a run of more than a second shows how far it is, in the last row of the terminal that stderr
            is, or in the notebook; elsewhere nothing is shown.
        lineage: Tells a catalog what each run reads and writes, :class:`windrow_runtime.lineage.OpenLineage`.
        savepoint: The folder of a savepoint of a run on Spark, from which each run begins: its state, its watermarks,
            and what its sources have left: collections, files, topics, sources of yours. The plan may have changed
            since as for ``SparkRunner(savepoint=)``. Sinks write elsewhere than that run did: this is another one.
        renamed: The new names of steps and sources, by their names in the savepoint.
        accept_changes: The ids or names of steps that may take other streams than before the savepoint.

    Raises:
        InvalidArgumentError: If ``renamed`` or ``accept_changes`` is given without a savepoint, or an argument is not
            what it has to be.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], int] | None = None,
        fast: bool = True,
        record: bool = False,
        isolates_functions: bool = False,
        shuffles_keys: int | None = None,
        progress: bool = True,
        lineage: OpenLineage | None = None,
        savepoint: str | os.PathLike[str] | None = None,
        renamed: Mapping[str, str] | None = None,
        accept_changes: Collection[str] = (),
    ) -> None:
        if renamed and savepoint is None:
            raise InvalidArgumentError(
                "steps are renamed between a savepoint and a plan",
                given=f"renamed={dict(renamed)!r}",
                expected="LocalRunner(savepoint=..., renamed=...)",
            )
        check_step_names(accept_changes)
        if accept_changes and savepoint is None:
            raise InvalidArgumentError(
                "changes are accepted of the plan of a savepoint",
                given=f"accept_changes={accept_changes!r}",
                expected="LocalRunner(savepoint=..., accept_changes=[...])",
            )
        if savepoint is not None:
            checked_path(savepoint, "a savepoint is kept at")
        if clock is not None:
            expected = "a function that gives milliseconds since 1970"
            require_callable(clock, "the clock of a runner", expected, takes="", where=line_of_caller())
        KeyOrder.of(shuffles_keys)  # refuses what is no seed
        self._clock = clock if clock is not None else now_millis
        self._is_by_machine = clock is None
        self._fast = fast and not record and shuffles_keys is None
        self._record = record
        self._isolates_functions = isolates_functions
        self._shuffles_keys = shuffles_keys
        self._shows_progress = progress
        self._lineage = lineage
        self._savepoint = savepoint
        self._renamed = dict(renamed or {})
        self._accepted = tuple(accept_changes)
        self._is_stopping = False

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what to call instead of a name of other runners."""
            going_on = "run(pipeline, drain=False) reads what there is; SparkRunner().start(pipeline) goes on"
            own = dict.fromkeys(("run_batch", "execute", "submit", "run_pipeline"), "run(pipeline)")
            raise no_attribute(self, name, {"start": going_on, **own})

    def __repr__(self) -> str:
        return call_text(
            type(self).__name__,
            clock=None if self._is_by_machine else function_name(self._clock),
            fast=None if self._fast or self._record or self._shuffles_keys is not None else "False",
            record="True" if self._record else None,
            isolates_functions="True" if self._isolates_functions else None,
            shuffles_keys=None if self._shuffles_keys is None else str(self._shuffles_keys),
            progress=None if self._shows_progress else "False",
            lineage=None if self._lineage is None else repr(self._lineage),
            savepoint=None if self._savepoint is None else repr(os.fspath(self._savepoint)),
            renamed=repr(self._renamed) if self._renamed else None,
            accept_changes=repr(list(self._accepted)) if self._accepted else None,
        )

    def forms(self, pipeline: Pipeline) -> dict[str, Form]:
        """Returns the form in which each keyed step runs, by its id, for ``pipeline.explain(runner)``.

        Args:
            pipeline: The pipeline.
        """
        return {step.id: Form(form_text(step, fast=self._fast)) for step in topology_of(pipeline).keyed}

    @short_tracebacks
    def run(self, pipeline: Pipeline, *, drain: bool = True) -> PipelineResult:
        """Run a pipeline to the end of its sources.

        Args:
            pipeline: The pipeline.
            drain: Whether windows that are open at the end fire.

        Returns:
            What was collected and counted.

        Raises:
            SourceError: If a source cannot be read.
            MalformedRecordError: For a record that does not fit, unless its source drops or routes such records.
            UserFunctionError: If a function of the pipeline raised.
            SinkError: If a sink cannot be written, a table does not fit the elements, or the folder of a file sink
                holds the batches of another run.
            UnsupportedOperationError: For a source or a sink that only Spark has, and for a source of which the
                savepoint does not tell what was read.
            IncompatibleStateError: If the savepoint is that of another plan, or the state of a step cannot leave its
                columns.
            CheckpointError: If a file of the savepoint is damaged.

        Example:
            >>> from windrow import Pipeline, from_collection
            >>> from windrow.sinks import CollectSink
            >>> from windrow_runtime.local import LocalRunner
            >>> sink = CollectSink[int]()
            >>> lengths = from_collection(["a", "bc"]).map(lambda word: len(word))
            >>> LocalRunner().run(Pipeline("lengths", lengths.sink_to(sink))).collected(sink)
            [1, 2]
        """
        topology = topology_of(pipeline)
        if drain:
            own = [step for step in topology.sources if not reader_of(step).drains]
            check_bounded(own, "a stream without an end cannot be drained")
        check_sources(topology.sources)
        for step in topology.sinks:
            writer_of(step).check_local()
        start = self._start(pipeline)
        # There is no checkpoint, so each run is a separate query.
        query = uuid.uuid4().hex
        check_free(topology.sinks, query, begins=True)
        outputs = open_outputs(topology.sinks, query, identities(topology.sinks, query))
        with ExitStack() as claims, closing_outputs(outputs):
            claims.enter_context(claim_targets(topology.sinks, query, begins=True))
            recorders = recorders_of(topology.keyed) if self._record else None
            execution = Execution(
                topology,
                fast=self._fast,
                recorders=recorders,
                isolates_functions=self._isolates_functions,
                order=KeyOrder.of(self._shuffles_keys),
            )
            if start is not None:
                execution.go_on(start)
            reports = BatchReports(pipeline.name, topology, execution)
            asked_once = now_millis() if self._is_by_machine else None
            run = _Run(execution, topology, self._clock, query, outputs, reports, start, asked_once)
            streaming = not all(source_of(step).is_bounded for step in topology.sources)
            with (
                RunLineage(self._lineage, pipeline, "the interpreter", streaming=streaming).during_run(),
                reports.during_run(),
            ):
                run.execution.open()
                try:
                    with progress_shown(pipeline.name, run.measure, wanted=self._shows_progress):
                        run.batches(drain=drain, is_stopping=lambda: self._is_stopping)
                    if drain and not self._is_stopping:
                        run.warn_of_unfired()
                finally:
                    self._is_stopping = False  # not at the beginning: a signal may come before
                    run.execution.close()
        metrics = run.execution.step_metrics()
        recording = None if recorders is None else recording_of(recorders)
        return PipelineResult(
            pipeline,
            metrics.counters,
            dict(run.execution.written),
            run.collected,
            recording,
            gauges=metrics.gauges,
            histograms=metrics.histograms,
        )

    def _start(self, pipeline: Pipeline) -> RunStart | None:
        """Reads the savepoint, if there is one; a warning names the changes of the plan since."""
        if self._savepoint is None:
            return None
        start = savepoint_reader()(self._savepoint, pipeline, self._renamed, self._accepted)
        if start.changes:
            warn(
                "the plan has changed since the savepoint",
                given="; ".join(start.changes),
                where=os.fspath(self._savepoint),
                hint="if you meant this, nothing is to be done",
                location=line_of_caller(),
            )
        return start

    def stop(self) -> None:
        """Ends the run after the batch at hand, from a signal handler or another thread; open windows do not fire.

        ``run`` then returns what was collected and counted so far.
        """
        self._is_stopping = True


class _Run:
    """One run of a pipeline.

    On the machine's clock it has ``asked_once``, when it began, what there is to read: as on Spark no source falls
    silent by the time that the run itself takes.
    """

    def __init__(
        self,
        execution: Execution,
        topology: Topology,
        clock: Callable[[], int],
        query: str,
        outputs: Mapping[str, Output],
        reports: BatchReports,
        start: RunStart | None,
        asked_once: int | None,
    ) -> None:
        self._reports = reports
        self._asked_once = asked_once
        self._start = start
        self.execution = execution
        self._topology = topology
        self._clock = clock
        self._query = query
        self._outputs = outputs
        self._follows_clock = any(timestamps_of(step).strategy.silence is not None for step in topology.timestamps)
        self._batch = 0 if start is None else start.batch
        self._rows = 0
        self._watermark = MIN_TIMESTAMP
        # Any: elements of every sink.
        self.collected: dict[int, list[Any]] = {
            id(sink_of(step)): [] for step in topology.sinks if writer_of(step).keeps_elements
        }

    def batches(self, *, drain: bool, is_stopping: Callable[[], bool]) -> None:
        watermark = dict.fromkeys((step.id for step in self._topology.keyed), MIN_TIMESTAMP)
        if self._start is not None:
            watermark |= self._start.watermarks
        sources = self._topology.sources
        readers = [self._batches_of(step) for step in sources]
        ending = [ends_when_silent(step, drain=drain) for step in sources]
        ended: set[str] = set()
        scale = TimestampScale(self._topology)
        for batches in self._read(zip_longest(*readers)):
            ended = {
                step.id for step, ends, batch in zip(sources, ending, batches, strict=True) if ends and batch is None
            }
            inputs = self.execution.inputs_of(
                {step.id: batch for step, batch in zip(sources, batches, strict=True) if batch is not None}
            )
            watermark = self._round(inputs, watermark, ended)
            self._rows += sum(len(batch.values) + len(batch.malformed) for batch in batches if batch is not None)
            self._watermark = min(watermark.values(), default=MIN_TIMESTAMP)
            scale.check(watermark)
            if is_stopping():
                return
        ended = {step.id for step, ends in zip(sources, ending, strict=True) if ends}
        # The watermark of the last batch still has to take effect, and its results may lead to further watermarks.
        while (following := self._round({}, watermark, ended)) != watermark:
            # A watermark that follows the clock has no end of its own.
            if self._follows_clock and not self.execution.is_due(following):
                break
            watermark = following
        if drain:
            self._round({}, dict.fromkeys(watermark, MAX_TIMESTAMP), ended)

    def _batches_of(self, step: Step) -> Iterator[SourceBatch]:
        left = None if self._start is None else self._start.sources.get(step.id)
        return (reader_of(step).batches if left is None else left)(partial(self.execution.held, step.id))

    def _read(self, batches: Iterator[tuple[SourceBatch | None, ...]]) -> Iterator[tuple[SourceBatch | None, ...]]:
        """Reads the batches of all sources, and measures the time that it takes."""
        while True:
            with self._reports.measured("plan"):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def measure(self) -> Measure:
        """Returns how far the run is; another thread calls this."""
        watermark = self._watermark
        return Measure(
            rows=self._rows,
            rows_total=rows_there(self._topology.sources),
            batches=self._batch,
            watermark=watermark if MIN_TIMESTAMP < watermark < MAX_TIMESTAMP else None,
        )

    def warn_of_unfired(self) -> None:
        """Warns of windows and timers in processing time that are left when the run ends, and do not fire."""
        for step in self._topology.keyed:
            windows = step.node.windows
            if windows is None or not in_processing_time(windows):
                self._warn_of_timers(step)
                continue
            count = sum(1 for _ in self.execution.operators[step.id].open_windows())
            if count:
                warn(
                    "windows in processing time were open when the run ended, and did not fire",
                    given=f"{count} of {windows.assigner.describe()}",
                    where=step.where,
                    hint="use windows in event time for bounded input; in tests LocalRunner(clock=...) moves the "
                    "clock from batch to batch, and StreamHarness.set_processing_time at will",
                    location=step.node.location,
                )

    def _warn_of_timers(self, step: Step) -> None:
        timers = self.execution.operators[step.id].state.processing_timers
        # Timers for expiring state do not count.
        count = sum(1 for _, namespace, _ in timers if not isinstance(namespace, TtlTimer))
        if count:
            warn(
                "timers in processing time were set when the run ended, and did not fire",
                given=f"{count} of {step.node.describe()}",
                where=step.where,
                hint="use timers in event time for bounded input; in tests LocalRunner(clock=...) moves the clock",
                location=step.node.location,
            )

    def _round(
        self, inputs: dict[Port, StampedElements], watermark: Mapping[str, int], ended: Collection[str]
    ) -> dict[str, int]:
        now = clock_millis(self._clock)
        with self._reports.measured("compute"):
            self.execution.round(inputs, watermark=watermark, processing_time=now)
        check_owners(self._topology.sinks, self._query)
        with self._reports.measured("write"):
            self.execution.write_sinks(self._topology.sinks, self._batch, self.collected, self._outputs)
        self._batch += 1
        exhausted = {step.id for step in self._topology.sources if step.id in ended and reader_of(step).may_grow}
        following = self.execution.end_batch(now, set(ended) - exhausted, exhausted, self._asked_once)
        self._reports.end_batch(following, now)
        return following
