"""Runs pipelines on Spark."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow import DataStream
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, WindrowError
from windrow.kafka import KafkaSink
from windrow.plan import Pipeline, SinkNode, SourceNode, Step
from windrow.sinks import (
    CollectSink,
    ConsoleSink,
    FileSink,
    FunctionSink,
    JsonFileSink,
    ParquetFileSink,
    WriterSink,
)
from windrow_runtime.operators.result import PipelineResult
from windrow_runtime.operators.step_errors import sink_unwritable
from windrow_runtime.operators.topology import Topology
from windrow_runtime.outputs import Output, has_output, open_outputs
from windrow_runtime.spark.batch_job import batch_job, run_job
from windrow_runtime.spark.checkpoint import Checkpoint
from windrow_runtime.spark.classes import register_classes
from windrow_runtime.spark.clock_keeper import ClockKeeper
from windrow_runtime.spark.columns_sink import ColumnsSink, checkpoint_inside, pipeline_of
from windrow_runtime.spark.engine_errors import engine_failure
from windrow_runtime.spark.kafka import check_connector
from windrow_runtime.spark.key_groups import KeyGroups
from windrow_runtime.spark.lowering import Lowered, lower
from windrow_runtime.spark.readers import is_bounded
from windrow_runtime.spark.results import MemoryResults, Results, SpooledResults
from windrow_runtime.spark.session import configure, is_connect, local_session
from windrow_runtime.spark.shipping import detached, without_ends
from windrow_runtime.spark.state_codec import StateCodec
from windrow_runtime.spark.writers import BatchWriter, ConnectWriter, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["RunningPipeline", "SparkRunner"]

_POLL_SECONDS = 0.1
_KNOWN_SINKS = (CollectSink, ConsoleSink, FunctionSink, JsonFileSink, KafkaSink, ParquetFileSink, WriterSink)


class SparkRunner:
    """Runs a pipeline as one streaming query of Spark.

    Args:
        spark: The session; by default the active one, or a new one on this machine.
        checkpoint: The folder in which the query keeps its progress and its state. A run that is given the folder of
            an earlier one goes on where that one stopped. By default a temporary one, which is deleted at the end.
        partitions: Into how many partitions Spark shuffles, and so how many cores keyed steps can use. By default what
            the session says; Spark's own default of 200 suits a cluster. Fixed by the first run of a checkpoint.
        key_groups_per_partition: Into how many groups the keys of each shuffle partition are hashed. Fixed by the
            first run of a checkpoint.
        clock: Gives processing time in milliseconds, for tests; called on the driver, once for each batch. By default
            Spark's clock.

    Raises:
        UnsupportedOperationError: Where Spark or Java is missing, with what to install.
        InvalidArgumentError: If ``partitions`` or ``key_groups_per_partition`` is not positive.
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        partitions: int | None = None,
        key_groups_per_partition: int = 2,
        clock: Callable[[], int] | None = None,
    ) -> None:
        for name, number in (
            ("partitions", partitions),
            ("key_groups_per_partition", key_groups_per_partition),
        ):
            if number is not None and number < 1:
                raise InvalidArgumentError(
                    f"{name} must be positive", given=number, expected="an int of at least 1"
                )
        self._partitions = partitions
        self._spark = spark if spark is not None else local_session(os.cpu_count() or 1)
        self._checkpoint = checkpoint
        self._clock = clock
        self._groups_per_partition = key_groups_per_partition

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    def run(self, pipeline: Pipeline, *, drain: bool = True) -> PipelineResult:
        """Run over what the sources have now, then stop.

        Args:
            pipeline: The pipeline.
            drain: Whether the end of the sources is the end of the stream: windows that are open then fire. Without
                it they stay open in the checkpoint. A checkpoint that was drained cannot be used again.

        Returns:
            What was collected and counted.

        Raises:
            SourceError: If a source cannot be read.
            MalformedRecordError: For a record that does not fit, unless its source drops or routes such records.
            UserFunctionError: If a function of the pipeline raised.
            UnsupportedOperationError: For a step, source or sink that does not run on Spark.
            SinkError: If a database or a Delta table cannot be written, or does not fit the elements.
            IncompatibleStateError: If the checkpoint belongs to another plan.
            CheckpointError: If the checkpoint is damaged, or cannot be read or written.
            EngineError: If Spark gave up for a reason outside of the pipeline.
        """
        for step in Topology(pipeline.steps).sources:
            if isinstance(step.node, SourceNode) and not is_bounded(step.node.source) and drain:
                raise UnsupportedOperationError(
                    "a stream without an end cannot be drained",
                    given=step.node.source.describe(),
                    expected="bounded sources",
                    where=step.where,
                    hint="run(pipeline, drain=False), or start(pipeline)",
                )
        with self._folder() as folder:
            query = self._prepare(pipeline, folder, drain=drain)
            ends = drain and bool(query.topology.keyed)
            if query.by_clock:
                query.run_idle(drain=drain)
            else:
                query.run_available()
                if ends:
                    query.end_stream()
                    query.run_available()
            if ends:
                folder.mark_drained()
            return query.result()

    def run_batch(self, pipeline: Pipeline) -> PipelineResult:
        """Run over bounded sources as a Spark batch job: the same plan without a streaming query and its state.

        The result is that of a streaming run with one micro-batch that is drained: all elements are processed under no
        watermark, then the watermark advances to the end of time and everything fires. So no element is late. Sinks
        are written as batch 0. The job keeps no progress: if it fails, it is run again from the beginning.

        Args:
            pipeline: The pipeline.

        Returns:
            What was collected and counted.

        Raises:
            InvalidArgumentError: If the runner has a checkpoint, which a batch job has no use for.
            SourceError: If a source cannot be read.
            MalformedRecordError: For a record that does not fit, unless its source drops or routes such records.
            UserFunctionError: If a function of the pipeline raised.
            UnsupportedOperationError: For a source without an end, for a step that waits for the clock, and for a
                source or sink that a batch job does not have.
            SinkError: If a database or a Delta table cannot be written, or does not fit the elements.
        """
        if self._checkpoint is not None:
            raise InvalidArgumentError(
                "a batch job keeps no progress",
                given=os.fspath(self._checkpoint),
                expected="a runner without a checkpoint",
                hint="SparkRunner(spark).run_batch(pipeline)",
            )
        self._check_sinks(Topology(pipeline.steps))
        return run_job(pipeline, self._batch(pipeline))

    def start(self, pipeline: Pipeline, *, interval_seconds: float = 0.0) -> RunningPipeline:
        """Run until stopped.

        Args:
            pipeline: The pipeline.
            interval_seconds: How often a batch begins; 0: as soon as the one before has ended.

        Returns:
            The running pipeline.

        Raises:
            InvalidArgumentError: If the runner has no checkpoint.
            SourceError: If a source cannot be read.
            UnsupportedOperationError: For a step, source or sink that does not run on Spark.
            SinkError: If a database or a Delta table cannot be reached, or does not fit the elements.
            IncompatibleStateError: If the checkpoint belongs to another plan, or was drained.
            CheckpointError: If the checkpoint is damaged, or cannot be read or written.
        """
        if self._checkpoint is None:
            raise InvalidArgumentError(
                "a pipeline that runs until it is stopped needs a checkpoint",
                expected="SparkRunner(checkpoint=...)",
                hint="it goes on from there when it is started again",
            )
        query = self._prepare(pipeline, Checkpoint.at(self._checkpoint), drain=False)
        return RunningPipeline(query, query.start(interval_seconds))

    def to_dataframe(
        self, stream: DataStream[Any], *, name: str = "dataframe", batch: bool = False
    ) -> DataFrame:
        """A stream's elements as a streaming DataFrame, for Spark's own writers and SQL.

        The columns come from the elements' type. Give Spark the runner's checkpoint as ``checkpointLocation``, so that
        what Spark keeps and what windrow keeps (in its sub-folder ``windrow``) stay together; one folder is for one
        query. The query is yours: nobody ends the stream, so windows that are open at its end stay in the checkpoint,
        and counters are not kept.

        Args:
            stream: The stream.
            name: Names the plan in errors.
            batch: Whether to make a static DataFrame instead, over bounded sources, as :meth:`run_batch` would compute
                it. It needs no checkpoint and has everything that is open at the end.

        Raises:
            InvalidArgumentError: If a streaming DataFrame has no checkpoint, or ``stream`` is not a stream.
            PlanError: If the plan has faults, such as a type of elements that is not known.
            SourceError: If a source cannot be read.
            UnsupportedOperationError: For a step or source that does not run on Spark.
            IncompatibleStateError: If the checkpoint belongs to another plan.
        """
        pipeline = pipeline_of(stream, name)
        lowered = (
            self._batch(pipeline) if batch else self._lower(pipeline, checkpoint_inside(self._checkpoint))
        )
        if lowered.clock is not None:
            for step in lowered.topology.sinks:
                _check_sink_of_own_clock(step)
        ((number, step),) = lowered.sinks.items()
        return unpacked(lowered.frame, number, step, lowered.classes)

    @contextmanager
    def _folder(self) -> Iterator[Checkpoint]:
        if self._checkpoint is not None:
            yield Checkpoint.at(self._checkpoint)
            return
        with tempfile.TemporaryDirectory(prefix="windrow-", ignore_cleanup_errors=True) as folder:
            yield Checkpoint(Path(folder))

    def _prepare(self, pipeline: Pipeline, checkpoint: Checkpoint, *, drain: bool) -> _Query:
        topology = Topology(pipeline.steps)
        self._check_sinks(topology)
        checkpoint.check_open(drain=drain)
        lowered = self._lower(pipeline, checkpoint)
        # Before the keeper, which begins a batch: what is refused here has begun nothing.
        outputs = open_outputs(topology.sinks, checkpoint.query_id())
        keeper = None
        if lowered.clock is not None:
            for step in topology.sinks:
                _check_sink_of_own_clock(step)
            keeper = ClockKeeper(
                lowered.clock,
                Topology(without_ends(topology.steps)),
                self._clock,
                StateCodec(lowered.classes, allow_pickled=pipeline.allow_pickled_state),
            )
            keeper.begin()
        return _Query(pipeline, checkpoint, lowered, outputs, keeper, on_server=is_connect(self._spark))

    def _check_sinks(self, topology: Topology) -> None:
        for step in topology.sinks:
            _check_sink(step)
            if isinstance(step.node, SinkNode) and isinstance(step.node.sink, KafkaSink):
                check_connector(self._spark, step)

    def _batch(self, pipeline: Pipeline) -> Lowered:
        configure(self._spark)
        return batch_job(self._spark, pipeline, self._groups(), self._clock)

    def _groups(self) -> KeyGroups:
        if self._partitions is not None:
            self._spark.conf.set("spark.sql.shuffle.partitions", str(self._partitions))
        partitions = int(str(self._spark.conf.get("spark.sql.shuffle.partitions", "200")))
        return KeyGroups.balanced(partitions, self._groups_per_partition)

    def _lower(self, pipeline: Pipeline, checkpoint: Checkpoint) -> Lowered:
        configure(self._spark)
        groups = checkpoint.groups_for(Topology(pipeline.steps), self._groups())
        return lower(self._spark, pipeline, checkpoint, groups, own_clock=self._clock is not None)


class _Query:
    """A pipeline, lowered, that can be run."""

    def __init__(
        self,
        pipeline: Pipeline,
        checkpoint: Checkpoint,
        lowered: Lowered,
        outputs: dict[str, Output],
        keeper: ClockKeeper | None,
        *,
        on_server: bool,
    ) -> None:
        self.pipeline = pipeline
        self.topology = lowered.topology
        self.by_clock = lowered.by_clock
        self._checkpoint = checkpoint
        self._lowered = lowered
        self._results: Results = MemoryResults()
        self._write: Callable[[DataFrame, int], None]
        if on_server:
            spooled = self._results = SpooledResults(checkpoint.results_folder)
            spooled.clear()
            register_classes(lowered.classes)
            sinks = {number: detached(step) for number, step in lowered.sinks.items()}
            self._write = ConnectWriter(sinks, lowered.classes, spooled, checkpoint.query_id(), keeper)
        else:
            batches = BatchWriter(lowered.sinks, lowered.classes, self._results, outputs, keeper)
            self._write = self._written_here(batches)
        self._failure: WindrowError | None = None

    # Any: a user's WriterSink may give any configured DataStreamWriter.
    def _writer(self) -> Any:
        for number, step in self._lowered.sinks.items():
            assert isinstance(step.node, SinkNode)
            if isinstance(step.node.sink, WriterSink):
                writer = step.node.sink.configure(
                    unpacked(self._lowered.frame, number, step, self._lowered.classes)
                )
                break
        else:
            writer = self._foreach_batch()
        return writer.queryName(self.pipeline.name).option(
            "checkpointLocation", self._checkpoint.spark_folder
        )

    # Any: Spark's two kinds of writers have no common type.
    def _foreach_batch(self) -> Any:
        from pyspark.errors import PySparkPicklingError

        try:
            return self._lowered.frame.writeStream.foreachBatch(self._write)
        except PySparkPicklingError as error:
            raise UnsupportedOperationError(
                "what writes the batches cannot be sent to the Spark Connect server",
                given=str(error.__cause__ or error).splitlines()[0],
                expected="functions of sinks, and a clock, that hold nothing but what can be pickled",
                where=self.pipeline.name,
                hint="open connections and files inside of the function",
            ) from error

    def _written_here(self, batches: BatchWriter) -> Callable[[DataFrame, int], None]:
        def write(frame: DataFrame, batch: int) -> None:
            try:
                batches(frame, batch)
            except Exception as error:
                # Spark turns what is raised here into an exception of its own.
                self._failure = engine_failure(error, self._place)
                raise

        return write

    @property
    def _place(self) -> str:
        return f"pipeline {self.pipeline.name!r}, checkpoint {self._checkpoint.path}"

    # Any: Spark's DataStreamWriter, see _writer.
    def _started(self, writer: Any) -> StreamingQuery:
        try:
            query: StreamingQuery = writer.start()
        except WindrowError:
            raise
        except Exception as error:
            failure = engine_failure(error, self._place)
            raise failure from failure.__cause__
        return query

    def run_available(self) -> None:
        """Run over what is there, and wait for the end."""
        self.wait(self._started(self._writer().trigger(availableNow=True)))

    def run_idle(self, *, drain: bool) -> None:
        """Run until every source is at its end, for a query that Spark would run for ever.

        Spark begins a batch at every trigger for a query that waits for the clock, so such a query is stopped when a
        batch found nothing to read. A batch that is under way then is run again by the next run, under its number.
        """
        # The first batch may be one that was planned before, so that it says nothing about what there is to read now.
        planned = self._checkpoint.last_planned()
        # Spark reads the end of the stream once. If a run before this one failed behind it, there is none to wait for.
        ends = drain and not self._checkpoint.is_ending
        query = self.start(0.0)
        try:
            last = self.wait_idle(query, after=planned)
            if ends:
                self.end_stream()
                # A batch reads the end of the stream, and the one behind it runs under its watermark.
                last = self.wait_idle(query, after=last, rows=True)
                self.wait_idle(query, after=last)
        finally:
            query.stop()

    def wait_idle(self, query: StreamingQuery, *, after: int, rows: bool = False) -> int:
        """Wait for a batch that read nothing.

        Args:
            query: The query.
            after: The number of the batch behind which to look.
            rows: Wait for a batch that read something instead.

        Returns:
            The number of the batch.

        Raises:
            WindrowError: Why the query failed.
        """
        while not self.wait(query, _POLL_SECONDS):
            for progress in query.recentProgress:
                batch = int(progress["batchId"])
                if batch > after and (progress.numInputRows > 0) == rows and (rows or self._settled(batch)):
                    return batch
        raise UnsupportedOperationError("the query was stopped by somebody else", given=self.pipeline.name)

    def _settled(self, batch: int) -> bool:
        """Whether the batch behind ``batch`` has the same watermark, so that nothing is left to do."""
        clock = self._lowered.clock
        if clock is None:
            return True
        told = clock.find(batch + 1)
        # The file of a batch of some time ago is gone: a later batch tells.
        return told is not None and told.settled

    def last_planned(self) -> int:
        """The number of the last batch that Spark has planned."""
        return self._checkpoint.last_planned()

    def start(self, interval_seconds: float) -> StreamingQuery:
        """Run until stopped."""
        interval = f"{round(interval_seconds * 1000)} milliseconds"
        return self._started(self._writer().trigger(processingTime=interval))

    def wait(self, query: StreamingQuery, timeout_seconds: float | None = None) -> bool:
        """Wait for the end of a query.

        Returns:
            Whether it has ended.

        Raises:
            WindrowError: Why it failed.
        """
        from pyspark.errors import StreamingQueryException

        try:
            if timeout_seconds is None:
                query.awaitTermination()
                return True
            return bool(query.awaitTermination(timeout_seconds))  # type: ignore[arg-type]  # Spark takes fractions
        except StreamingQueryException as error:
            failure = self._failure or engine_failure(error, self._place)
            raise failure from failure.__cause__

    def end_stream(self) -> None:
        """Say that the stream is at its end; the next run fires what is left."""
        self._checkpoint.end_stream()

    def result(self) -> PipelineResult:
        """What was collected and counted so far."""
        collected = {
            id(step.node.sink): self._results.collected(number)
            for number, step in self._lowered.sinks.items()
            if isinstance(step.node, SinkNode) and isinstance(step.node.sink, CollectSink)
        }
        return PipelineResult(self.pipeline, self._results.counters(), collected)


class RunningPipeline:
    """A pipeline that runs until it is stopped."""

    def __init__(self, query: _Query, streaming_query: StreamingQuery) -> None:
        self._query = query
        self._streaming_query = streaming_query

    @property
    def streaming_query(self) -> StreamingQuery:
        """Spark's query, with its progress."""
        return self._streaming_query

    @property
    def is_active(self) -> bool:
        """Whether it runs."""
        return bool(self._streaming_query.isActive)

    def await_termination(self, timeout_seconds: float | None = None) -> bool:
        """Wait until it is stopped or fails.

        Args:
            timeout_seconds: How long at most; None: for ever.

        Returns:
            Whether it has ended.

        Raises:
            WindrowError: Why it failed.
        """
        return self._query.wait(self._streaming_query, timeout_seconds)

    def process_available(self) -> None:
        """Wait until everything that the sources have now is processed.

        Raises:
            WindrowError: Why it failed, as :meth:`await_termination`.
        """
        from pyspark.errors import StreamingQueryException

        if self._query.by_clock:
            # Spark would wait for ever: such a query always has another batch to run.
            # The last batch that is planned may have been so before the sources had what they have now; so may the
            # next one, which Spark plans at this very moment.
            self._query.wait_idle(self._streaming_query, after=self._query.last_planned() + 1)
            return
        try:
            self._streaming_query.processAllAvailable()
        except StreamingQueryException:
            self._query.wait(self._streaming_query)

    def stop(self) -> PipelineResult:
        """Stop. What is done is in the checkpoint; a batch that is under way is run again at the next start.

        Returns:
            What was collected and counted since the start.
        """
        self._streaming_query.stop()
        return self._query.result()


def _check_sink_of_own_clock(step: Step) -> None:
    assert isinstance(step.node, SinkNode)
    if isinstance(step.node.sink, (WriterSink, ColumnsSink)):
        raise UnsupportedOperationError(
            "Spark writes to this sink by itself, and the plan's watermark has to be computed after each batch",
            given=step.node.sink.describe(),
            expected="one timestamp-assigning step, in front of all keyed steps, with a strategy of windrow's",
            where=step.where,
            hint="write with a FunctionSink or to files, or assign timestamps once",
        )


def _check_sink(step: Step) -> None:
    assert isinstance(step.node, SinkNode)
    sink = step.node.sink
    if isinstance(sink, _KNOWN_SINKS) or has_output(sink):
        if isinstance(sink, FileSink) and "://" not in sink.path:
            try:
                os.makedirs(sink.path, exist_ok=True)
            except OSError as error:
                raise sink_unwritable(step, sink.path, f"{error}") from error
        return
    raise UnsupportedOperationError(
        "Spark cannot write to this sink",
        given=sink.describe(),
        expected="memory, the console, files, Kafka, a database, a Delta table, a function or a DataStreamWriter",
        where=step.where,
    )
