"""Runs the fragments of a pipeline in the stages of a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from windrow.plan import Step, TimestampsNode
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.metrics.step_metrics import Metrics
from windrow_runtime.operators.fragments import Fragment
from windrow_runtime.operators.operator import OperatorRuntimeContext
from windrow_runtime.operators.topology import Port, Topology, timestamps_of
from windrow_runtime.operators.watermarks import TimestampObserver, WatermarkTracker, combined_watermark
from windrow_runtime.origins import Origin
from windrow_runtime.outputs.writer import encoder_of
from windrow_spark.clock import ClockFiles, SeenTimestamps, sees_highest_only
from windrow_spark.exchange.facts import Count, records_in
from windrow_spark.exchange.packer import Routed, ToAllKeys, ToSink, ToStep
from windrow_spark.exchange.timestamps import PartitionTrackers, TimestampCollector
from windrow_spark.progress import WatermarkBounds
from windrow_spark.worker import batch_millis, current_batch

if TYPE_CHECKING:
    from windrow_spark.physical.plan import StepEdge

# Any in this module: elements of every type.


class PortFragment:
    """Runs the stateless steps downstream of a port. It is pickled as a description, and built when it first runs.

    If windrow keeps the clock, the driver computes the watermark. Keyed steps that are fed with columns are left out.
    """

    def __init__(
        self,
        topology: Topology,
        port: Port,
        clock: ClockFiles | None = None,
        fed_by_columns: frozenset[str] = frozenset(),
        watermarks: WatermarkBounds | None = None,
        object_edges: Mapping[str, tuple[StepEdge, ...]] = MappingProxyType({}),
        partition_trackers: PartitionTrackers | None = None,
    ) -> None:
        self._topology = topology
        self._port = port
        self._clock = clock
        self._fed_by_columns = fed_by_columns
        self._watermarks = watermarks
        self._object_edges = dict(object_edges)
        self._partition_trackers = partition_trackers
        self.precedes_watermark = False
        self._begin: int | None = None
        self._partition = ""
        self._seen: dict[tuple[str, bool], int] = {}
        self._fragment: Fragment | None = None
        self._trackers: dict[str, WatermarkTracker] = {}
        self._collectors: dict[str, TimestampCollector] = {}
        self._metrics: dict[str, Metrics] = {}
        self._records: Counter[str] = Counter()
        self._routed: list[Routed] = []
        with_keys = [step for step in topology.keyed if topology.key_by(step) is not None]
        self._wheres = {step.id: topology.step(step.inputs[0]).where for step in with_keys}

    def __reduce__(self) -> tuple[type[PortFragment], tuple[object, ...]]:
        own = (self._topology, self._port, self._clock, self._fed_by_columns, self._watermarks, self._object_edges)
        return PortFragment, (*own, self._partition_trackers)

    def run(
        self, values: Sequence[Any], timestamps: Sequence[int | None], origin: Origin | None = None
    ) -> list[Routed]:
        """Runs the steps; returns the elements for each target. ``origin`` says where an element comes from."""
        fragment = self._started()
        self._routed = []
        fragment.run(list(values), list(timestamps), origin)
        return self._routed

    def _started(self) -> Fragment:
        if self._fragment is not None:
            return self._fragment
        engine = self, self._observer_of, self, encoder_of
        fragment = Fragment(self._topology, self._port, *engine, self._fed_by_columns)
        self._begin = now = self._now()
        for tracker in self._trackers.values():
            tracker.now = now
        for collector in self._collectors.values():
            collector.now = now
        fragment.open(self._runtime)
        self._fragment = fragment
        return fragment

    def _now(self) -> int:
        batch = current_batch()
        stored = None if self._clock is None or batch is None else self._clock.read(batch).now
        return batch_millis() if stored is None else stored

    def processing_time(self) -> int:
        """Returns the batch's clock if windrow keeps it, else the driver's when the batch began, in milliseconds."""
        return self._now() if self._begin is None else self._begin

    def watermark_of(self, step: Step) -> int:
        """Returns a process function's watermark at the beginning of the batch; the lowest if it is not known."""
        key = (step.id, self.precedes_watermark)
        if key not in self._seen:
            self._seen[key] = self._read_watermark(step)
        return self._seen[key]

    def _read_watermark(self, step: Step) -> int:
        batch = current_batch()
        if self._clock is not None and batch is not None:
            clock = self._clock.read(batch)
            return (clock.previous if self.precedes_watermark else clock.watermarks).get(step.id, MIN_TIMESTAMP)
        timestamp_steps = self._topology.timestamp_steps[step.id]
        if self._watermarks is None or not timestamp_steps or not sees_highest_only(self._topology.timestamps):
            return MIN_TIMESTAMP
        watermark = self._watermarks.read()(step.id)
        return MIN_TIMESTAMP if watermark is None else watermark

    def observe(self, step: str, highest: int) -> None:
        """Tells a timestamp-assigning step's observer the highest timestamp of elements in columns."""
        assigning_step = self._topology.step(step)
        self._observer_of(assigning_step, timestamps_of(assigning_step)).observe([None], [highest])

    @property
    def is_idle(self) -> bool:
        """Whether the fragment has no work, since all elements of the source go to keyed steps as columns."""
        return not self._started().has_readers

    def _observer_of(self, step: Step, node: TimestampsNode) -> TimestampObserver:
        if self._clock is not None:
            # A step whose elements are columns has a collector when it has elements.
            collector = TimestampCollector(step, node, self._partition, self._partition_trackers)
            return self._collectors.setdefault(step.id, collector)
        return self._trackers.setdefault(step.id, WatermarkTracker(step, node))

    def _runtime(self, step: Step) -> OperatorRuntimeContext:
        metrics = self._metrics.setdefault(step.id, Metrics())
        return OperatorRuntimeContext(step.name or step.id, metrics)

    def to_step(self, step: str, keys: list[Hashable], values: list[Any], timestamps: list[int | None]) -> None:
        """Collects elements that the fragment emits to a keyed step."""
        topology = self._topology
        edges = self._object_edges.get(step, ())
        target = ToStep(topology.numbers[step], topology.levels[step], keys, self._wheres.get(step), edges)
        if not edges:  # elements that become columns are counted as such
            self._records[step] += len(values)
        self._routed.append((target, values, timestamps))

    def to_all_keys(self, step: str, values: list[Any], timestamps: list[int | None]) -> None:
        """Collects elements that the fragment emits to all keys of a keyed step."""
        topology = self._topology
        target = ToAllKeys(topology.numbers[step], topology.levels[step], topology.step(step).where)
        self._records[step] += len(values)
        self._routed.append((target, values, timestamps))

    def to_sink(self, step: str, values: list[Any], timestamps: list[int | None]) -> None:
        """Collects elements that the fragment emits to a sink."""
        self._records[step] += len(values)
        self._routed.append((ToSink(self._topology.numbers[step], self._topology.step(step).where), values, timestamps))

    @property
    def watermark(self) -> int:
        """The watermark that results from the elements so far."""
        return combined_watermark(self._trackers.values())

    def end_batch(self) -> None:
        """Tells periodic watermark generators to emit."""
        now = self.processing_time()
        for tracker in self._trackers.values():
            tracker.end_batch(now)

    def take_counts(self) -> list[Count]:
        """Returns users' metrics, and how many records went to each step, since the last call."""
        counts = records_in(self._records)
        for step, metrics in self._metrics.items():
            counts += ((step, name, metric) for name, metric in metrics.drain())
        return counts

    def take_timestamps(self) -> list[SeenTimestamps]:
        """Returns what timestamp-assigning steps have seen since the last call, for the driver."""
        return [seen for collector in self._collectors.values() for seen in collector.take()]

    def begin_partition(self, name: str) -> None:
        """Notes that the next elements are of another partition of the source."""
        self._partition = name
        for collector in self._collectors.values():
            collector.partition = name

    def close(self) -> None:
        """Closes the user's functions."""
        if self._fragment is not None:
            self._fragment.close()
            self._fragment = None
