"""A pipeline as one streaming query: sources, exchange, levels of keyed steps, and rows for sinks.

The query is linear. Each source is scanned and packed by a stage of its own; the packed rows are brought together, and
pass one stateful operator for each level of keyed steps. What goes to sinks travels along, untouched by deeper levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from windrow.errors import UnsupportedOperationError
from windrow.plan import KeyedProcessNode, Node, Pipeline, SourceNode, Step, TimestampsNode, WindowNode
from windrow.tags import OutputTag
from windrow.windows import GlobalWindows
from windrow_runtime.codecs import stable_hash
from windrow_runtime.operators.lowering import operator_for
from windrow_runtime.operators.topology import Port, Topology
from windrow_runtime.spark.checkpoint import Checkpoint, fingerprint_of
from windrow_runtime.spark.classes import UserClass
from windrow_runtime.spark.event_clock import END_OF_STREAM
from windrow_runtime.spark.fragments import PortFragment, Routes
from windrow_runtime.spark.key_groups import KeyGroups
from windrow_runtime.spark.level import KeyedStep, Level
from windrow_runtime.spark.processor import KeyGroupProcessor
from windrow_runtime.spark.readers import scan_source
from windrow_runtime.spark.rows import CLOCK, FIRST_SINK, exchange_schema, source_schema
from windrow_runtime.spark.shipping import known_classes, without_ends
from windrow_runtime.spark.source_stage import CLOCK_PAYLOAD, MalformedRule, SourceStage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Lowered", "lower", "runs_by_clock"]


@dataclass(frozen=True)
class Lowered:
    """A pipeline as a query.

    Attributes:
        topology: The pipeline.
        frame: The packed rows for sinks, see :mod:`windrow_runtime.spark.rows`.
        sinks: The sink of each number.
        by_clock: Whether Spark runs batches for the clock, and so without end.
        classes: The user's classes that may occur in elements.
    """

    topology: Topology
    by_clock: bool
    frame: DataFrame
    sinks: dict[int, Step]
    classes: tuple[UserClass, ...]


def lower(spark: SparkSession, pipeline: Pipeline, checkpoint: Checkpoint, groups: KeyGroups) -> Lowered:
    """Make the query of a pipeline.

    Raises:
        UnsupportedOperationError: For a source that Spark cannot read, and for watermarks that it cannot follow.
        SourceError: If a source cannot be read.
    """
    topology = Topology(pipeline.steps)
    for step in topology.timestamps:
        _check_timestamps(step, topology)
    for source in topology.sources:
        _check_one_watermark(source, topology)
    return _Lowering(spark, topology, checkpoint, groups).lower()


class _Lowering:
    def __init__(
        self, spark: SparkSession, topology: Topology, checkpoint: Checkpoint, groups: KeyGroups
    ) -> None:
        self._spark = spark
        self._topology = topology
        self._checkpoint = checkpoint
        self._groups = groups
        self._shipped = Topology(without_ends(topology.steps))
        self._classes = known_classes(topology.steps)
        self._routes = Routes(
            {step.id: number for number, step in enumerate(topology.keyed)},
            {step.id: number for number, step in enumerate(topology.sinks, start=FIRST_SINK)},
        )
        self._by_clock = runs_by_clock(topology)
        self._depth = max(topology.levels.values(), default=0)

    def lower(self) -> Lowered:
        frame = self._sources()
        mode = "ProcessingTime" if self._by_clock else "EventTime"
        for number in range(self._depth):
            frame = frame.groupBy("group").transformWithState(
                KeyGroupProcessor(self._level(number)), exchange_schema(), "Append", mode
            )
        sinks = {self._routes.sinks[step.id]: step for step in self._topology.sinks}
        return Lowered(self._topology, self._by_clock, frame, sinks, self._classes)

    # Sources

    def _sources(self) -> DataFrame:
        branches: dict[frozenset[str], DataFrame] = {}
        for place, step in enumerate(self._topology.sources):
            packed = self._packed(step, place)
            watermarks = self._watermarks_of(step)
            known = branches.get(watermarks)
            branches[watermarks] = packed if known is None else known.union(packed)
        if self._depth == 0:
            (first, *others) = branches.values()
            for other in others:
                first = first.union(other)
            return first.drop("watermark")
        # Sources that share their timestamp-assigning steps share a watermark, the highest of what their tasks say.
        # Several watermarks make the lowest of them; those without any have no say, but for the end of the stream.
        silent = branches.pop(frozenset(), None)
        if silent is not None:
            if branches:
                other_watermarks, other = next(iter(branches.items()))
                branches[other_watermarks] = other.union(silent)
            else:
                branches[frozenset()] = silent
        (frame, *rest) = [self._with_watermark(branch) for branch in branches.values()]
        for branch in rest:
            frame = frame.union(branch)
        # Spark drops late rows only where it sees the column of the watermark.
        return frame.select("group", "sink", "number", "payload")

    def _with_watermark(self, packed: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        with_end = packed.union(self._control())
        return with_end.withColumn("watermark", f.timestamp_millis("watermark")).withWatermark(
            "watermark", "0 seconds"
        )

    def _control(self) -> DataFrame:
        """The stream in which the runner says that the end has come."""
        from pyspark.sql import functions as f

        folder = self._checkpoint.control_folder
        folder.mkdir(parents=True, exist_ok=True)
        ends = self._spark.readStream.text(str(folder))
        return ends.select(
            f.lit(self._groups.service_labels[0]).alias("group"),
            f.lit(CLOCK).alias("sink"),
            f.lit(0).cast("long").alias("number"),
            f.lit(bytearray(CLOCK_PAYLOAD)).alias("payload"),
            f.lit(END_OF_STREAM).cast("long").alias("watermark"),
        )

    def _packed(self, step: Step, place: int) -> DataFrame:
        scan = scan_source(self._spark, step, self._checkpoint)
        stage = SourceStage(
            decode=scan.reader.decode,
            create=partial(PortFragment, self._shipped, Port(step.id), self._routes),
            groups=self._groups,
            hash_key=stable_hash,
            levels=self._depth,
            malformed=self._malformed_rule(step),
            place=place,
            classes=self._classes,
        )
        return scan.frame.mapInArrow(stage, source_schema())

    def _malformed_rule(self, step: Step) -> MalformedRule:
        assert isinstance(step.node, SourceNode)
        rule = step.node.source.on_malformed
        aside = None
        if isinstance(rule, OutputTag):
            aside = partial(PortFragment, self._shipped, Port(step.id, rule.name), self._routes)
        return MalformedRule(step.id, step.where, rule == "fail", aside)

    def _watermarks_of(self, source: Step) -> frozenset[str]:
        return frozenset(
            step.id for step in self._topology.timestamps if source.id in self._topology.sources_of(step.id)
        )

    # Levels

    def _level(self, number: int) -> Level:
        return Level(
            number=number,
            last=number == self._depth - 1,
            groups=self._groups,
            fingerprint=fingerprint_of(self._topology),
            hash_key=stable_hash,
            steps=tuple(self._keyed_steps(number)),
            by_clock=self._by_clock,
            classes=self._classes,
        )

    def _keyed_steps(self, number: int) -> Iterator[KeyedStep]:
        for step in self._shipped.keyed:
            if self._topology.levels[step.id] != number + 1:
                continue
            ports = self._topology.ports(step)
            sides = {port.tag: self._fragment(port) for port in ports if port.tag is not None}
            yield KeyedStep(
                number=self._routes.steps[step.id],
                step_id=step.id,
                create=partial(operator_for, step),
                output=self._fragment(Port(step.id)) if Port(step.id) in ports else None,
                side_outputs=sides,
                by_clock=self._by_clock,
                name=step.node.name,
                where=step.where,
            )

    def _fragment(self, port: Port) -> PortFragment:
        return PortFragment(self._shipped, port, self._routes)


def _check_timestamps(step: Step, topology: Topology) -> None:
    """Refuse what Spark's watermark, which is made from the rows of the sources, cannot follow."""
    assert isinstance(step.node, TimestampsNode)
    if topology.keyed_before(step):
        raise UnsupportedOperationError(
            "watermarks are made behind a keyed step, and Spark makes its watermark in front of them",
            given=step.node.describe(),
            expected="assign_timestamps_and_watermarks before the first key_by or window_all",
            where=step.where,
            hint="the results of windows carry timestamps already; leave the call out, or use LocalRunner",
        )
    if step.node.strategy.idleness is not None and len(topology.timestamps) > 1:
        raise UnsupportedOperationError(
            "Spark's watermark waits for every stream, idle or not",
            given=f"an idleness of {step.node.strategy.idleness} ms beside other timestamp-assigning steps",
            expected="one timestamp-assigning step, or strategies without idleness",
            where=step.where,
            hint="assign timestamps once, behind the union; or use LocalRunner",
        )


def _check_one_watermark(source: Step, topology: Topology) -> None:
    """Refuse a source whose elements get timestamps in several ways: its rows can carry one watermark only."""
    steps = [step for step in topology.timestamps if source.id in topology.sources_of(step.id)]
    if len(steps) > 1:
        raise UnsupportedOperationError(
            "the elements of a source get timestamps in several steps, and Spark's rows carry one watermark",
            given=", ".join(step.where for step in steps),
            expected="one timestamp-assigning step behind each source",
            where=source.where,
            hint="assign timestamps before the stream is split, or read the source twice",
        )


def runs_by_clock(topology: Topology) -> bool:
    """Whether some step of a plan waits for the clock."""
    return any(_waits_for_clock(step.node) for step in topology.keyed)


def _waits_for_clock(node: Node) -> bool:
    if isinstance(node, KeyedProcessNode):
        return node.function.uses_processing_time
    assert isinstance(node, WindowNode)
    if node.effective_trigger.uses_processing_time:
        return True
    # Windows on the clock are cleaned up by it; the global window never is.
    return not node.assigner.is_event_time and not isinstance(node.assigner, GlobalWindows)
