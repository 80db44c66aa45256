"""Lowers a pipeline onto one streaming query: sources, exchange, levels of keyed steps, and rows for sinks.

The query is linear. Each source is scanned and packed by a stage of its own; the packed rows are brought together, and
pass one stateful operator for each level of keyed steps. Rows for sinks travel along, untouched by deeper levels.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from windrow.plan import KeyedProcessNode, Node, ReturnsNode, SinkNode, Step, WindowNode
from windrow.tags import OutputTag
from windrow_runtime.codecs.arrow.batches import encode_batch
from windrow_runtime.codecs.class_names import UserClass
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.stable_hash import stable_hash
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar.forms.columnar_form import ColumnarForm, Form, columnar_form
from windrow_runtime.columnar.forms.folds import fold_for
from windrow_runtime.columnar.forms.row_form import RowForm, row_form
from windrow_runtime.columnar.forms.scan_target import ScanTarget
from windrow_runtime.columnar.windows.sessions import SessionOperator
from windrow_runtime.operators.choose import form_text, operator_for
from windrow_runtime.operators.declined import DeclinedError
from windrow_runtime.operators.topology import Port, Topology, in_processing_time, source_of
from windrow_runtime.spark.batch_number import END_LINE, JOB_BATCH, BatchNote
from windrow_runtime.spark.checkpoint.folder import Checkpoint
from windrow_runtime.spark.checkpoint.stored_file import checkpoint_errors
from windrow_runtime.spark.checkpoint.stored_plan import StoredPlan, unstored
from windrow_runtime.spark.clock.clock_files import ClockFiles
from windrow_runtime.spark.clock.keeper import needs_keeper
from windrow_runtime.spark.clock.times import END_OF_STREAM
from windrow_runtime.spark.exchange.classes import register_classes
from windrow_runtime.spark.exchange.fragment import PortFragment, Routes
from windrow_runtime.spark.exchange.payload import sequence_number
from windrow_runtime.spark.exchange.picklable import check_picklable
from windrow_runtime.spark.exchange.pickled_values import state_codec
from windrow_runtime.spark.exchange.rows import PackedRow, RowKind, exchange_schema, source_schema
from windrow_runtime.spark.key_groups import KeyGroups
from windrow_runtime.spark.keyed.batch_level import FIRST_ROUND, SECOND_ROUND, BatchLevel
from windrow_runtime.spark.keyed.level import KeyedStep, Level
from windrow_runtime.spark.keyed.processor import KeyGroupProcessor
from windrow_runtime.spark.paths import as_read_path
from windrow_runtime.spark.run.progress_keeper import WatchedStep
from windrow_runtime.spark.shipping import functions_of, known_classes, without_sources_and_sinks
from windrow_runtime.spark.sinks.parts import WorkerSinks, worker_sinks
from windrow_runtime.spark.sinks.table import SinkWay, takes_columns, way_of
from windrow_runtime.spark.sources.column_scan import ColumnTarget
from windrow_runtime.spark.sources.scan import ColumnReader, Reader, ScanContext
from windrow_runtime.spark.sources.stage import CLOCK_PAYLOAD, ColumnWay, MalformedRule, SourceStage
from windrow_runtime.spark.sources.table import check_columns, scan_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Lowered:
    """The query or the batch job of a pipeline.

    Attributes:
        topology: The pipeline.
        groups: Its key groups.
        frame: The packed rows for sinks, see :mod:`windrow_runtime.spark.exchange.rows`.
        sinks: The sink of each number.
        by_clock: Whether Spark runs batches for the clock, and so without end.
        clock: Where the time of each batch is kept, if windrow keeps it.
        classes: The user's classes that may occur in elements.
        parts: The sinks that the last stage writes; None: there are none.
        watched: The properties of each step that reports depend on.
        job: The identity of a batch job.
    """

    topology: Topology
    by_clock: bool
    clock: ClockFiles | None
    groups: KeyGroups
    frame: DataFrame
    sinks: dict[int, Step]
    classes: tuple[UserClass, ...]
    parts: WorkerSinks | None = None
    watched: tuple[WatchedStep, ...] = ()
    job: str = ""


def lower(
    spark: SparkSession,
    topology: Topology,
    checkpoint: Checkpoint,
    stored: StoredPlan,
    forms: Mapping[str, Form],
    *,
    allow_pickled: bool,
    own_clock: bool = False,
) -> Lowered:
    """Make the query of a pipeline.

    Args:
        spark: The session.
        topology: The pipeline.
        checkpoint: Its checkpoint.
        stored: The plan that the checkpoint stores.
        forms: The columnar forms of keyed steps; steps whose stored state is not in columns run on objects.
        allow_pickled: Whether state may hold pickled values.
        own_clock: Whether windrow keeps the time of each batch, even where Spark could.

    Raises:
        UnsupportedOperationError: For a source that Spark cannot read.
        SourceError: If a source cannot be read.
    """
    clock = None
    if _keeps_clock(topology, own_clock=own_clock):
        clock = ClockFiles(checkpoint.clock_folder, stored.state_ids)
    checkpoint = checkpoint.with_folders(stored.folders)
    return _Lowering(spark, topology, checkpoint, stored, forms, clock, allow_pickled=allow_pickled).lower()


def forms_of(topology: Topology) -> dict[str, Form]:
    """Returns the columnar form of each keyed step of a plan, or the reason why it has none."""
    found: dict[str, Form] = {}
    for step in topology.keyed:
        try:
            found[step.id] = columnar_form(topology, step, check_columns)
        except DeclinedError as declined:
            found[step.id] = declined.with_traceback(None)  # which holds the frames of a plan
    return found


def arrivals_of(topology: Topology) -> dict[str, RowForm]:
    """Finds the keyed steps whose elements can cross the exchange as columns, with the form for that."""
    found: dict[str, RowForm] = {}
    for step in topology.keyed:
        with suppress(DeclinedError):
            found[step.id] = row_form(topology, step, check_columns)
    return found


def form_texts(topology: Topology, *, columnar: bool) -> dict[str, str]:
    """Describes how each keyed step of a new query runs and, if not on columns, why, and how elements get there."""
    if not columnar:
        return {step.id: f"{form_text(step)}; not on columns: they are turned off" for step in topology.keyed}
    forms = forms_of(topology)
    found: dict[str, str] = {}
    for step in topology.keyed:
        form = forms[step.id]
        if isinstance(form, ColumnarForm):
            found[step.id] = form.describe()
        else:
            found[step.id] = _python_text(topology, step, str(form))
    return found


def _python_text(topology: Topology, step: Step, reason: str) -> str:
    """Describes how a step runs on Python objects, with the reason why not on columns."""
    way = ""
    lacking = "elements cross the exchange one by one"
    try:
        arrival = row_form(topology, step, check_columns)
        way = f", {arrival.describe()}"
        lacking = "not folded before the exchange"
        fold_for(step)
        why = None
    except DeclinedError as declined:
        why = str(declined)
    text = f"{form_text(step)}{way}; not on columns: {reason}"
    # A reason that the text already has is not repeated.
    return text if why is None or why in text else f"{text}; {lacking}: {why}"


def lower_batch(
    spark: SparkSession,
    topology: Topology,
    groups: KeyGroups,
    now: int,
    forms: Mapping[str, Form],
    *,
    allow_pickled: bool,
) -> Lowered:
    """Make the batch job of a pipeline.

    Args:
        spark: The session.
        topology: The pipeline; its sources are bounded.
        groups: The key groups.
        now: The clock of the job, in milliseconds.
        forms: The columnar forms of keyed steps.
        allow_pickled: Whether state may hold pickled values.

    Raises:
        UnsupportedOperationError: For a source that Spark cannot read.
        SourceError: If a source cannot be read.
    """
    stored = unstored(topology, groups, forms)
    lowering = _Lowering(spark, topology, None, stored, forms, None, allow_pickled=allow_pickled)
    return lowering.lower_batch(now)


def time_of(topology: Topology, *, own_clock: bool) -> str:
    """Names the kind of time by which a plan's query runs. Stored state depends on it, so it never changes."""
    if _keeps_clock(topology, own_clock=own_clock):
        return "a watermark or clock that windrow keeps"
    return "processing time" if runs_by_clock(topology) else "event time"


def _keeps_clock(topology: Topology, *, own_clock: bool) -> bool:
    return bool(topology.keyed) and (own_clock or needs_keeper(topology))


class _Lowering:
    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        checkpoint: Checkpoint | None,
        stored: StoredPlan,
        forms: Mapping[str, Form],
        clock: ClockFiles | None,
        *,
        allow_pickled: bool,
    ) -> None:
        self._spark = spark
        self._topology = topology
        self._checkpoint = checkpoint
        self._stored = stored
        self._groups = stored.groups
        self._shipped = Topology(without_sources_and_sinks(topology.steps))
        # Workers get the steps without sources and sinks, which only the driver can load.
        self._forms = {
            step_id: form.shipped(self._shipped.step(step_id))
            for step_id, form in forms.items()
            if isinstance(form, ColumnarForm) and step_id in stored.columnar
        }
        self._arrivals = {
            step_id: arrival.shipped(self._shipped.step(step_id))
            for step_id, arrival in (arrivals_of(topology) if forms else {}).items()
            if step_id not in self._forms
        }
        # The steps that get their elements as columns.
        self._by_columns: dict[str, ScanTarget] = {**self._forms, **self._arrivals}
        self._classes = known_classes(topology.steps)
        for step in topology.steps:
            check_picklable(step, functions_of(step.node))
        self._routes = Routes(
            {step.id: number for number, step in enumerate(topology.keyed)},
            {step.id: number for number, step in enumerate(topology.sinks)},
            {step: level - 1 for step, level in topology.levels.items()},
        )
        self._sinks = {self._routes.sinks[step.id]: step for step in topology.sinks}
        if checkpoint is None:
            # A job that is run again cannot be recognised, so each run has batches of its own.
            self._job = uuid.uuid4().hex
            self._parts = worker_sinks(self._sinks, lambda: self._job, batch=JOB_BATCH)
        else:
            self._job = ""
            self._parts = worker_sinks(self._sinks, checkpoint.query_id)
        self._clock = clock
        self._allow_pickled = allow_pickled
        self._codec = state_codec(self._classes, allow_pickled=allow_pickled)
        register_classes(self._classes)
        # Spark runs no batch for a watermark that it does not know, unless it runs batches without end.
        self._by_clock = clock is not None or runs_by_clock(topology)
        self._depth = max(topology.levels.values(), default=0)

    def lower(self) -> Lowered:
        frame = self._sources()
        mode = "ProcessingTime" if self._by_clock else "EventTime"
        for number in range(self._depth):
            frame = frame.groupBy("group").transformWithState(
                KeyGroupProcessor(self._level(number)), exchange_schema(), "Append", mode
            )
        return Lowered(
            self._topology,
            self._by_clock,
            self._clock,
            self._groups,
            frame,
            self._sinks,
            self._classes,
            self._parts,
            self._watched(),
        )

    def lower_batch(self, now: int) -> Lowered:
        from pyspark.sql import functions as f

        frame = self._scanned().select(*PackedRow._fields)
        # Sequence numbers hold the round instead of the phase: elements of sources are of the first round.
        shift = sequence_number(SECOND_ROUND, 0, 0) - sequence_number(FIRST_ROUND, 0, 0)
        frame = frame.withColumn("number", f.col("number") - f.lit(shift))
        for number in range(self._depth):
            rows = frame.repartition(self._groups.partitions, "group").sortWithinPartitions("group", "number")
            frame = rows.mapInArrow(BatchLevel(self._level(number), now), exchange_schema())
        return Lowered(
            self._topology,
            False,
            None,
            self._groups,
            frame,
            self._sinks,
            self._classes,
            self._parts,
            self._watched(),
            self._job,
        )

    def _watched(self) -> tuple[WatchedStep, ...]:
        found = [WatchedStep(step.id) for step in (*self._topology.sources, *self._topology.sinks)]
        for step in self._topology.keyed:
            form = self._forms.get(step.id)
            on_panes = form is not None and not isinstance(form.operator, SessionOperator)
            found.append(
                WatchedStep(
                    step.id,
                    self._stored.state_ids[step.id],
                    has_watermark=bool(self._topology.stampers(step)),
                    has_windows=isinstance(step.node, WindowNode) and not on_panes,
                    has_timers=form is None,
                )
            )
        return tuple(found)

    # Sources

    def _scanned(self) -> DataFrame:
        frame = self._packed(self._topology.sources[0], 0)
        for place, step in enumerate(self._topology.sources[1:], start=1):
            frame = frame.union(self._packed(step, place))
        return frame

    def _sources(self) -> DataFrame:
        from pyspark.sql import functions as f

        frame = self._scanned()
        if self._depth:
            frame = frame.union(self._control())
            if self._clock is None:
                # Spark has one watermark: if several steps make watermarks, windrow keeps the time itself.
                frame = frame.withColumn("watermark", f.timestamp_millis("watermark"))
                frame = frame.withWatermark("watermark", "0 seconds")
        # Spark drops late rows only where it sees the column of the watermark.
        return frame.select(*PackedRow._fields)

    def _control(self) -> DataFrame:
        """Makes the stream of the control folder, by which the runner ends the stream or wakes a query."""
        from pyspark.sql import functions as f

        assert self._checkpoint is not None, "a streaming query has one"
        folder = self._checkpoint.control_folder
        with checkpoint_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        lines = self._spark.readStream.text(as_read_path(folder))
        is_end = f.col("value") == END_LINE
        return lines.mapInArrow(self._checkpoint.end_mark.note_end, "value string").select(
            f.lit(self._groups.service_labels[0]).alias("group"),
            f.when(is_end, RowKind.END).otherwise(RowKind.CLOCK).alias("kind"),
            f.lit(0).alias("target"),
            f.lit(0).cast("long").alias("number"),
            f.lit(bytearray(CLOCK_PAYLOAD)).alias("payload"),
            f.when(is_end, END_OF_STREAM).cast("long").alias("watermark"),
            f.lit(0).cast("long").alias("records"),
        )

    def _packed(self, step: Step, place: int) -> DataFrame:
        from pyspark.sql import functions as f

        context = ScanContext(self._spark, step, self._checkpoint, self._codec)
        scan = scan_source(source_of(step), context)
        stage = SourceStage(
            decode=scan.reader.decode,
            create=self._create(Port(step.id)),
            groups=self._groups,
            hash_key=stable_hash,
            levels=self._depth,
            malformed=self._malformed_rule(step),
            place=place,
            classes=self._classes,
            end=None if self._checkpoint is None else self._checkpoint.end_mark,
            way=self._column_way(step, scan.reader),
            open=scan.open,
            note=self._note(),
            sinks=None if self._depth else self._parts,
        )
        frame = scan.frame.mapInArrow(stage, source_schema())
        if self._checkpoint is None:
            return frame
        # Spark itself counts rows of its scan, which are files if workers read the records.
        return frame.observe(step.id, f.coalesce(f.sum("records"), f.lit(0)).alias("records_read"))

    def _note(self) -> BatchNote | None:
        by_spark = any(way_of(step) is SinkWay.QUERY for step in self._topology.sinks)
        return self._checkpoint.newest_batch if by_spark and self._checkpoint is not None else None

    def _column_way(self, step: Step, reader: Reader) -> ColumnWay | None:
        targets = tuple(
            ColumnTarget(self._routes.steps[step_id], form, route)
            for step_id, form in self._by_columns.items()
            for route in form.routes
            if route.source == step.id
        )
        if not targets:
            return None
        assert isinstance(reader, ColumnReader), "forms were asked for its columns"
        return ColumnWay(reader.columns, partial(encode_batch, record_type=reader.kind), targets)

    def _malformed_rule(self, step: Step) -> MalformedRule:
        rule = source_of(step).on_malformed
        aside = None
        if isinstance(rule, OutputTag):
            aside = self._create(Port(step.id, rule.name))
        return MalformedRule(step.id, step.where, rule == "fail", aside, step.node.location)

    # Levels

    def _level(self, number: int) -> Level:
        last = number == self._depth - 1
        return Level(
            number=number,
            last=last,
            groups=self._groups,
            fingerprint=self._stored.fingerprint,
            hash_key=stable_hash,
            steps=tuple(self._keyed_steps(number)),
            by_clock=self._by_clock,
            classes=self._classes,
            allow_pickled=self._allow_pickled,
            clock=self._clock,
            sinks=self._parts if last else None,
        )

    def _keyed_steps(self, number: int) -> Iterator[KeyedStep]:
        for step in self._shipped.keyed:
            if self._topology.levels[step.id] != number + 1:
                continue
            ports = self._topology.ports(step)
            sides = {port.tag: self._fragment(port) for port in ports if port.tag is not None}
            direct_sinks = self._direct_sinks(step)
            yield KeyedStep(
                number=self._routes.steps[step.id],
                step_id=step.id,
                state_id=self._stored.state_ids[step.id],
                create=partial(operator_for, step),
                output=self._fragment(Port(step.id)) if Port(step.id) in ports else None,
                side_outputs=sides,
                by_clock=self._by_clock,
                has_watermark=bool(self._topology.stampers(step)),
                name=step.node.name,
                where=step.where,
                form=self._forms.get(step.id),
                arrival=self._arrivals.get(step.id),
                direct_sinks=direct_sinks,
                direct_ids=tuple(self._sinks[sink].id for sink, _ in direct_sinks),
            )

    def _direct_sinks(self, step: Step) -> tuple[tuple[int, RecordType], ...]:
        """Returns the sinks that take the results of a step as columns; none if anything else reads them."""
        found: list[tuple[int, RecordType]] = []
        readers = self._topology.readers(step)
        while readers:
            reader = readers.pop()
            if isinstance(reader.node, ReturnsNode):
                readers += self._topology.readers(reader)
                continue
            if not isinstance(reader.node, SinkNode) or not takes_columns(reader):
                return ()
            found.append((self._routes.sinks[reader.id], record_type(reader.node.element_type)))
        return tuple(found)

    def _create(self, port: Port) -> Callable[[], PortFragment]:
        fed_by_columns = frozenset(self._by_columns)
        return partial(PortFragment, self._shipped, port, self._routes, self._clock, fed_by_columns)

    def _fragment(self, port: Port) -> PortFragment:
        return PortFragment(self._shipped, port, self._routes, self._clock)


def runs_by_clock(topology: Topology) -> bool:
    """Returns whether some step of a plan waits for the clock."""
    return bool(steps_by_clock(topology))


def steps_by_clock(topology: Topology) -> list[Step]:
    """Returns the steps of a plan that wait for the clock."""
    return [step for step in topology.keyed if _waits_for_clock(step.node)]


def _waits_for_clock(node: Node) -> bool:
    if isinstance(node, KeyedProcessNode):
        return node.function.uses_processing_time
    assert isinstance(node, WindowNode)
    return in_processing_time(node)
