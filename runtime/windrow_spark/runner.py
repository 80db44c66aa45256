"""Defines the runner of pipelines on Spark."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from windrow import DataStream
from windrow.addresses.paths import checked_path, reads_from
from windrow.addresses.redaction import redact_address
from windrow.counts import check_positive
from windrow.errors import IncompatibleStateError, InvalidArgumentError, UnsupportedOperationError
from windrow.functions.names import function_name
from windrow.plan import Form, Pipeline, Step
from windrow.time import now_millis
from windrow.triggers.call_text import call_text
from windrow_runtime.bar import progress_shown
from windrow_runtime.inputs.checks import check_bounded, check_sources, ends_when_silent
from windrow_runtime.inputs.reader import reader_of
from windrow_runtime.lineage import OpenLineage, RunLineage
from windrow_runtime.operators.outcome import secrets_of, short_tracebacks
from windrow_runtime.operators.topology import Topology, check_step_names, sink_of, source_of, topology_of
from windrow_runtime.operators.watermarks import clock_millis
from windrow_runtime.outputs.process_lock import OwnStack
from windrow_runtime.outputs.registry import check_free, claim_targets, closing_outputs, open_outputs
from windrow_runtime.outputs.result import PipelineResult
from windrow_spark.checkpoint.asked import AskedSources
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.lease import lock_of
from windrow_spark.checkpoint.storage import HadoopPath, StoragePath, unset_elsewhere, warn_of_uploads
from windrow_spark.checkpoint.stored_plan import Parallelism, resume, stored_on_columns, unstored
from windrow_spark.clock_keeper import ClockKeeper
from windrow_spark.faults import secrets_hidden
from windrow_spark.importing import check_imported
from windrow_spark.lowering import Lowered, per_partition, physical_plan, time_of
from windrow_spark.physical.plan import PhysicalPlan
from windrow_spark.progress import OnProgress
from windrow_spark.run.background import ctrl_c_kept, uninterrupted
from windrow_spark.run.measures import has_own_bar
from windrow_spark.run.query import Query, run_job
from windrow_spark.run.running import RunningPipeline
from windrow_spark.run_limits import USUAL_LIMITS, RunLimits
from windrow_spark.savepoint.description import SavepointFolder
from windrow_spark.savepoint.fitting import PlanChange
from windrow_spark.savepoint.in_place import finish_growth, grow, has_begun_to_grow
from windrow_spark.savepoint.restoring import Restoration, check_restored, restore
from windrow_spark.session import (
    JOB_SETTINGS,
    SHUFFLE_PARTITIONS,
    STATE,
    check_temporary_state,
    is_connect,
    keep_session,
    local_session,
    own_partitions,
    prepare_workers,
    session_there,
    session_with,
    warn_of_partitions,
)
from windrow_spark.sinks.batch_writer import driver_sinks
from windrow_spark.sinks.data_frame import pipeline_of
from windrow_spark.sinks.spark_writer import WrittenBy, check_unwritten, spark_writer_of, written_by
from windrow_spark.sinks.unpacking import unpacked
from windrow_spark.sources.scanner import count_logged, scanner_of

__all__ = ["RunningPipeline", "SparkRunner"]


class SparkRunner:
    """Runs a pipeline as one streaming query of Spark.

    Args:
        spark: The session; by default the active one, or a new one on this machine, which the first run starts.
        checkpoint: The folder in which the query keeps its progress and its state, in a file system that every machine
            has mounted, or that the session's Hadoop knows, such as ``s3a://bucket/folder``. A run that is given the
            folder of an earlier one goes on where that one stopped. By default a temporary one, which is deleted at
            the end.
        partitions: Into how many partitions Spark shuffles, and so how many cores keyed steps can use. By default the
            session's number; Spark's own default of 200 suits a cluster. The first run of a checkpoint fixes it: later
            runs use the stored number, whatever the session has, and refuse another one that is given here.
        key_groups_per_partition: Into how many groups the keys of each shuffle partition are hashed; 2 by default.
            Fixed by the first run as well.
        clock: Gives processing time in milliseconds, for tests; called on the driver, once for each batch. By default
            Spark's clock.
        columnar: Whether steps whose functions windrow understands run on Arrow columns; the results are the same,
            floats but for their last bits. ``pipeline.explain(runner)`` shows which do, and why others do not.
        verbose: Whether to show all messages of Spark. By default a session that the runner starts writes to stderr
            only output of the user's functions, errors that do not end the query, and one line of Java's; and
            errors come with the user's lines of the traceback alone. It changes no session that is there already,
            nor a configuration of log4j of the user's.
        on_progress: Called with a :class:`PipelineProgress` for each batch, when the sinks have it; the next one waits
            until it returns. An error that it raises is logged by the logger ``windrow``, and the pipeline goes on.
            Over Spark Connect a thread of this process calls it, a little later. The same logger gets one line for
            each batch at its level INFO.
        accept_changes: The ids, as ``explain()`` shows them, or the names of steps that may take other streams or keys
            than in the run before, or aggregate and join other things. What is stored of them stays as it is, and later
            runs are compared with this one. Leave it out once a run has accepted the changes.
        progress: Whether a run that ends by itself, and takes more than a second, shows how far it is, in the last row
            of the terminal that stderr is, or in the notebook. Nothing is shown elsewhere, by ``start``, and where
            Spark shows its own bar (``spark.ui.showConsoleProgress``).
        lineage: Tells a catalog what each run reads and writes, :class:`windrow_runtime.lineage.OpenLineage`. A query
            that :meth:`to_dataframe` hands to Spark is the user's, and is not told.
        savepoint: The folder of a savepoint from which a new checkpoint begins: its state, the positions of its sources
            and the numbers of its batches, on as many ``partitions`` and key groups as are given, by default on those
            of the savepoint. The plan may have changed since: steps go on by their names, and a warning says what
            begins empty and what is gone. A checkpoint that began from it goes on by itself.
        renamed: The new names of steps, by their names in the savepoint.

    Raises:
        UnsupportedOperationError: If Spark or Java is missing; the error names what to install.
        InvalidArgumentError: If ``partitions`` or ``key_groups_per_partition`` is not positive, or ``accept_changes``
            or ``savepoint`` is given without a checkpoint.
    """

    _limits: ClassVar[RunLimits] = USUAL_LIMITS

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        partitions: int | None = None,
        key_groups_per_partition: int | None = None,
        clock: Callable[[], int] | None = None,
        columnar: bool = True,
        verbose: bool = False,
        on_progress: OnProgress | None = None,
        accept_changes: Collection[str] = (),
        progress: bool = True,
        lineage: OpenLineage | None = None,
        savepoint: str | os.PathLike[str] | None = None,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        check_step_names(accept_changes)
        if accept_changes and checkpoint is None:
            raise InvalidArgumentError(
                "only a run that goes on from a checkpoint has changes to accept",
                given=f"accept_changes={accept_changes!r}",
                expected="SparkRunner(checkpoint=folder, accept_changes=[...])",
            )
        if renamed and savepoint is None:
            raise InvalidArgumentError(
                "steps are renamed between a savepoint and a plan",
                given=f"renamed={dict(renamed)!r}",
                expected="SparkRunner(checkpoint=folder, savepoint=..., renamed=...)",
            )
        if savepoint is not None and checkpoint is None:
            raise InvalidArgumentError(
                "only a new checkpoint begins from a savepoint",
                given=f"savepoint={os.fspath(savepoint)!r}",
                expected="SparkRunner(checkpoint=folder, savepoint=...)",
            )
        if checkpoint is not None:
            checked_path(checkpoint, "a checkpoint is kept at")
        if savepoint is not None:
            checked_path(savepoint, "a savepoint is kept at")
        for name, number in (("partitions", partitions), ("key_groups_per_partition", key_groups_per_partition)):
            if number is not None:
                check_positive(number, name)
        self._partitions = partitions
        # A new session is started when it is needed, so that a plan that cannot run is refused before; but with
        # `verbose` it is started here, to show all messages of Spark.
        self._session = spark if spark is not None else session_there()
        self._is_verbose = verbose
        self._checkpoint = checkpoint
        self._clock = clock
        self._groups_per_partition = key_groups_per_partition
        self._columnar = columnar
        self._on_progress = on_progress
        self._accepted = tuple(accept_changes)
        self._shows_progress = progress
        self._lineage = lineage
        self._savepoint = None if savepoint is None else SavepointFolder.at(savepoint)
        self._renamed = dict(renamed or {})
        if verbose:
            _ = self.spark

    def __repr__(self) -> str:
        numbers = {"partitions": self._partitions, "key_groups_per_partition": self._groups_per_partition}
        return call_text(
            type(self).__name__,
            checkpoint=None if self._checkpoint is None else repr(redact_address(os.fspath(self._checkpoint))),
            **{name: None if number is None else str(number) for name, number in numbers.items()},
            clock=None if self._clock is None else function_name(self._clock),
            columnar=None if self._columnar else "False",
            verbose="True" if self._is_verbose else None,
            on_progress=None if self._on_progress is None else function_name(self._on_progress),
            accept_changes=repr(list(self._accepted)) if self._accepted else None,
            progress=None if self._shows_progress else "False",
            lineage=None if self._lineage is None else repr(self._lineage),
            savepoint=None if self._savepoint is None else repr(str(self._savepoint.path)),
            renamed=repr(self._renamed) if self._renamed else None,
        )

    @property
    def spark(self) -> SparkSession:
        """The session. A new one is started when this is asked for, or by the first run."""
        if self._session is None:
            with ctrl_c_kept():
                self._session = local_session(os.cpu_count() or 1, verbose=self._is_verbose)
        keep_session(self._session)
        return self._session

    def _check_before_start(self, sources: Iterable[Step], sinks: Iterable[Step]) -> None:
        for step in sources:
            scanner_of(step).check_plan()
        for step in sinks:
            spark_writer_of(step).check_plan()

    def forms(self, pipeline: Pipeline) -> dict[str, Form]:
        """Describes the form in which each keyed step runs, by its id, for ``pipeline.explain(runner)``.

        A checkpoint that was begun without columns goes on without them, whatever a new one would do.

        Args:
            pipeline: The pipeline.
        """
        return physical_plan(topology_of(pipeline), columnar=self._columnar).forms()

    @short_tracebacks
    def run(self, pipeline: Pipeline, *, drain: bool = True) -> PipelineResult:
        """Run over the elements that the sources have now, then stop.

        Args:
            pipeline: The pipeline.
            drain: Whether the end of the sources is the end of the stream: windows that are open then fire. Without
                it they stay open in the checkpoint. A checkpoint that was drained cannot be used again.

        Returns:
            The collected elements and the counts.

        Raises:
            SourceError: If a source cannot be read.
            MalformedRecordError: For a record that does not fit, unless its source drops or routes such records.
            UserFunctionError: If a function of the pipeline raised.
            UnsupportedOperationError: For a step, source or sink that does not run on Spark.
            SinkError: If a sink cannot be written, a table does not fit the elements, or the folder of a file sink
                holds the batches of another run.
            IncompatibleStateError: If the checkpoint belongs to another plan, or has another parallelism.
            CheckpointError: If another run uses the checkpoint, if it is damaged or not whole, or cannot be read or
                written.
            EngineError: If Spark gave up for a reason outside of the pipeline.

        Example:
            .. code-block:: python

                sink = CollectSink[int]()
                pipeline = Pipeline("numbers", from_collection([1, 2]).map(lambda number: number * 2).sink_to(sink))
                SparkRunner().run(pipeline).collected(sink)  # [2, 4]
        """
        topology_of(pipeline)  # refuses what is no pipeline, and has no name for the bar
        query: Query | None = None
        wanted = self._wants_bar()
        with progress_shown(pipeline.name, lambda: None if query is None else query.measure(), wanted=wanted):
            query = self._prepare(pipeline, self._on_progress, drain=drain)
            return _finished(query, drain=drain)

    def _wants_bar(self) -> bool:
        return self._shows_progress and not has_own_bar(self._session)

    @short_tracebacks
    def run_batch(self, pipeline: Pipeline) -> PipelineResult:
        """Run over bounded sources as a Spark batch job: the same plan without a streaming query and its state.

        All elements are processed under no watermark, file by file in the order of their modification, and those of one
        millisecond by name; then the watermark advances to the end of time and everything fires. So no element is late,
        and no pane comes before. A source's ``files_per_batch`` or ``batch_size`` has no effect. Sinks are written as
        batch 0. The job keeps no progress: if it fails, it is run again from the beginning.

        Args:
            pipeline: The pipeline.

        Returns:
            The collected elements and the counts.

        Raises:
            InvalidArgumentError: If the runner has a checkpoint, which a batch job has no use for.
            SourceError: If a source cannot be read.
            MalformedRecordError: For a record that does not fit, unless its source drops or routes such records.
            UserFunctionError: If a function of the pipeline raised.
            UnsupportedOperationError: For a source without an end, for a step that waits for the clock, and for a
                source or sink that a batch job does not have.
            SinkError: If a sink cannot be written, a table does not fit the elements, or the folder of a file sink
                holds the batches of another run.
        """
        self._refuse_checkpoint("run_batch(pipeline)")
        topology = topology_of(pipeline)
        check_imported(pipeline.steps)
        check_sources(topology.sources)
        self._check_before_start(topology.sources, topology.sinks)
        self._check_sinks(topology.sinks)
        lowered = self._batch(pipeline, topology, session_with(self.spark, JOB_SETTINGS))
        with RunLineage(self._lineage, pipeline, "Spark", streaming=False).during_run():
            return run_job(lowered, self._on_progress, shows_progress=self._wants_bar())

    @short_tracebacks
    def start(
        self, pipeline: Pipeline, *, interval_seconds: float = 0.0, on_progress: OnProgress | None = None
    ) -> RunningPipeline:
        """Run until stopped.

        Args:
            pipeline: The pipeline.
            interval_seconds: How often a batch begins; 0: as soon as the one before has ended.
            on_progress: Takes the place of the runner's for this run.

        Returns:
            The running pipeline.

        Raises:
            InvalidArgumentError: If the runner has no checkpoint, or one in a folder that a source reads.
            SourceError: If a source cannot be read.
            UnsupportedOperationError: For a step, source or sink that does not run on Spark.
            SinkError: If a database or a Delta table cannot be reached or does not fit the elements, or the folder of
                a file sink holds the batches of another run.
            IncompatibleStateError: If the checkpoint belongs to another plan, has another parallelism, or was drained.
            CheckpointError: If another run uses the checkpoint, if it is damaged or not whole, or cannot be read or
                written.

        Example:
            .. code-block:: python

                running = SparkRunner(checkpoint="/data/checkpoints/clicks").start(pipeline, interval_seconds=5)
                running.counters()  # what each step has counted so far
                running.stop()  # a later start with the same folder goes on here
        """
        if self._checkpoint is None:
            raise InvalidArgumentError(
                "a pipeline that runs until it is stopped needs a checkpoint",
                expected="SparkRunner(checkpoint=...)",
                hint="it goes on from there when it is started again",
            )
        query = self._prepare(pipeline, on_progress or self._on_progress, drain=False, waits=True)
        try:
            return RunningPipeline(query, query.attend(lambda: query.start(interval_seconds)))
        except BaseException as error:
            query.end(error)
            raise

    @short_tracebacks
    def to_dataframe(self, stream: DataStream[Any], *, name: str = "dataframe", batch: bool = False) -> DataFrame:
        """Makes a streaming DataFrame of a stream's elements, for Spark's own writers and SQL.

        The columns come from the elements' type. Give Spark the runner's checkpoint as ``checkpointLocation``, so that
        the files of Spark and those of windrow (in its sub-folder ``windrow``) stay together; one folder is for one
        query. The query is yours: windrow never ends the stream, so windows that are open stay in the checkpoint,
        and counters are not kept.

        The session keeps its settings. With keyed steps the query needs some, such as the runner's partitions: if the
        session has others, the frame belongs to a copy of it, ``frame.sparkSession``.

        Args:
            stream: The stream.
            name: Names the plan in errors.
            batch: Whether to make a static DataFrame instead, over bounded sources, as :meth:`run_batch` would compute
                it. It needs no checkpoint, and has the results of windows that are open at the end.

        Raises:
            InvalidArgumentError: If a streaming DataFrame has no checkpoint, or a static one has one, if the runner has
                ``on_progress``, which no query of the user's calls, or ``stream`` is not a stream.
            PlanError: If the plan has faults, such as a type of elements that is not known.
            SourceError: If a source cannot be read.
            UnsupportedOperationError: For a step or source that does not run on Spark.
            IncompatibleStateError: If the checkpoint belongs to another plan, or has another parallelism.
            CheckpointError: If the checkpoint is damaged or not whole, or cannot be read or written.
        """
        if self._on_progress is not None:
            raise InvalidArgumentError(
                "windrow does not run the query of a DataFrame, so nothing is reported",
                given=f"on_progress={self._on_progress!r}",
                expected="a runner without on_progress",
                hint="a StreamingQueryListener of Spark's is told of the query's batches",
            )
        if batch:
            self._refuse_checkpoint("to_dataframe(stream, batch=True)")
        if self._savepoint is not None:
            raise InvalidArgumentError(
                "the query of a DataFrame does not begin from a savepoint",
                given=f"savepoint={str(self._savepoint.path)!r}",
                expected="a runner without a savepoint",
                hint="run(pipeline) and start(pipeline) begin from one",
            )
        pipeline = pipeline_of(stream, name)
        topology = topology_of(pipeline)
        check_imported(pipeline.steps)
        check_sources(topology.sources, waits=not batch)
        self._check_before_start(topology.sources, topology.sinks)
        if batch:
            lowered = self._batch(pipeline, topology, self.spark)
        else:
            if self._checkpoint is not None:
                _check_checkpoint_apart(topology.sources, os.fspath(self._checkpoint))
            lowered = self._lowered(
                pipeline, topology, Checkpoint.in_query_folder(self._checkpoint, self._elsewhere()), by_user=True
            )
            lowered.wake()
        ((number, step),) = lowered.sinks.items()
        return unpacked(lowered.frame, number, step, lowered.classes)

    def _refuse_checkpoint(self, call: str) -> None:
        if self._checkpoint is not None:
            raise InvalidArgumentError(
                "a batch job keeps no progress",
                given=os.fspath(self._checkpoint),
                expected="a runner without a checkpoint",
                hint=f"SparkRunner(spark).{call}",
            )

    def _prepare(
        self, pipeline: Pipeline, on_progress: OnProgress | None, *, drain: bool, waits: bool = False
    ) -> Query:
        """Prepares the query of a run, which holds the lock of its checkpoint and the outputs of sinks."""
        topology = topology_of(pipeline)
        check_imported(pipeline.steps)
        if drain:
            check_bounded(topology.sources, "a stream without an end cannot be drained")
        check_sources(topology.sources, waits=waits)
        self._check_before_start(topology.sources, topology.sinks)
        with ctrl_c_kept(), OwnStack() as opened:
            # This check precedes all writes: a checkpoint in the folder of a source would be read as elements.
            if self._checkpoint is not None:
                _check_checkpoint_apart(topology.sources, os.fspath(self._checkpoint))
                checkpoint = Checkpoint.at(self._checkpoint, self._elsewhere())
            else:
                if topology.keyed:
                    check_temporary_state(self.spark)
                checkpoint = Checkpoint(opened.enter_context(_temporary_folder()))
                _check_checkpoint_apart(topology.sources, os.fspath(checkpoint.path))
            if isinstance(checkpoint.path, HadoopPath) and topology.keyed:
                warn_of_uploads(checkpoint.path)
            lock = lock_of(checkpoint.path, self._limits.lease_seconds)
            opened.callback(lock.release)
            claims = opened.enter_context(ExitStack())  # released after the outputs are closed
            self._check_sinks(topology.sinks)
            if has_begun_to_grow(checkpoint):
                finish_growth(self.spark, checkpoint, pipeline, self._restoration(is_in_place=True))
            if check_restored(checkpoint, self._savepoint):
                assert self._savepoint is not None, "it is restored"
                restore(self.spark, checkpoint, pipeline, self._savepoint, self._restoration())
            checkpoint.check_open(drain=drain)
            for step in topology.sources:
                scanner_of(step).check_resumable(checkpoint)
            lowered = self._lowered_or_grown(pipeline, topology, checkpoint)
            begins = checkpoint.last_planned() < 0
            check_free(topology.sinks, lowered.query_id, begins=begins)
            if begins:
                uninterrupted(lambda: check_unwritten(self.spark, topology.sinks), self.spark)
            sinks = driver_sinks(topology.sinks)
            if is_connect(self.spark):
                # The server opens users' own sinks.
                sinks = [step for step in sinks if not spark_writer_of(step).is_opened_by_server]
            outputs = open_outputs(sinks, lowered.query_id, lowered.identities)
            opened.enter_context(closing_outputs(outputs))
            # Folders are claimed after all checks that may refuse the run, and before the keeper begins a batch.
            claims.enter_context(
                claim_targets(topology.sinks, lowered.query_id, begins=begins, is_live=lambda: lock.is_held)
            )
            keeper = None
            if lowered.clock is not None:
                sources = lowered.topology.sources
                keeper = ClockKeeper(
                    lowered.clock,
                    lowered.steps.plan.topology,
                    self._clock,
                    lowered.codec,
                    ending={
                        step.id: reader_of(step).may_grow for step in sources if ends_when_silent(step, drain=drain)
                    },
                    planned=checkpoint.last_planned(),
                    partitioned=lowered.partitioned,
                    aligned=lowered.aligned,
                    asked=_asked_sources(lowered, checkpoint, waits=waits),
                )
                keeper.begin()
            query = Query(
                lowered,
                checkpoint,
                lock,
                outputs,
                keeper,
                verbose=self._is_verbose,
                on_progress=on_progress,
                begins=begins,
                now=partial(clock_millis, self._clock or now_millis),
                lineage=RunLineage(self._lineage, pipeline, "Spark", streaming=waits or not _is_bounded(topology)),
                unfinished=_unfinished(lowered, checkpoint),
            )
            query.opened = opened.pop_all()
            return query

    def _elsewhere(self) -> Callable[[str], StoragePath] | None:
        """Returns what opens checkpoints in file systems that are not mounted; None: nothing, over Spark Connect."""
        is_remote = self._session is not None and is_connect(self._session)
        return None if is_remote else lambda url: HadoopPath.of(self.spark, url, uninterrupted)

    def _check_sinks(self, sinks: Iterable[Step]) -> None:
        for step in sinks:
            spark_writer_of(step).check_target(self.spark)

    def _wanted(self) -> Parallelism:
        return Parallelism(self._partitions, self._groups_per_partition, own_partitions(self.spark))

    def _restoration(self, *, is_in_place: bool = False) -> Restoration:
        def time(plan: PhysicalPlan, saved: Checkpoint) -> str:
            by_partition = per_partition(plan.topology, saved, lambda: is_connect(self.spark))
            return time_of(plan, own_clock=self._clock is not None, per_partition=by_partition)

        # Steps were renamed when the checkpoint began.
        change = PlanChange({} if is_in_place else self._renamed, self._accepted, self._columnar)
        return Restoration(self._wanted(), change, time, self._clock, is_in_place=is_in_place)

    def _batch(self, pipeline: Pipeline, topology: Topology, spark: SparkSession) -> Lowered:
        """Lowers a pipeline to a batch job; refuses unbounded sources, and steps that wait for the clock."""
        prepare_workers(spark)
        groups = self._wanted().groups()
        if topology.keyed and self._partitions is None:
            warn_of_partitions(self.spark, groups.partitions)
        with ctrl_c_kept(), _secrets_hidden(pipeline):
            check_bounded(topology.sources, "a batch job reads sources that come to an end")
            for step in topology.by_clock:
                raise UnsupportedOperationError(
                    "a step waits for the clock, and a batch job has one instant",
                    given=step.node.describe(),
                    expected="windows, triggers and timers in event time",
                    where=step.where,
                    hint="run(pipeline)",
                )
            plan = physical_plan(topology, columnar=self._columnar)
            now = clock_millis(self._clock or now_millis)
            lower = partial(Lowered, now=now, limits=self._limits)
            return uninterrupted(lambda: lower(spark, pipeline, plan, unstored(plan, groups)), spark)

    def _lowered_or_grown(self, pipeline: Pipeline, topology: Topology, checkpoint: Checkpoint) -> Lowered:
        """Lowers a pipeline to a streaming query; a plan that has more than before gets a checkpoint that has more."""
        try:
            return self._lowered(pipeline, topology, checkpoint)
        except IncompatibleStateError as error:
            refused = error
        if not grow(self.spark, checkpoint, pipeline, self._restoration(is_in_place=True)):
            raise refused
        return self._lowered(pipeline, topology, checkpoint)

    def _lowered(
        self, pipeline: Pipeline, topology: Topology, checkpoint: Checkpoint, *, by_user: bool = False
    ) -> Lowered:
        """Lowers a pipeline to a streaming query, and checks its checkpoint; ``by_user`` if the user starts it."""
        stored_steps = stored_on_columns(checkpoint, topology)
        plan = physical_plan(topology, columnar=self._columnar, stored=stored_steps)
        stored = resume(
            checkpoint,
            plan,
            time_of(
                plan,
                own_clock=self._clock is not None,
                per_partition=per_partition(topology, checkpoint, lambda: is_connect(self.spark)),
            ),
            self._wanted(),
            self._accepted,
            begins=not checkpoint.has_run(),
            is_kept=by_user or self._checkpoint is not None,
        )
        checkpoint.check_whole(count_logged(topology.sources), stateful=bool(topology.keyed))
        if topology.keyed and self._partitions is None and checkpoint.last_planned() < 0:
            warn_of_partitions(self.spark, stored.groups.partitions)
        spark = self.spark
        if by_user:
            # The user's session has to shuffle into as many partitions as the stored state has.
            partitions = {SHUFFLE_PARTITIONS: str(stored.groups.partitions)}
            settings = {**STATE, **partitions} if topology.keyed else {}
            spark = session_with(spark, settings if checkpoint.is_mounted else settings | unset_elsewhere(spark))
        else:
            checkpoint.clear_leftovers()
        prepare_workers(spark)
        with _secrets_hidden(pipeline):
            lower = partial(Lowered, checkpoint=checkpoint, limits=self._limits)
            lowered = uninterrupted(lambda: lower(spark, pipeline, plan, stored), spark)
        for step in topology.sinks if lowered.clock is not None else ():
            if written_by(step) is WrittenBy.QUERY:
                raise UnsupportedOperationError(
                    "Spark writes to this sink by itself, and the plan's watermark has to be computed after each batch",
                    given=sink_of(step).describe(),
                    expected="one timestamp-assigning step, upstream of all keyed steps, with a strategy of windrow's "
                    "without with_silence, and no keyed step downstream of another one if one of them waits for the "
                    "clock",
                    where=step.where,
                    hint="write with a FunctionSink or to files, or assign timestamps once",
                )
        return lowered


def _asked_sources(lowered: Lowered, checkpoint: Checkpoint, *, waits: bool) -> AskedSources | None:
    """Returns what tells when sources were asked, if watermarks follow the clock; a run ``waits`` for new elements."""
    if not lowered.follows_clock:
        return None
    asked_once = None if waits else now_millis()
    sources = lowered.topology.sources
    of_user = [step.id for step in sources if scanner_of(step).is_stream_of_user]
    return AskedSources(checkpoint.spark_path, [step.id for step in sources], asked_once, of_user=of_user)


def _is_bounded(topology: Topology) -> bool:
    return all(source_of(step).is_bounded for step in topology.sources)


def _unfinished(lowered: Lowered, checkpoint: Checkpoint) -> Lowered | None:
    """Returns the query that divides batches as the run before, if that has left one unfinished; None: as this one."""
    noted = None if lowered.division is None else checkpoint.division.read()
    if noted is None or noted == lowered.division or checkpoint.is_committed(checkpoint.last_planned()):
        return None
    with _secrets_hidden(lowered.pipeline):
        return uninterrupted(lambda: lowered.divided_by(noted), lowered.spark)


def _finished(query: Query, *, drain: bool) -> PipelineResult:
    """Runs a query over what its sources have now, or drains it, and closes it."""

    def run() -> PipelineResult:
        if drain:
            query.drain()
        else:
            query.run_available()
        return query.result()

    try:
        result = query.attend(run)
    except BaseException as error:
        query.end(error)
        raise
    query.close()
    return result


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Creates a folder that this process deletes after the block, or when it ends; a forked process does not."""
    folder, process = tempfile.mkdtemp(prefix="windrow-"), os.getpid()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    try:
        yield Path(folder)
    finally:
        atexit.unregister(remove)
        remove()


def _secrets_hidden(pipeline: Pipeline) -> AbstractContextManager[None]:
    """Hides secrets in errors while Spark creates the sources, since these errors show the options."""
    return secrets_hidden(secrets_of(pipeline.steps), f"pipeline {pipeline.name!r}")


def _check_checkpoint_apart(sources: Iterable[Step], path: str) -> None:
    for step in sources:
        for folder in source_of(step).read_folders:
            if reads_from(folder, path):
                raise InvalidArgumentError(
                    "the checkpoint lies in a folder that a source reads, so the source would read it",
                    given=path,
                    expected=f"a folder outside of {redact_address(folder)}",
                    where=step.where,
                    hint="SparkRunner(checkpoint=...) says where it is; by default it is in the folder for temporary "
                    "files",
                )
