"""Validates the sinks of a plan: whether their columns can be known, and whether each has a place of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windrow.aggregates.facts import FilledWindow
from windrow.errors import Fault
from windrow.expressions.derived import unread_part
from windrow.functions.type_names import type_name
from windrow.plan.base_node import Node
from windrow.plan.fitting import members
from windrow.plan.folders import partition_faults
from windrow.plan.keyed_nodes import WindowNode
from windrow.plan.keys import key_type
from windrow.plan.nodes import SinkNode
from windrow.plan.steps import Step, StepFault


def sink_faults(node: SinkNode) -> Iterator[StepFault]:
    """The faults of one sink."""
    type_form = node.input.element_type
    if node.input.keys is not None:
        yield ("a keyed stream cannot go to a sink", "use the stream before key_by")
    if node.sink.needs_schema and type_form is None:
        takes = node.sink.takes
        yield (
            f"the columns of the sink {node.sink.describe()!r} cannot be known: the type of the elements is not"
            if takes is None
            else f"the sink {node.sink.describe()!r} takes {takes.__name__} only; the type of the elements is unknown",
            _type_hint(node.input),
        )
    elif node.sink.takes not in (None, type_form):
        yield (
            f"the sink {node.sink.describe()!r} takes {node.sink.takes.__name__} only, and the elements are "
            f"{type_name(type_form)}",
            "map the elements before sink_to",
        )
    elif node.sink.needs_schema and len(kinds := members(node.sink.encoded_type(type_form))) > 1:
        yield (
            f"the sink {node.sink.describe()!r} has the columns of one type, and the elements are of several: "
            f"{' and '.join(map(type_name, kinds))}",
            "make one record type of all of them first, map(lambda element: Row(...)), or give the streams of each "
            "type a sink of their own",
        )
    else:
        yield from node.sink.misfits_of(type_form)
        if node.sink.fields_of_folders:
            yield from partition_faults(node.sink.fields_of_folders, type_form)


def _type_hint(node: Node) -> str:
    """How to say the type of the elements of a step: at the first step upstream of it that loses it."""
    # The type of a side output comes from its tag, and from no step.
    while node.side_output is None:
        before = next((source for source in node.inputs if source.element_type is None), None)
        if before is None:
            break
        node = before
    unread = _unread(node)
    lost = (
        f"the type is lost at {'' if node.scope is None else node.scope.path}{node.name or node.kind}"
        + (f", {node.location}" if node.location else "")
        + (f", because {unread}" if unread else "")
    )
    if node.side_output is not None:
        return f"{lost}: OutputTag(name, Type) says it, or returns(Type) before sink_to"
    if node.is_source:
        return f"{lost}: give the source the type of its elements, or call returns(Type) before sink_to"
    if node.windows is not None and _lacks_key_type(node.windows):
        return f"{lost}: key_by(..., key_type=...) says that of key(), or call returns(Type) before sink_to"
    return f"{lost}: annotate the function that makes them, or call returns(Type) before sink_to"


def _unread(node: Node) -> str | None:
    """What in the function of a step cannot be read, so that the type of its results is not known."""
    plain = node.plain_function
    return None if plain is None else unread_part(plain.function, plain.arguments)


def _lacks_key_type(node: WindowNode) -> bool:
    """Whether the results of windows have the key in them, and its type is not known."""
    process, keys = node.function.process, node.input.keys
    has_key = isinstance(process, FilledWindow) and "key" in process.places
    return has_key and keys is not None and key_type(keys) is None


def sink_set_faults(steps: Sequence[Step]) -> Iterator[Fault]:
    """The faults of all sinks of a plan beside each other."""
    sinks = [(step, step.node.writes) for step in steps if step.node.writes is not None]
    for place, (step, sink) in enumerate(sinks):
        # Two custom sinks that are equal write to one place.
        first = next((other for other, earlier in sinks[:place] if sink.is_same_place(earlier)), None)
        if first is not None:
            yield Fault(
                f"one {type(sink).__name__} takes several streams",
                step.where,
                f"make one for each stream; the first is that of {first.where}",
            )
        if sink.is_alone and len(sinks) > 1:
            yield Fault(
                f"a {type(sink).__name__} must be the only sink of its pipeline",
                step.where,
                "make a pipeline of its own",
            )
