"""Lowers a pipeline onto one query of Spark: sources, exchange, levels of keyed steps, and rows for sinks.

The query is linear. Each source is scanned and packed by a stage of its own; the packed rows are brought together, and
pass one stateful operator for each level of keyed steps. Rows for sinks travel along, untouched by deeper levels.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import count

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from windrow.plan import Pipeline, Step
from windrow.tags import OutputTag
from windrow.watermarks import WatermarkAlignment
from windrow_runtime.inputs.partitions import PartitionedSource, alignments, partitioned_sources
from windrow_runtime.inputs.reader import reader_of
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.sending.culprits import called_parts
from windrow_runtime.operators.topology import Port, Topology, source_of, timestamps_of
from windrow_runtime.outputs.output import Identity
from windrow_runtime.outputs.registry import identities
from windrow_spark.checkpoint.folder import END_LINE, Checkpoint
from windrow_spark.checkpoint.planner_paths import for_planners
from windrow_spark.checkpoint.storage import unset_elsewhere
from windrow_spark.checkpoint.stored_file import checkpoint_errors
from windrow_spark.checkpoint.stored_plan import EVENT_TIME, KEPT_TIME, PROCESSING_TIME, StoredPlan
from windrow_spark.clock import END_OF_STREAM, Alignment, ClockFiles, has_own_clock, sees_highest
from windrow_spark.clock_keeper import needs_keeper, silent_steps
from windrow_spark.division import Division
from windrow_spark.exchange.classes import register_classes, state_codec
from windrow_spark.exchange.fragment import PortFragment
from windrow_spark.exchange.picklable import check_picklable
from windrow_spark.exchange.rows import EXCHANGE_SCHEMA, SOURCE_SCHEMA, PackedRow, RowKind, sequence_number
from windrow_spark.exchange.timestamps import PartitionTrackers
from windrow_spark.keyed.batch_level import FIRST_ROUND, SECOND_ROUND, BatchLevel
from windrow_spark.keyed.level import KeyedStep, Level
from windrow_spark.keyed.level_calls import LevelToRun
from windrow_spark.keyed.processor import KeyGroupProcessor
from windrow_spark.paths import as_read_path
from windrow_spark.physical.columns import ColumnPlanner
from windrow_spark.physical.plan import TURNED_OFF, Objects, PhysicalPlan, PhysicalStep
from windrow_spark.progress import WatchedStep, WatermarkBounds
from windrow_spark.run_limits import USUAL_LIMITS, RunLimits
from windrow_spark.session import is_connect, with_whole_commands
from windrow_spark.shipping import known_classes, without_sources_and_sinks
from windrow_spark.sinks.parts import WorkerSinks, worker_sinks
from windrow_spark.sinks.spark_writer import WrittenBy, spark_writer_of, takes_columns, written_by
from windrow_spark.sources.scan import ANY_AGE, ScanContext
from windrow_spark.sources.scanner import check_source_columns, scanner_of
from windrow_spark.sources.stage import CLOCK_PAYLOAD, MalformedRule, SourceStage
from windrow_spark.worker import JOB_BATCH


def physical_plan(topology: Topology, *, columnar: bool = True, stored: Collection[str] = ()) -> PhysicalPlan:
    """Plans how a pipeline runs on Spark, on columns where it can unless they are turned off.

    The state of some steps, by id, is ``stored`` in columns.
    """
    return PhysicalPlan(
        topology, ColumnPlanner(check_source_columns, takes_columns, stored) if columnar else TURNED_OFF
    )


def time_of(plan: PhysicalPlan, *, own_clock: bool, per_partition: bool = False) -> str:
    """Names the kind of time by which a plan's query runs. Stored state depends on it, so a checkpoint keeps it.

    Windrow keeps the time of each batch if the user's own clock asks for it, and if watermarks are made
    ``per_partition`` of a source. A query that waits for the clock runs in Spark's mode for processing time, in which
    Spark gives its watermark to the first stateful operator alone. So does the end of the stream, which is a watermark,
    too.
    """
    topology = plan.topology
    waits = bool(topology.by_clock)
    if topology.keyed and (own_clock or per_partition or needs_keeper(plan) or (waits and topology.depth > 1)):
        return KEPT_TIME
    return PROCESSING_TIME if waits else EVENT_TIME


def per_partition(topology: Topology, checkpoint: Checkpoint, is_connect: Callable[[], bool]) -> bool:
    """Returns whether watermarks are made per partition of a source; a checkpoint goes on as it began.

    ``is_connect`` is asked for a new one alone: whether the session is one of Spark Connect.
    """
    if alignments(topology):
        return True
    if not topology.keyed or any(written_by(step) is WrittenBy.QUERY for step in topology.sinks):
        return False  # Spark writes such a sink, and no code sees where a batch ends
    sources = {topology.step(each.step) for each in partitioned_sources(topology).values()}
    stored = checkpoint.description() if checkpoint.has_run() else None
    if stored is not None:
        # A source that is read otherwise by now, such as file by file, goes on as well.
        growing = any(reader_of(step).may_grow for step in topology.sources)
        stays = growing and (not topology.by_clock or bool(sources))
        return stored.time == KEPT_TIME and (stays or not has_own_clock(checkpoint.clock_folder))
    return any(is_connect() or scanner_of(step).has_several_partitions for step in sources)


@dataclass(frozen=True)
class WorkerSteps:
    """The steps of a physical plan as workers get them."""

    plan: PhysicalPlan
    clock: ClockFiles | None = None
    watermarks: WatermarkBounds | None = None
    partition_trackers: PartitionTrackers | None = None

    def fragment(self, port: Port) -> partial[PortFragment]:
        """Returns what makes the fragment downstream of a port, without keyed steps and sinks that columns feed."""
        plan, fed = self.plan, self.plan.fed_by_columns(port)
        own = plan.topology, port, self.clock, fed, self.watermarks, plan.object_edges, self.partition_trackers
        return partial(PortFragment, *own)

    def level(self, number: int) -> tuple[KeyedStep, ...]:
        """Returns the keyed steps of a level; the first one has the number 1."""
        levels = self.plan.topology.levels
        return tuple(self._keyed_step(step) for step_id, step in self.plan.keyed.items() if levels[step_id] == number)

    def _keyed_step(self, planned: PhysicalStep) -> KeyedStep:
        plan, step = self.plan, planned.step
        ports, targets = plan.topology.ports(step), plan.edges(step.id)
        direct = plan.sink_edges(Port(step.id))
        has_types = bool(targets) or any(edge.route is not None for edge in direct)
        return KeyedStep(
            number=plan.topology.numbers[step.id],
            step_id=step.id,
            state_id=plan.state_ids[step.id],
            create=partial(operator_for, step),
            output=self.fragment(Port(step.id))() if Port(step.id) in ports else None,
            side_outputs={port.tag: self.fragment(port)() for port in ports if port.tag is not None},
            has_watermark=bool(plan.topology.timestamp_steps[step.id]),
            name=step.name,
            where=step.where,
            form=planned.on_columns,
            arrival=planned.row_form,
            targets=targets,
            results=None if isinstance(planned.results, Objects) or not has_types else planned.results,
            direct_sinks=direct,
            side_sinks={port.tag: plan.sink_edges(port) for port in ports if port.tag is not None},
        )


class Lowered:
    """A pipeline as one query of Spark: a streaming query with a checkpoint, or a batch job without one.

    Its ``frame`` has the packed rows for sinks. Keyed steps with a columnar form run on columns, unless their stored
    state is in objects. ``now`` is the clock of a batch job, in milliseconds.
    """

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        plan: PhysicalPlan,
        stored: StoredPlan,
        *,
        checkpoint: Checkpoint | None = None,
        now: int = 0,
        limits: RunLimits = USUAL_LIMITS,
        division: Division | None = None,
    ) -> None:
        self.spark = spark
        self.limits = limits
        self._lower = partial(Lowered, spark, pipeline, plan, stored, checkpoint=checkpoint, limits=limits)
        self.pipeline = pipeline
        self.topology = topology = plan.topology
        self.groups = stored.groups
        self._stored = stored
        self._checkpoint = None if checkpoint is None else checkpoint.with_folders(stored.folders)
        self.clock = None
        self.partitioned: dict[str, PartitionedSource] = {}
        self.aligned: dict[str, WatermarkAlignment] = {}
        if checkpoint is not None and stored.time == KEPT_TIME:
            self.clock = ClockFiles(checkpoint.clock_folder, plan.state_ids)
            self.partitioned, self.aligned = partitioned_sources(topology), alignments(topology)
        self._silent = silent_steps(topology) if self.clock is not None else set[str]()
        # Spark runs no batch for a watermark that it does not know, unless it runs batches without end.
        self.by_clock = self.clock is not None or bool(topology.by_clock)
        self._bounds = WatermarkBounds(None if checkpoint is None else checkpoint.progress_file, self.clock)
        # Workers get the steps without sources and sinks, which only the driver can load.
        shipped = plan.shipped(without_sources_and_sinks(topology.steps), stored.columnar)
        self.classes = known_classes(topology.steps)
        self._tracked = frozenset(filter(self._runs_generators, self.partitioned))
        trackers = None
        if self.clock is not None and self._tracked:
            trackers = PartitionTrackers(self.clock, self._tracked, self.classes, pipeline.allow_pickled_state)
        self.steps = WorkerSteps(shipped, self.clock, self._bounds, trackers)
        for step in topology.steps:
            check_picklable(step, called_parts(step.node).values())
        self.sinks = dict(enumerate(topology.sinks))
        # A job that is run again cannot be recognised, so each run has batches of its own.
        self.query_id = query = uuid.uuid4().hex if checkpoint is None else checkpoint.query_id()
        self.identities = (
            identities(topology.sinks, query)
            if stored.sinks is None
            else {step: Identity(query, label) for step, label in stored.sinks.items()}
        )
        batch = JOB_BATCH if checkpoint is None else None
        before, sources = topology.boundaries_before, {source.id for source in topology.sources}
        straight = frozenset(sink.id for sink in topology.sinks if not sources.isdisjoint(before[sink.id]))
        self.parts = worker_sinks(self.sinks, self.identities, batch, straight=straight)
        scanners = [scanner_of(step) for step in topology.sources]
        large = limits.large_file_bytes
        in_parts = [
            place for place, each in enumerate(scanners) if checkpoint is not None and each.has_large_files(large)
        ]
        self._division = division or Division.of(spark, large, in_parts)
        self._keeps_division = (
            self.parts is not None
            and bool(self.parts.divided_anew)
            and any(each.is_divided for each in scanners)
            and not is_connect(spark)
        )
        self.codec = state_codec(self.classes, allow_pickled=pipeline.allow_pickled_state)
        register_classes(self.classes)
        writers = {written_by(sink) for sink in topology.sinks}
        # If Spark's own query writes, the driver sees no batch, and workers note which ones there are.
        is_unseen = WrittenBy.QUERY in writers
        self._task_note = checkpoint.task_note(spark) if is_unseen and checkpoint is not None else None
        # Whether Spark handles no record by itself: workers open what the sources name, and no sink is Spark's.
        self.has_few_rows = writers <= {WrittenBy.RESULTS, WrittenBy.OUTPUT, WrittenBy.WORKERS}
        self.frame = self._job(now) if self._checkpoint is None else self._query(self._checkpoint)

    @property
    def follows_clock(self) -> bool:
        """Whether watermarks follow the clock while nothing arrives."""
        return bool(self._silent)

    @property
    def division(self) -> Division | None:
        """What divides batches, if sinks need those that run again to be divided alike; None: nothing can change it."""
        return self._division if self._keeps_division else None

    def divided_by(self, division: Division) -> Lowered:
        """Returns the same query, which divides its batches as another run did."""
        return self._lower(division=division)

    def _query(self, checkpoint: Checkpoint) -> DataFrame:
        frame = self._scanned()
        if self.topology.depth:
            frame = frame.union(self._control(checkpoint))
            if self.clock is None:
                # Spark has one watermark: if several steps make watermarks, windrow keeps the time itself.
                frame = frame.withWatermark("watermark", "0 seconds")
        # Spark drops late rows only where it sees the column of the watermark.
        frame = frame.select(*PackedRow._fields)
        mode = "ProcessingTime" if self.by_clock else "EventTime"
        with with_whole_commands(self.spark):
            for number in range(1, self.topology.depth + 1):
                processor = KeyGroupProcessor(LevelToRun(self._level(number)))
                frame = frame.groupBy("group").transformWithState(processor, EXCHANGE_SCHEMA, "Append", mode)
        return frame

    def _job(self, now: int) -> DataFrame:
        frame = self._scanned().select(*PackedRow._fields)
        # Sequence numbers hold the round instead of the phase: elements of sources are of the first round.
        second = f.lit(sequence_number(SECOND_ROUND, 0, 0))
        shift = second - f.lit(sequence_number(FIRST_ROUND, 0, 0))
        frame = frame.withColumn("number", f.col("number") - shift)
        for number in range(1, self.topology.depth + 1):
            # In each round elements for all keys come first, as they do in a batch of a streaming query.
            is_second, is_keyed = f.col("number") >= second, f.col("kind") != RowKind.BROADCAST
            order = "group", is_second, is_keyed, "number"
            rows = frame.repartition(self.groups.partitions, "group").sortWithinPartitions(*order)
            frame = rows.mapInArrow(BatchLevel(self._level(number), now), EXCHANGE_SCHEMA)
        return frame

    def wake(self) -> None:
        """Let the next start of the query run a batch without data if the run before may have left something due."""
        if self._checkpoint is not None and self.topology.keyed:
            self._checkpoint.wake(by_watermark=not self.by_clock)

    def watched(self) -> list[WatchedStep]:
        """Returns the properties of each source, keyed step and sink that reports depend on, in the plan's order."""
        unkeyed = (*self.topology.sources, *self.topology.dropping, *self.topology.sinks)
        # A sink may be among those that drop elements.
        watched_steps = [WatchedStep(step_id) for step_id in dict.fromkeys(step.id for step in unkeyed)]
        for step_id, planned in self.steps.plan.keyed.items():
            step, form = planned.step, planned.on_columns
            # Where windows share slices or runs of elements, nobody can count them.
            has_windows = step.node.windows is not None and (form is None or form.counts_windows)
            has_watermark = bool(self.topology.timestamp_steps[step.id])
            names = step_id, self.steps.plan.state_ids[step_id]
            watched_steps.append(WatchedStep(*names, has_watermark, has_windows, has_timers=form is None))
        places = {step.id: step.index for step in self.topology.steps}
        return sorted(watched_steps, key=lambda watched: places[watched.step])

    def _scanned(self) -> DataFrame:
        return reduce(lambda frame, other: frame.union(other), map(self._packed, self.topology.sources, count()))

    def _control(self, checkpoint: Checkpoint) -> DataFrame:
        """Makes the stream of the control folder, by which the runner ends the stream or wakes a query."""
        folder = checkpoint.control_folder
        with checkpoint_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        # Each batch reads one line, so that the end comes after as many batches as there are lines before it.
        reader = self.spark.readStream.options(**unset_elsewhere(self.spark))
        lines = reader.option("maxFilesPerTrigger", 1).option(*ANY_AGE).text(as_read_path(folder))
        is_end = f.col("value") == END_LINE
        service = self.groups.service_labels[0]
        group = f.lit(service)
        if self.by_clock:
            # Spark's timers do not follow the watermark there, so a row for each group announces the end of the stream.
            all_groups = f.array(*map(f.lit, (service, *self.groups.labels)))
            group = f.explode(f.when(is_end, all_groups).otherwise(f.array(f.lit(service))))
        # Expressions alone, with which Spark drops the branch, and the union, from the plan of a batch without lines.
        return lines.select("value", group.alias("group")).select(
            "group",
            f.when(is_end & (f.col("group") == service), RowKind.END).otherwise(RowKind.CLOCK).alias("kind"),
            f.lit(0).alias("target"),
            f.lit(0).cast("long").alias("number"),
            f.lit(bytearray(CLOCK_PAYLOAD)).alias("payload"),
            f.when(is_end, f.timestamp_millis(f.lit(END_OF_STREAM))).alias("watermark"),
            f.lit(0).cast("long").alias("records"),
        )

    def _sees_order(self, source: Step) -> bool:
        """Returns whether a sink takes results one after the other, in the order of a source's elements.

        Those of a join have that order; downstream of windows it does not show.
        """
        before = self.topology.boundaries_before
        in_order = {source.id, *(step_id for step_id, keyed in self.steps.plan.keyed.items() if keyed.makes_pairs)}
        sinks = [sink for sink in self.topology.sinks if not in_order.isdisjoint(before[sink.id])]
        return any(spark_writer_of(sink).sees_order for sink in sinks)

    def _keeps_partitions(self, source: Step) -> bool:
        """Returns whether one task has to take all elements of a partition of a source.

        Tasks that write a sink by themselves do so side by side, and watermark generators see elements in their order.
        Everywhere else the numbers of rows keep the order.
        """
        before = self.topology.boundaries_before
        written = () if self.parts is None else self.parts.sinks.values()
        has_generators = any(self.partitioned[step].step == source.id for step in self._tracked)
        return has_generators or any(sink.keeps_order and source.id in before[sink.step.id] for sink in written)

    def _runs_generators(self, step: str) -> bool:
        """Returns whether workers run a step's watermark generators, each on a partition that one task reads alone."""
        node = timestamps_of(self.topology.step(step))
        return not sees_highest(node) and not scanner_of(self.topology.step(self.partitioned[step].step)).is_divided

    def _packed(self, step: Step, place: int) -> DataFrame:
        checkpoint, shipped = self._checkpoint, self.steps.plan
        source = source_of(step)
        needed = shipped.columns_needed(step.id)
        ordered = not all(keyed.takes_any_order for keyed in shipped.keyed.values()) or self._sees_order(step)
        # A streaming DataFrame may have several sources.
        number = None if any(scanner_of(each).is_stream_of_user for each in self.topology.sources) else place
        tells_arrivals = any(step.id in self.topology.boundaries_before[silent] for silent in self._silent)
        context = ScanContext(
            self.spark,
            step,
            checkpoint,
            self.codec,
            self._division,
            ordered,
            number,
            marks_partitions=step.id in {each.step for each in self.partitioned.values()},
            alignment=self._alignment(step),
            tells_arrivals=tells_arrivals,
            columns=needed,
            in_parts=place in self._division.in_parts,
            tasks=self.groups.partitions,
            divides_partitions=not self._keeps_partitions(step),
        )
        scan = scanner_of(step).scan(context)
        self.has_few_rows = self.has_few_rows and (scan.open is not None or scan.has_few_rows)
        rule = source.on_malformed
        # Nobody has to read the side output; malformed records are counted all the same.
        bad = Port(step.id, rule.name) if isinstance(rule, OutputTag) else None
        malformed_output = None if bad is None or bad not in self.topology.ports(step) else self.steps.fragment(bad)
        stage = SourceStage(
            decode=scan.decode,
            create=self.steps.fragment(Port(step.id)),
            groups=self.groups,
            levels=self.topology.depth,
            malformed=MalformedRule(step.id, step.where, rule == "fail", malformed_output, step.node.location),
            place=place,
            classes=self.classes,
            closed=None if checkpoint is None or checkpoint.is_inside else checkpoint.closed_sources,
            open=scan.open,
            names=scan.names,
            targets=shipped.edges(step.id),
            sink_targets=shipped.sink_edges(Port(step.id)),
            record_type=scan.record_type,
            bounds=self._bounds,
            note=self._task_note,
            tells_arrivals=tells_arrivals,
            sinks=None if self.topology.depth else self.parts,
        )
        frame = scan.frame.mapInArrow(stage, SOURCE_SCHEMA)
        if checkpoint is None:
            return frame
        # Spark itself counts rows of its scan, which are files if workers read the records.
        return frame.observe(step.id, f.coalesce(f.sum("records"), f.lit(0)).alias("records_read"))

    def _alignment(self, source: Step) -> Alignment | None:
        if self.clock is None or source.id not in {self.partitioned[step].step for step in self.aligned}:
            return None
        sources = {step: self.partitioned[step] for step in self.aligned}
        files = replace(self.clock, folder=for_planners(self.clock.folder))
        return Alignment(files, source.id, self.aligned, sources)

    def _sinks_of(self, level: int) -> WorkerSinks | None:
        """Returns the sinks that a level writes: those that it alone feeds; the last level writes all others."""
        if self.parts is None:
            return None
        of_level = {sink.id for sink in self.topology.sinks if self.topology.feeding_level(sink) == level}
        return self.parts.only(of_level)

    def _level(self, number: int) -> Level:
        last = number == self.topology.depth
        return Level(
            number=number,
            last=last,
            groups=self.groups,
            fingerprint=self._stored.fingerprint,
            steps=self.steps.level(number),
            by_clock=self.by_clock,
            classes=self.classes,
            allow_pickled=self.pipeline.allow_pickled_state,
            clock=self.clock,
            sinks=self._sinks_of(number),
            tells_timers=self.follows_clock,
        )
