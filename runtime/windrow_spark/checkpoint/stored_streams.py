"""Stores which streams feed which step of a plan, and finds streams that were exchanged in a later plan.

State and positions are found by the names of steps, or by their order. Neither tells whether a step has the same inputs
as before: two sources of one class, or the sides of a join, may have changed places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final

from windrow.aggregates.declared import Declaration, DeclaredAggregate
from windrow.errors import InvalidArgumentError
from windrow.functions.type_names import type_name
from windrow.plan import Node, Step
from windrow.rolling import Calling
from windrow_runtime.inputs.reader import reader_of
from windrow_runtime.operators.topology import timestamps_of
from windrow_runtime.outputs.writer import writer_of
from windrow_spark.checkpoint.code_mark import Mark, digest, mark_of, object_digest
from windrow_spark.checkpoint.feeds import Feeds, Input, feeds_of, once_a_plan, stable_mark
from windrow_spark.checkpoint.stored_sinks import (
    FoundSinks,
    SinkMarks,
    StoredSink,
    found_sinks,
    new_sinks,
    unstored_sinks,
)
from windrow_spark.physical.plan import PhysicalPlan

# Any in this module: functions of elements of every type.

_KEYS: Final = ("the key", "the key of the left", "the key of the right")


@dataclass(frozen=True, slots=True)
class InputMark:
    """The mark of an input of a step: a digest of the functions upstream, and the names of their steps."""

    functions: str
    name: str | None = None

    def is_that_of(self, other: InputMark) -> bool:
        """Returns whether two marks belong to the same stream."""
        return self.name == other.name and self.functions == other.functions


@dataclass(frozen=True, slots=True)
class StreamMarks:
    """The marks of one source, timestamp-assigning step or keyed step, by which changes of its streams are found.

    Attributes:
        parts: Marks that must not change, by their names in errors.
        moving: Marks that may change, but not into the former mark of a similar step, by their names in errors.
        name: The name that the user gave the step.
        sides: Its inputs that the same sources and keyed steps feed, such as the left and the right of a self-join.
    """

    parts: Mapping[str, Mark] = field(default_factory=dict)
    moving: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    sides: Mapping[str, InputMark] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredStreams:
    """The marks of a plan: those of sources in their order, and those of other steps by the names of their state.

    The sinks are None where an earlier version wrote the checkpoint.
    """

    sources: Sequence[StreamMarks]
    steps: Mapping[str, StreamMarks]
    sinks: Sequence[StoredSink] | None = None


@once_a_plan
def streams_of(plan: PhysicalPlan) -> StoredStreams:
    """Returns the marks of a plan."""
    topology, names = plan.topology, plan.state_ids
    feeds = feeds_of(plan)
    steps: dict[str, StreamMarks] = {}
    for step in topology.keyed:
        # A named step cannot be mixed up with another one, but for those of several uses of one function.
        route, moving = feeds.route_to(step), {}
        if step.name is None or step.scope:
            moving = {"the functions upstream": route.functions}
        parts = feeds.inputs_of(step) | _parts(step, topology.key_by(step))
        steps[names[step.id]] = StreamMarks(parts, moving, step.name, _sides(feeds.alike_inputs_of(step)))
    for step in topology.timestamps:
        node = timestamps_of(step)
        moving = {"the timestamps": digest(stable_mark(node.timestamp), node.strategy.description)}
        steps[names[step.id]] = StreamMarks(feeds.inputs_of(step), moving, step.name)
    return StoredStreams(list(map(_source_marks, topology.sources)), steps)


def sinks_of(
    stored: StoredStreams | None, plan: PhysicalPlan, accepted: Collection[str] = (), *, begins: bool = False
) -> FoundSinks:
    """Finds the sinks of a plan among those that its checkpoint has stored, unless the query ``begins``."""
    feeds = feeds_of(plan)
    marks = {
        step: SinkMarks(
            target,
            None if step.scope else step.name,  # several uses of one function are numbered by their order
            digest(writer.sink.describe(), "" if writer.definition is None else object_digest(writer.definition)),
            _written_by(feeds, step),
        )
        for step in plan.topology.sinks
        if (target := (writer := writer_of(step)).target) is not None
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
        yield from (f"{step.where}: {change}" for change in _exchanged_sides(before.sides, marks.sides))
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


def _exchanged_sides(before: Mapping[str, InputMark], now: Mapping[str, InputMark]) -> Iterator[str]:
    """Yields the inputs of a step that were another input of it before, by the name or the functions upstream."""
    both = [port for port in now if port in before]
    for port, other in permutations(both, 2):
        side, old = now[port], before[port]
        if None not in (side.name, old.name):
            if side.name != old.name:
                yield f"the {port} was {old.name!r} and is {side.name!r}"
            continue
        by_name = side.name != old.name and (side.name, now[other].name) == (before[other].name, old.name)
        is_other = side.is_that_of(before[other]) and not side.is_that_of(old)
        if by_name or (is_other and not now[other].is_that_of(before[other])):
            yield f"the {port} was the {other}"


def _sides(inputs: Mapping[str, Input]) -> dict[str, InputMark]:
    return {
        port: InputMark(each.route.functions, ", ".join(sorted(each.route.names)) or None)
        for port, each in inputs.items()
    }


def _exchanged(pairs: Sequence[tuple[Step, StreamMarks, StreamMarks]], accepted: Collection[str]) -> Iterator[str]:
    """Yields the steps whose mark was that of a similar step before, if that step has another mark now."""
    for step, before, now in pairs:
        for what, mark in now.moving.items():
            if before.moving.get(what, mark) == mark or _is_in(step, accepted):
                continue
            former = [
                other
                for other, theirs, new in pairs
                if other is not step and theirs.moving.get(what) == mark and new.moving.get(what) != mark
            ]
            if former:
                yield f"{step.where}: {what} was that of {former[0].where}"
                break  # one line a step: what it reads changes places with its type


def _source_marks(step: Step) -> StreamMarks:
    reader = reader_of(step)
    moving = {"the type of the elements": type_name(step.node.element_type)}
    identity = reader.identity
    if identity is not None:
        moving["what it reads"] = digest(identity)  # an address may hold a secret
    return StreamMarks(moving=moving, name=step.name)


def _written_by(feeds: Feeds, step: Step) -> str:
    """Returns a mark of what a sink writes: by which functions, of which sources and keyed steps, and how."""
    return digest(
        feeds.route_to(step).functions,
        *(f"{what} {mark}" for what, mark in feeds.inputs_of(step).items()),
        (step.node.name or "") if step.scope else "",
        type_name(step.node.element_type),
        *map(stable_mark, writer_of(step).functions),
    )


def _parts(step: Step, keys: Node | None) -> dict[str, Mark]:
    """Returns marks of the functions on which stored state depends, and of the settings that decide a join's pairs."""
    deciding = (step.node.deciding if keys is None else {**keys.deciding, **step.node.deciding}).items()
    marks = {name: Mark(part) if isinstance(part, str) else mark_of(part) for name, part in deciding}
    for part in step.node.user_parts:
        if isinstance(part, DeclaredAggregate):
            marks |= {
                f"what aggregate {number} takes{role}": mark
                for number, member in enumerate(_plain(part.declaration), start=1)
                for role, mark in _selectors(member)
            }
        marks |= _selected(part)
    return marks


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


def _selected(function: object) -> dict[str, Mark]:
    """Returns the mark of what a function of the language takes from elements, and keeps in its state."""
    selection = function.selection() if isinstance(function, Calling) else None
    if selection is None:
        return {}
    what, selector = selection
    return {f"what it {what}": Mark("the element") if selector is None else mark_of(selector)}
