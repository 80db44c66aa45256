"""Executes a pipeline in rounds, which advance the watermark and clock, and process elements, as a Spark batch does."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any, NamedTuple

from windrow.calls.results import LAZY_TYPES, not_computed
from windrow.errors import WindrowError
from windrow.plan import Step, TimestampsNode
from windrow.tags import OutputTag
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.inputs.batches import OpenPartitions, SourceBatch
from windrow_runtime.inputs.partitions import alignments, held_partitions, partitioned_sources
from windrow_runtime.local.function_rules import OpenedFunctions, Renewal, renewals_of, sent_steps
from windrow_runtime.local.journal import Recorders
from windrow_runtime.local.key_order import KeyOrder, by_key, due_keys, one_by_one
from windrow_runtime.local.run_start import RunStart
from windrow_runtime.metrics.step_metrics import Metrics, StepMetrics
from windrow_runtime.operators.broadcast.broadcast_operator import BroadcastTaker
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.class_facts import CONSTANT_TYPES, is_constant_type
from windrow_runtime.operators.copies import own, own_all
from windrow_runtime.operators.errors import check_hashable
from windrow_runtime.operators.fragments import Fragment
from windrow_runtime.operators.operator import KeyedOperator, OperatorRuntimeContext
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.operators.topology import Port, Topology, sink_of, source_of
from windrow_runtime.operators.watermarks import Arrivals, TrackerMemory, WatermarkTracker, watermarks_of
from windrow_runtime.origins import Origin, moved
from windrow_runtime.outputs.output import Output
from windrow_runtime.outputs.writer import encoder_of

# Any in this module: elements of every type.


@dataclass(slots=True)
class StampedElements:
    """Elements with their timestamps."""

    values: list[Any] = field(default_factory=list)
    timestamps: list[int | None] = field(default_factory=list)
    partitions: Sequence[tuple[str, int]] = ()  # how many each partition of a source has, one after the other
    origin: Origin | None = None  # where each comes from, of those of a source


class _Buffer:
    """Collects copies of what an operator emits, since the operator may go on changing its objects."""

    __slots__ = ("main", "sides")

    def __init__(self) -> None:
        self.main = StampedElements()
        self.sides: defaultdict[str, StampedElements] = defaultdict(StampedElements)

    def collect(self, value: Any, timestamp: int | None) -> None:
        self.main.values.append(value if type(value) in CONSTANT_TYPES else own(value))
        self.main.timestamps.append(timestamp)

    def side_output(self, tag: str, value: Any, timestamp: int | None) -> None:
        side = self.sides[tag]
        side.values.append(own(value))
        side.timestamps.append(timestamp)

    def take(self) -> list[tuple[str | None, StampedElements]]:
        outputs: list[tuple[str | None, StampedElements]] = [(None, self.main)] if self.main.values else []
        outputs += self.sides.items()
        self.main, self.sides = StampedElements(), defaultdict(StampedElements)
        return outputs


class _ConstantBuffer(_Buffer):
    """Collects what an operator emits if its main output has only immutable values, which need no copy."""

    __slots__ = ()

    def collect(self, value: Any, timestamp: int | None) -> None:
        if type(value) in LAZY_TYPES:
            raise not_computed(value)
        self.main.values.append(value)
        self.main.timestamps.append(timestamp)


_Keyed = tuple[list[Hashable], list[Any], list[int | None]]


class _StepSnapshot(NamedTuple):
    state: bytes
    watermark: int
    clock: int


Snapshot = tuple[dict[str, _StepSnapshot], dict[str, TrackerMemory], dict[str, int], int, dict[str, set[str]]]
"""The states of keyed and timestamp-assigning steps, by id; process functions' watermarks, and the clock."""


class Execution:
    """Executes a pipeline; its steps are known by their ids.

    ``observe`` is called with all that keyed steps emit, and with what steps without keys emit to side outputs. A
    recorded execution uses no faster forms, since these do not tell which element or timer fires a pane. Functions are
    called as copies, as workers of Spark have them, unless ``isolates_functions`` is off. ``order`` has each round
    process one key after the other, in another order.
    """

    def __init__(
        self,
        topology: Topology,
        observe: Callable[[Port, list[Any], list[int | None]], None] | None = None,
        *,
        fast: bool = True,
        recorders: Recorders | None = None,
        isolates_functions: bool = True,
        renews_functions: bool = True,
        order: KeyOrder | None = None,
    ) -> None:
        self._order = order
        self._mixed: set[str] = set()  # the steps of which several keys have emitted something in this round
        self._renews_functions = renews_functions
        topology = Topology(sent_steps(topology.steps, copies=isolates_functions))
        self.topology = topology
        self._renewals: dict[str, Renewal] = {}
        self._opened: OpenedFunctions | None = None
        self._observe = observe
        self.trackers: dict[str, WatermarkTracker] = {}
        self._partitioned = partitioned_sources(topology)
        self._aligned = alignments(topology)
        self._open_partitions: dict[str, OpenPartitions | None] = {}  # of the sources that the round reads, by step id
        # The sources that had something new since the last end of a batch, by step id, with the partitions that had it.
        self._arrived: defaultdict[str, set[str]] = defaultdict(set)
        self._waiting: dict[str, Collection[str]] = {}  # partitions with elements that the last round has left
        self.metrics: defaultdict[str, Metrics] = defaultdict(Metrics)
        self.sinks: defaultdict[str, StampedElements] = defaultdict(StampedElements)
        self.written = Counter({step.id: 0 for step in topology.sinks})  # how many elements each has taken
        self.taken: Counter[str] = Counter()  # how many elements came to each step in this round
        self.given: Counter[str] = Counter()  # how many each source and keyed step has emitted to its main output in it
        self._phase_before = False
        # The watermarks that process functions without keys see, by step id, in this round and in the previous one.
        self._seen: dict[str, int] = {}
        self._seen_before: dict[str, int] = {}
        self._now = MIN_TIMESTAMP
        self._watermarks: dict[str, int] = {}  # of keyed steps and sinks, at the end of the last batch
        # The elements that wait for a keyed step, by its id. True: timers upstream emitted them; False: elements led to
        # them.
        self._inboxes: defaultdict[tuple[str, bool], list[_Keyed]] = defaultdict(list)
        # The broadcast elements that wait for a keyed step, in the same way.
        self._broadcasts: defaultdict[tuple[str, bool], list[StampedElements]] = defaultdict(list)
        self._fragments = {
            port: Fragment(topology, port, self, self._tracker_of, self, encoder_of, observe=observe)
            for step in (*topology.sources, *topology.keyed)
            for port in topology.ports(step)
        }
        self._buffers = {step.id: self._buffer_of(step) for step in topology.keyed}
        self.operators: dict[str, KeyedOperator] = {}
        for step in topology.keyed:
            operator = operator_for(step, fast=fast and not recorders and order is None)
            if recorders:
                recorders[step.id].watch(operator)
            operator.metrics = self.metrics[step.id]
            operator.bind(OperatorState(), self._buffers[step.id])
            self.operators[step.id] = operator

    def _buffer_of(self, step: Step) -> _Buffer:
        return _ConstantBuffer() if is_constant_type(step.node.element_type) else _Buffer()

    def _tracker_of(self, step: Step, node: TimestampsNode) -> WatermarkTracker:
        tracker = WatermarkTracker(step, node, partitioned=step.id in self._partitioned)
        return self.trackers.setdefault(step.id, tracker)

    def open(self) -> None:
        """Open the user's functions."""
        if self._renews_functions:
            self._opened = OpenedFunctions(self.topology.steps)
        for fragment in self._fragments.values():
            fragment.open(self._runtime)
        for step in self.topology.keyed:
            self.operators[step.id].open(self._runtime(step))
        if self._renews_functions:
            self._renewals = renewals_of(self.topology.steps)

    def close(self) -> None:
        """Close the user's functions, on which the run leaves nothing."""
        for operator in self.operators.values():
            operator.close()
        for fragment in self._fragments.values():
            fragment.close()
        for renewal in self._renewals.values():
            renewal.renew()
        if self._opened is not None:
            self._opened.forget()

    def _runtime(self, step: Step) -> OperatorRuntimeContext:
        return OperatorRuntimeContext(step.name or step.id, self.metrics[step.id])

    def inputs_of(self, batches: Mapping[str, SourceBatch]) -> dict[Port, StampedElements]:
        """Returns the elements of sources' batches (by step id) for a round, and counts malformed records."""
        inputs: dict[Port, StampedElements] = {}
        partitioned = {source.step for source in self._partitioned.values()}
        self._open_partitions = {step: batch.open_partitions for step, batch in batches.items()}
        for step in self.topology.sources:
            batch = batches.get(step.id)
            if batch is None:
                continue
            partitions = batch.partitions if step.id in partitioned else ()
            self._note_arrivals(step.id, batch)
            origin = batch.origin if batch.origins else None
            inputs[Port(step.id)] = StampedElements(batch.values, [None] * len(batch.values), partitions, origin)
            if not batch.malformed:
                continue
            self.metrics[step.id].count("records_malformed", len(batch.malformed))
            tag = source_of(step).on_malformed
            if isinstance(tag, OutputTag):
                stamps: list[int | None] = [None] * len(batch.malformed)
                inputs[Port(step.id, tag.name)] = StampedElements(list(batch.malformed), stamps)
        return inputs

    def _note_arrivals(self, source: str, batch: SourceBatch) -> None:
        """Notes what was new in a source: records that are left for a later batch or malformed ones, too."""
        waiting = () if batch.open_partitions is None else batch.open_partitions.waiting
        if batch.values or batch.malformed or batch.partitions or waiting:
            self._arrived[source].update((name for name, _ in batch.partitions), waiting)

    def round(
        self,
        inputs: Mapping[Port, StampedElements],
        *,
        watermark: int | Mapping[str, int] | None = None,
        processing_time: int | None = None,
    ) -> None:
        """Advance time, then process elements.

        Each keyed step first processes what timers upstream emitted, under the previous watermark; then its watermark
        advances, and timers fire, those in processing time last; then it processes what steps upstream emitted for the
        batch's elements, and timers fire that these have set before the clock. The new clock holds for all of this.
        Both are in milliseconds, the watermark for all keyed steps or for each by its id; None: it stays.
        """
        self._begin(processing_time)
        self._advance_seen(watermark)
        for port, elements in inputs.items():
            if elements.values:
                self._arrived[port.step].update(name for name, _ in elements.partitions)
            if port.tag is None:
                self.given[port.step] += len(elements.values)
            self._pass_on(port, elements)
        for step in self.topology.keyed:
            operator = self.operators[step.id]
            if processing_time is not None:
                operator.set_clock(processing_time)
            following = operator.current_watermark
            if watermark is not None:
                following = max(following, watermark if isinstance(watermark, int) else watermark[step.id])
            if self._order is not None:
                self._take_shuffled(step, operator, self._order, following, processing_time)
                continue
            self._take(step, before=True)
            self._advance(step, operator, following, processing_time)
            self._take(step, before=False)
            self._end(step, operator)

    def _advance(self, step: Step, operator: KeyedOperator, watermark: int, now: int | None) -> bool:
        """Advances a step's time, and passes on what came up to here; returns whether it is anything."""
        # A watermark that stays fires nothing: timers that were set before it wait until it advances.
        if watermark > operator.current_watermark:
            operator.advance_watermark(watermark)
        if now is not None:
            operator.advance_processing_time(now)
        return self._flush(step, before=True)

    def _end(self, step: Step, operator: KeyedOperator) -> bool:
        """Fires timers that were set before the clock, and passes on results; returns whether there are any."""
        for _ in operator.ending_round():
            pass
        return self._flush(step, before=False)

    def _take_shuffled(
        self, step: Step, operator: KeyedOperator, order: KeyOrder, watermark: int, now: int | None
    ) -> None:
        """Runs a step's round key by key, in another order than that of times and of arrival."""
        before = operator.current_watermark
        where = self.topology.step(step.inputs[0]).where
        inboxes = {phase: self._inboxes.pop((step.id, phase), []) for phase in (True, False)}
        for keys, _, _ in chain(*inboxes.values()):
            check_hashable(keys, where)
        elements = {phase: by_key(batches) for phase, batches in inboxes.items()}
        emitting: set[int] = set()

        def take(key: int, *, phase: bool) -> None:
            if (of_key := elements[phase].get(key)) is not None:
                self._process(step, of_key)

        def first(key: int) -> None:
            operator.current_watermark = before
            take(key, phase=True)

        def advance(key: int) -> None:
            operator.current_watermark = before
            emitting.update([key] if self._advance(step, operator, watermark, now) else [])

        def last(key: int) -> None:
            take(key, phase=False)
            emitting.update([key] if self._end(step, operator) else [])

        def each(*phases: Callable[[int], None]) -> None:
            state = operator.state
            clock = operator.current_processing_time
            due = [] if watermark == before else due_keys(state.event_timers, watermark)
            keys = dict.fromkeys(chain(elements[True], due, due_keys(state.processing_timers, clock), elements[False]))
            must_differ = self._mixed.isdisjoint(self._upstream_of(step))
            with one_by_one(state, keys) as turn_to:
                for key in order.shuffled(keys, must_differ=must_differ):
                    turn_to(key)
                    for phase in phases:
                        phase(key)

        if isinstance(operator, BroadcastTaker):
            # Broadcast elements change what all keys see.
            self._take(step, before=True)
            each(first)
            each(advance)
            self._advance(step, operator, watermark, now)
            self._take(step, before=False)
            each(last)
        else:
            each(first, advance, last)
            self._advance(step, operator, watermark, now)
        self._end(step, operator)
        if len(emitting) > 1:
            self._mixed.add(step.id)

    def _upstream_of(self, step: Step) -> set[str]:
        """Returns the ids of the steps upstream of a step."""
        upstream, waiting = set[str](), [*step.inputs]
        while waiting:
            identifier = waiting.pop()
            if identifier not in upstream:
                upstream.add(identifier)
                waiting += self.topology.step(identifier).inputs
        return upstream

    def _begin(self, processing_time: int | None) -> None:
        """Begins a round: resets functions to their attributes after ``open``, and tells trackers the clock."""
        if self._order is not None:
            self._order.begin_round()
            self._mixed.clear()
        for renewal in self._renewals.values():
            renewal.renew()
        self.taken.clear()
        self.given.clear()
        for metrics in self.metrics.values():
            metrics.end_batch()
        if processing_time is not None:
            self._now = processing_time
            for tracker in self.trackers.values():
                tracker.now = processing_time

    def _advance_seen(self, watermark: int | Mapping[str, int] | None) -> None:
        """Advances the watermarks that process functions without keys see."""
        self._seen_before = self._seen
        if watermark is None:
            return
        steps = [step.id for step in self.topology.steps if step.node.sees_time]
        watermarks = dict.fromkeys(steps, watermark) if isinstance(watermark, int) else watermark
        before = self._seen
        self._seen = {step: max(before.get(step, MIN_TIMESTAMP), watermarks.get(step, MIN_TIMESTAMP)) for step in steps}

    def watermark_of(self, step: Step) -> int:
        """Returns the watermark that a process function without keys sees; the previous one for timers' results."""
        seen = self._seen_before if self._phase_before else self._seen
        return seen.get(step.id, MIN_TIMESTAMP)

    def processing_time(self) -> int:
        """Returns the clock that a process function without keys sees, in milliseconds."""
        return self._now

    def _take(self, step: Step, *, before: bool) -> None:
        """Takes what has come for a step, broadcast elements first."""
        broadcasts = self._broadcasts.pop((step.id, before), ())
        if broadcasts:
            operator = self.operators[step.id]
            assert isinstance(operator, BroadcastTaker), "broadcast elements are sent to steps that take them"
            values, timestamps = zip(*[(each.values, each.timestamps) for each in broadcasts], strict=True)
            operator.process_broadcast([*chain.from_iterable(values)], [*chain.from_iterable(timestamps)])
        for batch in self._inboxes.pop((step.id, before), ()):
            self._process(step, batch)

    def _process(self, step: Step, batch: _Keyed) -> None:
        operator = self.operators[step.id]
        take = operator.process_batch if operator.observer is None else operator.process_observed
        renewal = self._renewals.get(step.id)
        try:
            if renewal is None:
                take(*batch)
                return
            # Functions are reset for each key, since on Spark each key may be in another worker.
            keys, values, timestamps = batch
            check_hashable(keys, self.topology.step(step.inputs[0]).where)
            # Keys are grouped by hash, since comparing users' keys may fail.
            end = 0
            for _, run in groupby(keys, key=hash):
                begin, end = end, end + len(list(run))
                renewal.renew()
                take(keys[begin:end], values[begin:end], timestamps[begin:end])
        except WindrowError as error:
            if isinstance(error.__cause__, TypeError):
                # A key without a hash is the fault of the step that selected it.
                check_hashable(batch[0], self.topology.step(step.inputs[0]).where)
            raise

    def _flush(self, step: Step, *, before: bool) -> bool:
        """Passes on what a step has emitted; returns whether it is anything."""
        self._phase_before = before
        outputs = self._buffers[step.id].take()
        for tag, elements in outputs:
            port = Port(step.id, tag)
            if tag is None:
                self.given[step.id] += len(elements.values)
            if self._observe is not None:
                self._observe(port, own_all(elements.values), elements.timestamps)
            self._pass_on(port, elements)
        self._phase_before = False
        return bool(outputs)

    def _pass_on(self, port: Port, elements: StampedElements) -> None:
        fragment = self._fragments.get(port)
        if fragment is None:
            return
        if not elements.partitions:
            fragment.run(elements.values, elements.timestamps, elements.origin)
        end = 0
        for name, count in elements.partitions:
            for tracker in self.trackers.values():
                tracker.partition = name
            begin, end = end, end + count
            if count:
                origin = None if elements.origin is None else moved(elements.origin, begin)
                fragment.run(elements.values[begin:end], elements.timestamps[begin:end], origin)

    def to_step(self, step: str, keys: list[Hashable], values: list[Any], timestamps: list[int | None]) -> None:
        """Collect elements that a fragment emits to a keyed step."""
        self.taken[step] += len(values)
        self._inboxes[step, self._phase_before].append((keys, values, timestamps))

    def to_all_keys(self, step: str, values: list[Any], timestamps: list[int | None]) -> None:
        """Collect elements that a fragment emits to all keys of a keyed step."""
        self.taken[step] += len(values)
        self._broadcasts[step, self._phase_before].append(StampedElements(values, timestamps))

    def to_sink(self, step: str, values: list[Any], timestamps: list[int | None]) -> None:
        """Collect elements that a fragment emits to a sink."""
        self.taken[step] += len(values)
        sink = self.sinks[step]
        sink.values.extend(values)
        sink.timestamps.extend(timestamps)

    def write_sinks(
        self, steps: Iterable[Step], batch: int, collected: Mapping[int, list[Any]], outputs: Mapping[str, Output]
    ) -> None:
        """Hands a batch to sinks: to the lists of those in memory, by their ids, and to the outputs of others."""
        for step in steps:
            elements = self.sinks.pop(step.id, None)
            if elements is None or not elements.values:
                continue
            self.written[step.id] += len(elements.values)
            sink = id(sink_of(step))
            if sink in collected:
                collected[sink].extend(elements.values)
            else:
                outputs[step.id].write(batch, elements.values)

    def end_batch(
        self, now: int, ended: Collection[str] = (), exhausted: Collection[str] = (), asked: int | None = None
    ) -> dict[str, int]:
        """Tell watermark generators to emit at ``now``, and return each keyed step's watermark for the next round.

        ``ended`` are the ids of sources that have ended, ``exhausted`` those of sources that were read to their end and
        may have more in a later run. ``asked`` is the clock when the sources were asked; None: ``now``.
        """
        asked = now if asked is None else asked
        for identifier, tracker in self.trackers.items():
            source = self._partitioned.get(identifier)
            sources = self._arrived.keys() & set(self.topology.boundaries_before[identifier])
            partitions = set[str]().union(*(self._arrived[each] for each in sources))
            read = source and source.read(self._open_partitions.get(source.step))
            tracker.end_batch(now, read, Arrivals(asked, any=bool(sources), partitions=partitions))
        self._arrived.clear()
        self._waiting = {
            step: partitions.waiting for step, partitions in self._open_partitions.items() if partitions is not None
        }
        self._open_partitions = {}
        of_operators = {identifier: operator.current_watermark for identifier, operator in self.operators.items()}
        before = {**self._watermarks, **of_operators}
        self._watermarks = watermarks_of(self.topology, self.trackers, before, ended, exhausted)
        return self._watermarks

    def is_due(self, watermarks: Mapping[str, int]) -> bool:
        """Returns whether watermarks by the ids of steps make an event timer due."""
        for step, operator in self.operators.items():
            earliest = operator.state.earliest_event_timer()
            if earliest is not None and max(earliest, operator.current_watermark + 1) <= watermarks[step]:
                return True
        return False

    def held(self, source: str) -> Collection[str]:
        """Returns the partitions of a source of which the next round reads nothing, by the alignment of watermarks."""
        trackers = self.trackers
        held = held_partitions(
            self._aligned, self._partitioned, lambda step: trackers[step].partitions(), self._waiting
        )
        return held.get(source, ())

    def step_metrics(self) -> StepMetrics:
        """Returns the metrics of all steps so far."""
        return StepMetrics.of_run(self.metrics)

    def snapshot(self) -> Snapshot:
        """Returns the state, watermark and clock of every keyed step, the states of trackers, and what has arrived."""
        keyed = {
            name: _StepSnapshot(operator.state.dump(), operator.current_watermark, operator.current_processing_time)
            for name, operator in self.operators.items()
        }
        trackers = {name: own(tracker.memory()) for name, tracker in self.trackers.items()}
        return keyed, trackers, self._seen, self._now, {name: {*names} for name, names in self._arrived.items()}

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot, in an execution that has processed nothing yet."""
        keyed, trackers, self._seen, self._now, arrived = snapshot
        self._arrived.update({name: {*names} for name, names in arrived.items()})
        for identifier, step in keyed.items():
            operator = self.operators[identifier]
            operator.bind(OperatorState.load(step.state), self._buffers[identifier])
            operator.current_watermark, operator.current_processing_time = step.watermark, step.clock
        for identifier, memory in trackers.items():
            self.trackers[identifier].remember(memory)

    def go_on(self, start: RunStart) -> None:
        """Take the state of a savepoint, in an execution that has processed nothing yet."""
        for identifier, step in start.steps.items():
            operator = self.operators[identifier]
            operator.bind(step.state, self._buffers[identifier])
            operator.current_watermark, operator.current_processing_time = step.watermark, step.clock
        for identifier, memory in start.trackers.items():
            self.trackers[identifier].remember(memory)
        self._watermarks, self._seen = dict(start.watermarks), dict(start.previous)
        for identifier in self.operators.keys() & start.previous.keys() - start.steps.keys():
            self.operators[identifier].current_watermark = start.previous[identifier]
