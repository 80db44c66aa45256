"""Stores which streams feed which step of a plan, and finds streams that were exchanged in a later plan.

State and positions are found by the names of steps, or by their order. Neither tells whether a step has the same inputs
as before: two sources of one class, or the sides of a join, may have changed places.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from windrow.aggregates.declared import Declaration, DeclaredAggregate
from windrow.connectors import CustomSink
from windrow.errors import InvalidArgumentError
from windrow.functions.marked import CoGroup, FromLeft, FromRight, JoinPairs, SideKey
from windrow.functions.wrapper import unwrapped
from windrow.kafka import KafkaSink
from windrow.plan import (
    AggregateSpec,
    AsOfJoinNode,
    BroadcastNode,
    IntervalJoinNode,
    KeyByNode,
    KeyedProcessNode,
    MapNode,
    ReturnsNode,
    SideOutputNode,
    SourceNode,
    Step,
    TimestampsNode,
    UnionNode,
    WindowNode,
)
from windrow.plan.nodes import type_name
from windrow.rolling import Extreme, RollingReduce, RollingValue
from windrow.sources import CollectionSource, FileSource
from windrow_runtime.operators.topology import is_keyed, sink_of, source_of
from windrow_runtime.outputs.registry import target_of
from windrow_runtime.physical.plan import PhysicalPlan
from windrow_runtime.spark.checkpoint.code_mark import Mark, digest, mark_of, object_digest
from windrow_runtime.spark.checkpoint.stored_sinks import (
    FoundSinks,
    SinkMarks,
    StoredSink,
    found_sinks,
    new_sinks,
    unstored_sinks,
)

# Any in this module: functions of elements of every type.

_KEYS: Final = ("the key", "the key of the left", "the key of the right")


@dataclass(frozen=True, slots=True)
class StreamMarks:
    """The marks of one source, timestamp-assigning step or keyed step, by which changes of its streams are found.

    Attributes:
        parts: Marks that must not change, by their names in errors.
        moving: Marks that may change, but not into the former mark of a similar step, by their names in errors.
        name: The name that the user gave the step.
    """

    parts: Mapping[str, Mark] = field(default_factory=dict)
    moving: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None


@dataclass(frozen=True, slots=True)
class StoredStreams:
    """The marks of a plan: those of sources in their order, and those of other steps by the names of their state.

    The sinks are None where an earlier version wrote the checkpoint.
    """

    sources: Sequence[StreamMarks]
    steps: Mapping[str, StreamMarks]
    sinks: Sequence[StoredSink] | None = None


def streams_of(plan: PhysicalPlan) -> StoredStreams:
    """Returns the marks of a plan."""
    topology, names = plan.topology, plan.state_ids
    feeds = _Feeds(plan)
    steps: dict[str, StreamMarks] = {}
    for step in topology.keyed:
        # A named step cannot be mixed up with another one, but for those of several uses of one function.
        moving = {} if step.name is not None and not step.scope else {"the functions in front": feeds.route_to(step)}
        parts = feeds.inputs_of(step) | _parts(step, topology.key_by(step))
        steps[names[step.id]] = StreamMarks(parts, moving, step.name)
    for step in topology.timestamps:
        assert isinstance(step.node, TimestampsNode)
        taken = "" if step.node.timestamp is None else _stable(step.node.timestamp)
        moving = {"the timestamps": digest(taken, step.node.strategy.description)}
        steps[names[step.id]] = StreamMarks(feeds.inputs_of(step), moving, step.name)
    return StoredStreams(list(map(_source_marks, topology.sources)), steps)


def sinks_of(
    stored: StoredStreams | None, plan: PhysicalPlan, accepted: Collection[str] = (), *, begins: bool = False
) -> FoundSinks:
    """Finds the sinks of a plan among those that its checkpoint has stored, unless the query ``begins``."""
    feeds, exact = _Feeds(plan), _Feeds(plan, _exact)
    marks = {
        step: SinkMarks(
            target,
            None if step.scope else step.name,  # several uses of one function are numbered by their order
            digest(sink.describe(), object_digest(sink) if isinstance(sink, CustomSink) else ""),
            digest(*feeds.written_by(step)),
            digest(*exact.written_by(step)),
        )
        for step in plan.topology.sinks
        if (target := target_of(sink := sink_of(step))) is not None
    }
    if begins:
        return new_sinks(marks)
    if stored is None or stored.sinks is None:
        return unstored_sinks(marks)
    return found_sinks(stored.sinks, marks, lambda step: _is_in(step, accepted))


def stream_changes(
    stored: StoredStreams, now: StoredStreams, plan: PhysicalPlan, accepted: Collection[str]
) -> Iterator[str]:
    """Yields the steps whose streams were exchanged or replaced, except for steps whose changes are accepted."""
    topology, names = plan.topology, plan.state_ids
    pairs = list(zip(topology.sources, stored.sources, now.sources, strict=False))
    yield from _exchanged(pairs, accepted)
    for step, before, marks in pairs:
        if None not in (before.name, marks.name) and before.name != marks.name and not _is_in(step, accepted):
            yield f"{step.where}: the source in its place was {before.name!r} and is {marks.name!r}"
    triples = [
        (step, stored.steps[names[step.id]], now.steps[names[step.id]])
        for step in (*topology.keyed, *topology.timestamps)
        if names[step.id] in stored.steps
    ]
    for kind in (topology.keyed, topology.timestamps):
        yield from _exchanged([each for each in triples if each[0] in kind], accepted)
    for step, before, marks in triples:
        if _is_in(step, accepted):
            continue
        for part in dict.fromkeys((*before.parts, *marks.parts)):
            old, new = before.parts.get(part), marks.parts.get(part)
            if old is None or new is None:
                yield f"{step.where}: {part} was {old or 'nothing'} and is {new or 'nothing'}"
            elif not old.is_that_of(new):
                yield f"{step.where}: {part} {old.change_to(new)}"


def key_changes(before: StreamMarks, now: StreamMarks) -> list[str]:
    """Returns the changes of the functions that take the keys of a step."""
    pairs = [(part, before.parts[part], mark) for part, mark in now.parts.items() if part in before.parts]
    return [f"{part} {old.change_to(new)}" for part, old, new in pairs if part in _KEYS and not old.is_that_of(new)]


def check_accepted(steps: Iterable[Step], accepted: Collection[str]) -> None:
    """Raises an ``InvalidArgumentError`` if ``accepted`` names a step that the plan does not have."""
    existing = {text for step in steps for text in (step.id, step.name) if text is not None}
    for name in accepted:
        if name not in existing:
            raise InvalidArgumentError(
                "accept_changes names no step of the plan",
                given=name,
                expected="ids of steps, as explain() shows them, or their names",
                hint="leave out what an earlier run has accepted",
            )


def _is_in(step: Step, accepted: Collection[str]) -> bool:
    return step.id in accepted or step.name in accepted


def _exchanged(pairs: Sequence[tuple[Step, StreamMarks, StreamMarks]], accepted: Collection[str]) -> Iterator[str]:
    """Yields the steps that have the former mark of a similar step, which has another one now."""
    for step, before, now in pairs:
        for what, mark in now.moving.items():
            if before.moving.get(what, mark) == mark or _is_in(step, accepted):
                continue
            for other, theirs, new in pairs:
                moved = other is not step and theirs.moving.get(what) == mark and new.moving.get(what) != mark
                if moved:
                    yield f"{step.where}: {what} was that of {other.where}"
                    break


def _source_marks(step: Step) -> StreamMarks:
    source = source_of(step)
    moving = {"the type of the elements": type_name(step.node.element_type)}
    if isinstance(source, FileSource):
        address: str | None = source.path
    elif isinstance(source, CollectionSource):
        address = _shown(source.elements[:100])
    else:
        address = source.describe()
    if address is not None:
        moving["what it reads"] = digest(address)  # an address may hold a secret
    return StreamMarks(moving=moving, name=step.name)


def _shown(elements: Sequence[Any]) -> str | None:
    """Returns the text of elements; None if it differs in each process, or ``repr`` raises an error."""
    try:
        text = repr(list(elements))
    except Exception:  # a class of the user's may raise anything
        return None
    return None if " at 0x" in text else text


class _Feeds:
    """Finds, for each step, which sources and keyed steps feed it, and through which functions, by their texts."""

    def __init__(self, plan: PhysicalPlan, text_of: Callable[[Callable[..., Any]], str] | None = None) -> None:
        topology, names = plan.topology, plan.state_ids
        self._text_of = text_of = text_of or _stable
        numbers = {step.id: number for number, step in enumerate(topology.sources, start=1)}
        self._before: dict[str, dict[str, frozenset[str]]] = {}
        self._routes: dict[str, str] = {}
        outputs: dict[str, dict[str, frozenset[str]]] = {}
        routes: dict[str, str] = {}
        for step in topology.steps:
            node = step.node
            taken: dict[str, frozenset[str]] = {}
            for source in step.inputs:
                for port, labels in outputs[source].items():
                    taken[port] = taken.get(port, frozenset()) | labels
            self._before[step.id] = taken
            self._routes[step.id] = digest(*sorted(routes[source] for source in step.inputs))
            if isinstance(node, SourceNode) or is_keyed(node):
                label = f"source {numbers[step.id]}" if isinstance(node, SourceNode) else names[step.id].lstrip("#")
                outputs[step.id] = {"input": frozenset([label])}
                routes[step.id] = ""
                continue
            outputs[step.id] = _led_on(step, taken)
            function: Any = getattr(node, "function", None)
            own = "" if function is None else text_of(function)
            routes[step.id] = digest(node.kind, own, self._routes[step.id])

    def inputs_of(self, step: Step) -> dict[str, Mark]:
        """Returns marks of the sources and keyed steps that feed each input of a step."""
        return {
            f"the {port}": Mark(", ".join(sorted(labels))) for port, labels in sorted(self._before[step.id].items())
        }

    def route_to(self, step: Step) -> str:
        """Returns a digest of the functions directly upstream of a step."""
        return self._routes[step.id]

    def written_by(self, step: Step) -> Iterator[str]:
        """Yields texts for what a sink writes: by which functions, of which sources and keyed steps, and how."""
        yield self.route_to(step)
        yield from (f"{what} {mark}" for what, mark in self.inputs_of(step).items())
        sink = sink_of(step)
        yield (step.node.name or "") if step.scope else ""
        yield type_name(step.node.element_type)
        functions = (sink.topic, sink.key) if isinstance(sink, KafkaSink) else ()
        yield from (self._text_of(function) for function in functions if callable(function))


def _led_on(step: Step, taken: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Returns the sources and keyed steps that feed steps downstream of a stateless one, by input."""
    node = step.node
    whole: frozenset[str] = frozenset().union(*taken.values())
    match node:
        case BroadcastNode():
            return {"rules": whole}
        case MapNode(function=FromLeft()):
            return {"left": whole}
        case MapNode(function=FromRight()):
            return {"right": whole}
        case SideOutputNode():
            return {"input": frozenset(f"{label} side output {node.tag.name!r}" for label in whole)}
        case KeyByNode() | UnionNode() | ReturnsNode():
            return dict(taken)
    # A function turns elements of two streams into those of one.
    return {"input": whole}


def _stable(function: Callable[..., Any]) -> str:
    mark = mark_of(function)
    return mark.text if mark.recognised else mark.names or ""


def _exact(function: Callable[..., Any]) -> str:
    mark = mark_of(function)
    return mark.code or mark.text


def _parts(step: Step, keys: KeyByNode | None) -> dict[str, Mark]:
    """Returns marks of the functions on which stored state depends, and of the settings that decide a join's pairs."""
    parts: dict[str, Mark] = {}
    match keys:
        case KeyByNode(selector=SideKey() as selector):
            parts |= zip(_KEYS[1:], map(mark_of, selector.selectors), strict=True)
        case KeyByNode(selector=selector):
            parts[_KEYS[0]] = mark_of(selector)
    match step.node:
        case IntervalJoinNode() as join:
            parts["the bounds"] = Mark(f"{join.lower} to {join.upper} ms")
        case AsOfJoinNode() as join:
            parts["the join"] = Mark("left outer" if join.is_outer else "inner")
        case KeyedProcessNode() as node:
            parts |= _rolling(unwrapped(node.function))
        case WindowNode() as windows:
            process = windows.function.process
            if isinstance(process, (JoinPairs, CoGroup)):
                parts["the join"] = Mark(process.kind.value if isinstance(process, JoinPairs) else "co_group")
            aggregate = windows.function.aggregate if isinstance(windows.function, AggregateSpec) else None
            if isinstance(aggregate, DeclaredAggregate):
                parts |= {
                    f"what aggregate {number} takes{role}": mark
                    for number, member in enumerate(_plain(aggregate.declaration), start=1)
                    for role, mark in _selectors(member)
                }
    return parts


def _plain(declaration: Declaration) -> Iterator[Declaration]:
    """Yields the single declarations that a declaration combines, or itself."""
    if not declaration.members:
        yield declaration
    for _, member in declaration.members:
        yield from _plain(member)


def _selectors(declaration: Declaration) -> Iterator[tuple[str, Mark]]:
    if not any(role == "value" for role, _ in declaration.selectors):
        yield "", Mark("the element")
    for role, selector in declaration.selectors:
        yield "" if role == "value" else f" by {role!r}", mark_of(selector)


def _rolling(function: object) -> dict[str, Mark]:
    inner = getattr(function, "_function", None) if isinstance(function, RollingReduce) else None
    if isinstance(inner, Extreme):
        return {"what it compares": mark_of(inner.selector)}
    return {"what it takes": mark_of(function._selector)} if isinstance(function, RollingValue) else {}
