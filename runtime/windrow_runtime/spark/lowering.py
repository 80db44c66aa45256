"""Lowers a pipeline onto one query of Spark: sources, exchange, levels of keyed steps, and rows for sinks.

The query is linear. Each source is scanned and packed by a stage of its own; the packed rows are brought together, and
pass one stateful operator for each level of keyed steps. Rows for sinks travel along, untouched by deeper levels.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial, reduce
from itertools import count

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from windrow.plan import Pipeline, SinkNode, Step, WindowNode
from windrow.tags import OutputTag
from windrow_runtime.columnar.forms.result_type import results_of
from windrow_runtime.columnar.forms.row_form import row_form, task_aggregation_of
from windrow_runtime.columnar.forms.sink_form import PlanForm, SinkForm, sink_form
from windrow_runtime.columnar.forms.step_form import OnColumns, step_form
from windrow_runtime.operators.choose import form_text
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Port, Topology, is_keyed, source_of, uses_clock
from windrow_runtime.spark.checkpoint.folder import END_LINE, Checkpoint
from windrow_runtime.spark.checkpoint.stored_file import checkpoint_errors
from windrow_runtime.spark.checkpoint.stored_plan import EVENT_TIME, KEPT_TIME, PROCESSING_TIME, StoredPlan
from windrow_runtime.spark.clock import END_OF_STREAM, ClockFiles, needs_keeper
from windrow_runtime.spark.exchange.classes import register_classes, state_codec
from windrow_runtime.spark.exchange.picklable import check_picklable
from windrow_runtime.spark.exchange.rows import EXCHANGE_SCHEMA, SOURCE_SCHEMA, PackedRow, RowKind, sequence_number
from windrow_runtime.spark.keyed.batch_level import FIRST_ROUND, SECOND_ROUND, BatchLevel
from windrow_runtime.spark.keyed.level import Level
from windrow_runtime.spark.keyed.processor import KeyGroupProcessor
from windrow_runtime.spark.paths import as_read_path
from windrow_runtime.spark.progress import WatchedStep, WatermarkBounds
from windrow_runtime.spark.run_limits import USUAL_LIMITS, RunLimits
from windrow_runtime.spark.shipped_steps import ShippedSteps
from windrow_runtime.spark.shipping import functions_of, known_classes
from windrow_runtime.spark.sinks.parts import worker_sinks
from windrow_runtime.spark.sinks.table import SinkWriter, takes_columns, writer_of
from windrow_runtime.spark.sources.scan import ScanContext
from windrow_runtime.spark.sources.stage import CLOCK_PAYLOAD, MalformedRule, SourceStage
from windrow_runtime.spark.sources.table import check_columns, scan_source
from windrow_runtime.spark.worker import JOB_BATCH


def forms_of(topology: Topology) -> dict[str, PlanForm]:
    """Returns the columnar form of each keyed step, and of each sink that takes columns, or why it has none."""
    found: dict[str, PlanForm] = {}
    for step in topology.keyed:
        try:
            found[step.id] = step_form(topology, step, check_columns, partial(results_of, found))
        except DeclinedError as declined:
            found[step.id] = declined.with_traceback(None)  # which holds the frames of a plan
    for step in filter(takes_columns, topology.sinks):
        try:
            found[step.id] = sink_form(topology, step, check_columns, partial(results_of, found))
        except DeclinedError as declined:
            found[step.id] = declined.with_traceback(None)
    return found


def form_texts(topology: Topology, *, columnar: bool) -> dict[str, str]:
    """Describes how each keyed step of a new query runs and, if not on columns, why, and how elements get there."""
    if not columnar:
        return {step.id: f"{form_text(step)}; not on columns: they are turned off" for step in topology.keyed}
    forms = forms_of(topology)
    found: dict[str, str] = {}
    for step_id, form in forms.items():
        step = topology.step(step_id)
        if isinstance(form, (OnColumns, SinkForm)):
            text = form.describe()
        elif isinstance(step.node, SinkNode):
            text = f"Python, element by element; not on columns: {form}"
        else:
            text = _python_text(topology, step, forms)
        # What is behind a keyed step runs as that one says, unless steps in between leave the columns.
        is_shown = not isinstance(step.node, SinkNode) or not topology.keyed_before(step)
        if is_shown or _leaves_columns(topology, step, forms):
            found[step_id] = text
    return found


def _leaves_columns(topology: Topology, sink: Step, forms: Mapping[str, PlanForm]) -> bool:
    """Returns whether the results of keyed steps on columns become objects on their way to a sink."""
    if not isinstance(forms[sink.id], DeclinedError):
        return False
    steps = [topology.step(source) for source in sink.inputs]
    while any(not is_keyed(step.node) and step.inputs for step in steps):
        steps = [before for step in steps for before in _before(topology, step)]
    return all(isinstance(forms.get(step.id), OnColumns) for step in steps)


def _before(topology: Topology, step: Step) -> list[Step]:
    """Returns the steps in front of a step without state, or a keyed step or a source itself."""
    has_none = is_keyed(step.node) or not step.inputs
    return [step] if has_none else [topology.step(source) for source in step.inputs]


def _python_text(topology: Topology, step: Step, forms: Mapping[str, PlanForm]) -> str:
    """Describes how a step runs on Python objects, with the reason why not on columns."""
    reason = forms[step.id]
    way = ""
    lacking = "elements cross the exchange one by one"
    try:
        arrival = row_form(topology, step, check_columns, partial(results_of, forms))
        way = f", {arrival.describe()}"
        lacking = "not partially aggregated before the exchange"
        task_aggregation_of(step)
        why = None
    except DeclinedError as declined:
        why = str(declined)
    text = f"{form_text(step)}{way}; not on columns: {reason}"
    # A reason that the text already has is not repeated.
    return text if why is None or why in text else f"{text}; {lacking}: {why}"


def steps_by_clock(topology: Topology) -> list[Step]:
    """Returns the steps of a plan that wait for the clock."""
    return [step for step in topology.keyed if uses_clock(step.node)]


def keeps_clock(topology: Topology, *, own_clock: bool) -> bool:
    """Returns whether windrow keeps the time of each batch of a plan; the user's own clock asks for it.

    A query that waits for the clock runs in Spark's mode for processing time, in which Spark gives its watermark to the
    first stateful operator alone. So does the end of the stream, which is a watermark, too.
    """
    is_deep = max(topology.levels.values(), default=0) > 1
    return bool(topology.keyed) and (
        own_clock or needs_keeper(topology) or (is_deep and bool(steps_by_clock(topology)))
    )


def time_of(topology: Topology, *, own_clock: bool) -> str:
    """Names the kind of time by which a plan's query runs. Stored state depends on it, so a checkpoint keeps it."""
    if keeps_clock(topology, own_clock=own_clock):
        return KEPT_TIME
    return PROCESSING_TIME if steps_by_clock(topology) else EVENT_TIME


class Lowered:
    """A pipeline as one query of Spark: a streaming query with a checkpoint, or a batch job without one.

    Its ``frame`` has the packed rows for sinks. Keyed steps with a columnar form run on columns, unless their stored
    state is in objects. With ``own_clock`` windrow keeps the time of each batch, even where Spark could; ``now`` is the
    clock of a batch job, in milliseconds.
    """

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        topology: Topology,
        stored: StoredPlan,
        forms: Mapping[str, PlanForm],
        *,
        checkpoint: Checkpoint | None = None,
        own_clock: bool = False,
        now: int = 0,
        limits: RunLimits = USUAL_LIMITS,
    ) -> None:
        self.spark = spark
        self.limits = limits
        self.pipeline = pipeline
        self.topology = topology
        self.groups = stored.groups
        self._stored = stored
        self._checkpoint = None if checkpoint is None else checkpoint.with_folders(stored.folders)
        self.clock = None
        if checkpoint is not None and keeps_clock(topology, own_clock=own_clock):
            self.clock = ClockFiles(checkpoint.clock_folder, stored.state_ids)
        # Spark runs no batch for a watermark that it does not know, unless it runs batches without end.
        self.by_clock = self.clock is not None or bool(steps_by_clock(topology))
        self._bounds = WatermarkBounds(None if checkpoint is None else checkpoint.progress_file, self.clock)
        self.steps = ShippedSteps(
            topology, forms, stored.columnar, stored.state_ids, self.clock, check_columns, self._bounds
        )
        self.classes = known_classes(topology.steps)
        for step in topology.steps:
            check_picklable(step, functions_of(step.node))
        self.sinks = dict(enumerate(topology.sinks))
        # A job that is run again cannot be recognised, so each run has batches of its own.
        self.query_id = uuid.uuid4().hex if checkpoint is None else checkpoint.query_id()
        self.parts = worker_sinks(self.sinks, lambda: self.query_id, batch=JOB_BATCH if checkpoint is None else None)
        self.codec = state_codec(self.classes, allow_pickled=pipeline.allow_pickled_state)
        register_classes(self.classes)
        self._depth = max(topology.levels.values(), default=0)
        writers = {writer_of(sink) for sink in topology.sinks}
        # Whether Spark handles no record by itself: workers open what the sources name, and no sink is Spark's.
        self.has_few_rows = writers <= {SinkWriter.RESULTS, SinkWriter.OUTPUT, SinkWriter.WORKERS}
        self.frame = self._job(now) if self._checkpoint is None else self._query(self._checkpoint)

    def _query(self, checkpoint: Checkpoint) -> DataFrame:
        frame = self._scanned()
        if self._depth:
            frame = frame.union(self._control(checkpoint))
            if self.clock is None:
                # Spark has one watermark: if several steps make watermarks, windrow keeps the time itself.
                frame = frame.withWatermark("watermark", "0 seconds")
        # Spark drops late rows only where it sees the column of the watermark.
        frame = frame.select(*PackedRow._fields)
        mode = "ProcessingTime" if self.by_clock else "EventTime"
        for number in range(1, self._depth + 1):
            frame = frame.groupBy("group").transformWithState(
                KeyGroupProcessor(self._level(number)), EXCHANGE_SCHEMA, "Append", mode
            )
        return frame

    def _job(self, now: int) -> DataFrame:
        frame = self._scanned().select(*PackedRow._fields)
        # Sequence numbers hold the round instead of the phase: elements of sources are of the first round.
        second = f.lit(sequence_number(SECOND_ROUND, 0, 0))
        shift = second - f.lit(sequence_number(FIRST_ROUND, 0, 0))
        frame = frame.withColumn("number", f.col("number") - shift)
        for number in range(1, self._depth + 1):
            # In each round elements for all keys come first, as they do in a batch of a streaming query.
            is_second, is_keyed = f.col("number") >= second, f.col("kind") != RowKind.BROADCAST
            order = "group", is_second, is_keyed, "number"
            rows = frame.repartition(self.groups.partitions, "group").sortWithinPartitions(*order)
            frame = rows.mapInArrow(BatchLevel(self._level(number), now), EXCHANGE_SCHEMA)
        return frame

    def watched(self) -> list[WatchedStep]:
        """Returns the properties of each source, keyed step and sink that reports depend on."""
        found = [WatchedStep(step.id) for step in (*self.topology.sources, *self.topology.sinks)]
        for step in self.topology.keyed:
            form = self.steps.forms.get(step.id)
            # Where windows share slices or runs of elements, nobody can count them.
            has_windows = isinstance(step.node, WindowNode) and (form is None or form.counts_windows)
            has_watermark = bool(self.topology.timestamp_steps(step))
            state_id = self._stored.state_ids[step.id]
            found.append(WatchedStep(step.id, state_id, has_watermark, has_windows, has_timers=form is None))
        return found

    def _scanned(self) -> DataFrame:
        return reduce(lambda frame, other: frame.union(other), map(self._packed, self.topology.sources, count()))

    def _control(self, checkpoint: Checkpoint) -> DataFrame:
        """Makes the stream of the control folder, by which the runner ends the stream or wakes a query."""
        folder = checkpoint.control_folder
        with checkpoint_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        lines = self.spark.readStream.text(as_read_path(folder))
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

    def _packed(self, step: Step, place: int) -> DataFrame:
        checkpoint = self._checkpoint
        source = source_of(step)
        scan = scan_source(source, ScanContext(self.spark, step, checkpoint, self.codec, self.limits))
        self.has_few_rows = self.has_few_rows and scan.open is not None
        rule = source.on_malformed
        # Nobody has to read the side output; malformed records are counted all the same.
        bad = Port(step.id, rule.name) if isinstance(rule, OutputTag) else None
        malformed_output = None if bad is None or bad not in self.topology.ports(step) else self.steps.create(bad)
        by_spark = any(writer_of(sink) is SinkWriter.QUERY for sink in self.topology.sinks)
        stage = SourceStage(
            decode=scan.decode,
            create=self.steps.create(Port(step.id)),
            groups=self.groups,
            levels=self._depth,
            malformed=MalformedRule(step.id, step.where, rule == "fail", malformed_output, step.node.location),
            place=place,
            classes=self.classes,
            closed=None if checkpoint is None else checkpoint.closed_sources,
            open=scan.narrowed(self.steps.columns_needed(step)).open,
            names=scan.names,
            targets=self.steps.targets(step),
            sink_targets=self.steps.sinks_of(step.id),
            kind=scan.kind,
            bounds=self._bounds,
            note=checkpoint.newest_batch if checkpoint is not None and by_spark else None,
            sinks=None if self._depth else self.parts,
        )
        frame = scan.frame.mapInArrow(stage, SOURCE_SCHEMA)
        if checkpoint is None:
            return frame
        # Spark itself counts rows of its scan, which are files if workers read the records.
        return frame.observe(step.id, f.coalesce(f.sum("records"), f.lit(0)).alias("records_read"))

    def _level(self, number: int) -> Level:
        last = number == self._depth
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
            sinks=self.parts if last else None,
            end=None if self._checkpoint is None or number > 1 else self._checkpoint.end_mark,
        )
