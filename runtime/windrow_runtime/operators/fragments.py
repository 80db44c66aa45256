"""Fuses the stateless steps between two boundaries into a fragment, which runs them on many elements at once.

Elements are a pair of lists of the same length, values and timestamps. Steps work on whole lists, so that the loop over
elements runs inside Python's ``map`` and ``filter``.

The step that values are pushed to may change them. So a result is copied when its function returns it, and each reader
of the same elements but the last gets copies. So does a filter, a key selector or a timestamp function, since the
elements themselves are passed on. Constants are never copied.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress, groupby
from typing import Any, Final, Protocol

from windrow.calls.results import LAZY_TYPES, truth
from windrow.errors import InvalidArgumentError, MissingTimestampError, WindrowError
from windrow.failures import ErrorPolicy
from windrow.functions import RichFunction, RuntimeContext
from windrow.panes import Change, ChangeKind
from windrow.plan import (
    BroadcastNode,
    ChangelogNode,
    FilterNode,
    FlatMapNode,
    FromChangesNode,
    KeyByNode,
    MapAsyncNode,
    MapBatchesNode,
    MapNode,
    Node,
    ProcessNode,
    ReturnsNode,
    SinkNode,
    Step,
    TimestampsNode,
    UnionNode,
)
from windrow.plan.changing import carries_changes
from windrow.plan.emitting import TUPLE_HINT, is_fixed_tuple, records_of
from windrow.rows.equality import as_keys
from windrow.rows.newest import TimedChange
from windrow.side_inputs.views import ElementNode
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, timestamp_millis
from windrow_runtime.operators.async_step import AsyncStep
from windrow_runtime.operators.changes import Changed, runs_of
from windrow_runtime.operators.class_facts import CONSTANT_TYPES, is_constant_type
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import lifecycle_errors, shortened
from windrow_runtime.operators.fused_step import FusedStep, PutAside, Timestamps, Values
from windrow_runtime.operators.guarded.encoding import EncodableOnly, EncoderOf
from windrow_runtime.operators.guarded.trail import Trail, both, grouped, kept
from windrow_runtime.operators.lookup_steps import BatchStep, Observe, ProcessStep, StepTimes, Taps
from windrow_runtime.operators.topology import Port, Topology
from windrow_runtime.operators.watermarks import TimestampObserver
from windrow_runtime.origins import Origin, moved

# Any in this module: elements of every type.

ObserverOf = Callable[[Step, TimestampsNode], TimestampObserver]
"""Returns the observer of a timestamp-assigning step: the same one for a step that several fragments contain."""


Then = Sequence[FusedStep]
"""The steps downstream of a step."""


class FragmentOutput(Protocol):
    """The engine's side of a fragment, to which it emits elements."""

    def to_step(self, step: str, keys: list[Hashable], values: Values, timestamps: Timestamps) -> None:
        """Emits elements to a keyed step, with their keys; without keys, every key is None."""

    def to_all_keys(self, step: str, values: Values, timestamps: Timestamps) -> None:
        """Emits elements to all keys of a keyed step."""

    def to_sink(self, step: str, values: Values, timestamps: Timestamps) -> None:
        """Emits elements to a sink."""


class Fragment:
    """The stateless steps that read from one port, up to the next boundaries.

    Steps that only feed keyed steps in ``fed_by_columns`` are left out: these get their elements as columns.
    ``observer_of`` returns the observers of timestamp-assigning steps. ``observe`` is called with elements of side
    outputs. ``times`` tells process functions the time. ``encoder_of`` is asked for sinks with an error policy.
    """

    def __init__(
        self,
        topology: Topology,
        port: Port,
        output: FragmentOutput,
        observer_of: ObserverOf,
        times: StepTimes,
        encoder_of: EncoderOf,
        fed_by_columns: frozenset[str] = frozenset(),
        observe: Callable[[Port, Values, Timestamps], None] | None = None,
    ) -> None:
        self._topology = topology
        self._encoder_of = encoder_of
        self._observe = observe
        begins = any(step.node.begins_changes is not None and not step.node.is_keyed for step in topology.steps)
        self._changes = _Changes(output) if begins or carries_changes(topology.node_of(port)) else None
        self._output: FragmentOutput = self._changes or output
        self._observer_of = observer_of
        self._times = times
        self._fed_by_columns = fed_by_columns
        self._trail = Trail()
        self._built: dict[str, FusedStep] = {}
        self._functions: list[tuple[Step, RichFunction]] = []
        begin = topology.step(port.step)
        constant = port.tag is None and is_constant_type(begin.node.element_type)
        self._head = FusedStep(begin, self._fused(topology.entries(port)), constant=constant)
        self._head.trail = self._trail

    @property
    def has_readers(self) -> bool:
        """Whether the fragment has steps to run."""
        return bool(self._head.then)

    def open(self, runtime: Callable[[Step], RuntimeContext]) -> None:
        """Open the user's functions."""
        for step, function in self._functions:
            with lifecycle_errors(step, "open", function):
                function.open(runtime(step))
        for built in self._built.values():
            context = runtime(built.step)
            built.open(context)
            if built.guard is not None:
                built.guard.metrics = context.metrics

    def close(self) -> None:
        """Close the user's functions."""
        for built in self._built.values():
            built.close()
        for step, function in self._functions:
            with lifecycle_errors(step, "close", function):
                function.close()

    def run(self, values: Values, timestamps: Timestamps, origin: Origin | None = None) -> None:
        """Run the steps on elements, which they may change, though not the list.

        Args:
            values: The elements.
            timestamps: Those of the elements, in milliseconds.
            origin: Describes where the source read an element, by its index; None: nobody can tell.
        """
        self._trail.begin(origin)
        if self._changes is None:
            self._head.push(values, timestamps)
            return
        # The steps see values of changes of one kind at a time; the kind is added again when they leave the fragment.
        for kind, positions, run in runs_of(values):
            self._changes.kind = kind
            self._trail.begin(None if origin is None else moved(origin, positions.start))
            self._head.push(run, timestamps[positions])

    def _is_wanted(self, step: Step) -> bool:
        """Returns whether a step, or one downstream, gets its elements from this fragment."""
        return self._topology.needs_objects(step, self._fed_by_columns)

    def _fused(self, steps: Iterable[Step]) -> list[FusedStep]:
        fused: list[FusedStep] = []
        for step in filter(self._is_wanted, steps):
            # A step that two branches share is built once, so that its functions open once.
            if step.id not in self._built:
                self._built[step.id] = built = self._new_step(step)
                built.trail = self._trail
                policy = step.node.error_policy
                if policy is not None and not step.node.is_keyed:
                    built.guard_by(policy, self._taps(step).push)
                if isinstance(built.function, RichFunction):
                    self._functions.append((step, built.function))
            fused.append(self._built[step.id])
        return fused

    def _new_step(self, step: Step) -> FusedStep:
        node, output, readers = step.node, self._output, self._topology.readers(step)
        if node.is_keyed:
            return _Boundary(step, lambda values, stamps: output.to_step(step.id, [None] * len(values), values, stamps))
        end = ENDS.get(type(node))
        if end is not None:
            return end(self, step, node, readers)
        # Plans may have hundreds of steps in a row: the steps downstream are made here, in few frames.
        return STATELESS[type(node)](self, step, node, self._fused(readers))

    def _key_by(self, step: Step, node: KeyByNode, readers: Sequence[Step]) -> FusedStep:
        return _Keyed(step, node, [reader.id for reader in filter(self._is_wanted, readers)], self._output)

    def _broadcast(self, step: Step, node: BroadcastNode, readers: Sequence[Step]) -> FusedStep:
        output = self._output
        return FusedStep(step, [_Boundary(reader, partial(output.to_all_keys, reader.id)) for reader in readers])

    def _sink(self, step: Step, node: SinkNode, then: Then) -> FusedStep:
        end = _Boundary(step, partial(self._output.to_sink, step.id))
        return end if node.error_policy is None else EncodableOnly(step, [end], self._encoder_of)

    def _timestamps(self, step: Step, node: TimestampsNode, then: Then) -> FusedStep:
        return _Timestamps(step, then, node, self._observer_of(step, node))

    def _changelog(self, step: Step, node: ChangelogNode, then: Then) -> FusedStep:
        return _Changelog(step, then, node.function, self._changes)

    def _from_changes(self, step: Step, node: FromChangesNode, then: Then) -> FusedStep:
        assert self._changes is not None, "some step begins changes"
        return _FromChanges(step, then, self._changes)

    def _process(self, step: Step, node: ProcessNode, then: Then) -> FusedStep:
        return ProcessStep(step, then, self._taps(step), node, self._times)

    def _map_async(self, step: Step, node: MapAsyncNode, then: Then) -> FusedStep:
        return AsyncStep(step, then, self._taps(step), node)

    def _map_batches(self, step: Step, node: MapBatchesNode, then: Then) -> FusedStep:
        return BatchStep(step, then, node)

    def _map(self, step: Step, node: MapNode, then: Then) -> FusedStep:
        return _Map(step, then, node.function, emits=True)

    def _filter(self, step: Step, node: FilterNode, then: Then) -> FusedStep:
        return _Filter(step, then, node.function)

    def _flat_map(self, step: Step, node: FlatMapNode, then: Then) -> FusedStep:
        readers = (reader.node for reader in self._topology.readers(step))
        stated = (reader.element_type for reader in readers if reader.states_type)
        return _FlatMap(step, then, node.function, node.element_type or next(stated, None))

    def _returns(self, step: Step, node: ReturnsNode, then: Then) -> FusedStep:
        return (_Tuples if is_fixed_tuple(node.element_type) else FusedStep)(step, then)

    def _union(self, step: Step, node: UnionNode, then: Then) -> FusedStep:
        return FusedStep(step, then)

    def _taps(self, step: Step) -> Taps:
        """Returns the readers of the side outputs of a step without state."""
        readers_of = {tag: self._fused(readers) for tag, readers in self._topology.taps(step).items()}
        return Taps(step, readers_of, self._trail, self._observing(step))

    def _observing(self, step: Step) -> Observe | None:
        observe = self._observe
        if observe is None:
            return None
        return lambda tag, values, timestamps: observe(Port(step.id, tag), values, timestamps)


# Any: each method takes nodes of its class.
STATELESS: Final[Mapping[type[Node], Callable[[Fragment, Step, Any, Then], FusedStep]]] = {
    ChangelogNode: Fragment._changelog,
    ElementNode: Fragment._map,
    FilterNode: Fragment._filter,
    FlatMapNode: Fragment._flat_map,
    FromChangesNode: Fragment._from_changes,
    MapAsyncNode: Fragment._map_async,
    MapBatchesNode: Fragment._map_batches,
    MapNode: Fragment._map,
    ProcessNode: Fragment._process,
    ReturnsNode: Fragment._returns,
    SinkNode: Fragment._sink,
    TimestampsNode: Fragment._timestamps,
    UnionNode: Fragment._union,
}
"""What makes the step of a fragment, by the class of its node, with the steps downstream."""

# Any: the same.
ENDS: Final[Mapping[type[Node], Callable[[Fragment, Step, Any, Sequence[Step]], FusedStep]]] = {
    BroadcastNode: Fragment._broadcast,
    KeyByNode: Fragment._key_by,
}
"""What makes the last step of a fragment, by the class of its node, with the steps that read it elsewhere."""


class _Map(FusedStep):
    def push(self, values: Values, timestamps: Timestamps) -> None:
        results, values, timestamps = self._apply_guarded(values, timestamps)
        if self._constant and not LAZY_TYPES.isdisjoint(map(type, results)):
            self._for_each(values, own, results)
        self._forward(results, timestamps, kept(self._kept))
        self._pass_failed()


class _Tuples(FusedStep):
    """Refuses elements that are no tuples although ``returns`` says so: a flat_map that returns one emits its items."""

    def push(self, values: Values, timestamps: Timestamps) -> None:
        for value in values:
            if not isinstance(value, tuple):
                raise InvalidArgumentError(
                    "an element is not of the type that returns(...) declares",
                    given=shortened(value),
                    expected=f"a {self.step.node.element_type}",
                    where=self.step.where,
                    hint=TUPLE_HINT,
                )
        self._forward(values, timestamps)


class _Changes:
    """Wraps elements with the kind of their change when they leave a fragment."""

    def __init__(self, output: FragmentOutput) -> None:
        self._output = output
        self.kind = ChangeKind.INSERT

    def to_step(self, step: str, keys: list[Hashable], values: Values, timestamps: Timestamps) -> None:
        self._output.to_step(step, keys, self._with_kind(values), timestamps)

    def to_all_keys(self, step: str, values: Values, timestamps: Timestamps) -> None:
        self._output.to_all_keys(step, self._with_kind(values), timestamps)

    def to_sink(self, step: str, values: Values, timestamps: Timestamps) -> None:
        self._output.to_sink(step, self._with_kind(values), timestamps)

    def _with_kind(self, values: Values) -> Values:
        return values if self.kind is ChangeKind.INSERT else [Changed(self.kind, value) for value in values]


class _Changelog(FusedStep):
    """Turns changes into records, which are no changes for the steps downstream."""

    def __init__(
        self,
        step: Step,
        then: Sequence[FusedStep],
        function: Callable[[ChangeKind, Any], Any],
        changes: _Changes | None,
    ) -> None:
        super().__init__(step, then, lambda value: function(self._kind, value), emits=True)
        self._changes = changes

    @property
    def _kind(self) -> ChangeKind:
        return ChangeKind.INSERT if self._changes is None else self._changes.kind

    def push(self, values: Values, timestamps: Timestamps) -> None:
        records = self._apply(values)
        if self._changes is None:
            self._forward(records, timestamps)
            return
        kind, self._changes.kind = self._changes.kind, ChangeKind.INSERT
        try:
            self._forward(records, timestamps)
        finally:
            self._changes.kind = kind


class _FromChanges(FusedStep):
    """Turns records of changes into changes of one kind at a time."""

    def __init__(self, step: Step, then: Sequence[FusedStep], changes: _Changes) -> None:
        super().__init__(step, then)
        self._changes = changes

    def push(self, values: Values, timestamps: Timestamps) -> None:
        start = 0
        try:
            for kind, run in groupby(values, self._kind_of):
                changes = list(run)
                begin = start
                stamps = timestamps[begin : begin + len(changes)]
                start += len(changes)
                if TimedChange in set(map(type, changes)):
                    pairs = zip(changes, stamps, strict=True)
                    stamps = [each.timestamp if isinstance(each, TimedChange) else at for each, at in pairs]
                self._changes.kind = kind
                self._forward([each.value for each in changes], stamps, begin.__add__)
        finally:
            self._changes.kind = ChangeKind.INSERT

    def _kind_of(self, change: object) -> ChangeKind:
        if isinstance(change, Change):
            return change.kind
        raise InvalidArgumentError(
            "from_changes takes records of changes",
            given=shortened(change),
            expected="a Change, or any record with op=",
            where=self.step.where,
        )


class _Filter(FusedStep):
    def guard_by(self, policy: ErrorPolicy, put_aside: PutAside) -> None:
        super().guard_by(policy, put_aside)
        calls = self._calls
        self._calls = lambda values: map(truth, calls(values))

    def push(self, values: Values, timestamps: Timestamps) -> None:
        keep, values, timestamps = self._apply_guarded(values, timestamps)
        if not CONSTANT_TYPES.issuperset(map(type, keep)):
            keep = self._for_each(values, truth, keep)
        places = both(kept(keep), kept(self._kept))
        self._forward(list(compress(values, keep)), list(compress(timestamps, keep)), places)
        self._pass_failed()


class _FlatMap(FusedStep):
    def __init__(
        self,
        step: Step,
        then: Sequence[FusedStep],
        function: Callable[[Any], Iterable[Any] | None],
        type_form: object | None,
    ) -> None:
        super().__init__(step, then, function, emits=True)
        self._type_form = type_form
        self._calls = partial(map, partial(self._results, function))

    def _results(self, function: Callable[[Any], Iterable[Any] | None], value: Any) -> Sequence[Any]:
        """Returns all results for a value. A generator is read here, so that its errors are caught with its element."""
        results = function(value)
        if results is None:
            return ()
        records = records_of(results, self._type_form)
        return list(records if self._constant else map(own, records))

    def push(self, values: Values, timestamps: Timestamps) -> None:
        flat: Values = []
        stamps: Timestamps = []
        groups, _, timestamps = self._apply_guarded(values, timestamps)
        for group, timestamp in zip(groups, timestamps, strict=True):
            if group:
                flat.extend(group)
                stamps.extend([timestamp] * len(group))
        self._forward(flat, stamps, both(grouped(groups), kept(self._kept)))
        self._pass_failed()


class _Timestamps(FusedStep):
    def __init__(
        self, step: Step, then: Sequence[FusedStep], node: TimestampsNode, observer: TimestampObserver
    ) -> None:
        super().__init__(step, then, node.timestamp)
        self._ingestion = node.strategy.ingestion_time
        self._observer = observer

    def push(self, values: Values, timestamps: Timestamps) -> None:
        if self._ingestion:
            assigned: list[Any] = [self._observer.now] * len(values)
        else:
            assigned = list(timestamps)
            if self.function is not None:
                assigned, values, _ = self._apply_guarded(values, timestamps)
        if values:
            stamps = self._millis(assigned, values)
            self._observer.observe(values, stamps)
            self._forward(values, list(stamps), kept(self._kept))
        self._pass_failed()

    def _millis(self, assigned: list[Any], values: Values) -> list[int]:
        if set(map(type, assigned)) == {int} and min(assigned) >= MIN_TIMESTAMP and max(assigned) <= MAX_TIMESTAMP:
            return assigned
        stamps: list[int] = []
        for timestamp, value in zip(assigned, values, strict=True):
            if timestamp is None:
                raise MissingTimestampError(
                    "an element has no timestamp",
                    given=shortened(value),
                    expected="the timestamp function to give epoch milliseconds or an aware datetime",
                    where=self.step.where,
                    hint="filter such elements out before assign_timestamps_and_watermarks",
                )
            try:
                stamps.append(timestamp_millis(timestamp))
            except WindrowError as error:
                raise error.at(f"{self.step.where}, element {shortened(value)}") from None
        return stamps


class _Keyed(FusedStep):
    """Selects the keys of elements, once for all keyed steps downstream of one ``key_by``."""

    def __init__(self, step: Step, node: KeyByNode, targets: Sequence[str], output: FragmentOutput) -> None:
        super().__init__(step, function=node.selector)
        self._targets = targets
        self._output = output

    def push(self, values: Values, timestamps: Timestamps) -> None:
        keys, values, timestamps = self._apply_guarded(values, timestamps)
        if not LAZY_TYPES.isdisjoint(map(type, keys)):
            self._for_each(values, own, keys)
        if values:
            keys = as_keys(keys)
            for target in self._targets[1:]:
                self._output.to_step(target, keys, self._copies(values), timestamps)
            for target in self._targets[:1]:  # it is the last to get them, and need not have copies
                self._output.to_step(target, keys, values, timestamps)
        self._pass_failed()


class _Boundary(FusedStep):
    """Emits elements to a sink, or to a keyed step of a stream without keys."""

    def __init__(self, step: Step, hand_on: Callable[[Values, Timestamps], None]) -> None:
        super().__init__(step, constant=False)
        self._hand_on = hand_on

    def push(self, values: Values, timestamps: Timestamps) -> None:
        self._hand_on(values, timestamps)
