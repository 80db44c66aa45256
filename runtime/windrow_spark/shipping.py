"""Prepares a pipeline for workers: its steps without sources and sinks, and the classes of its elements."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import chain
from typing import Any, Final

from windrow.aggregates.combined import Combined
from windrow.facts.packages import is_standard
from windrow.facts.reached import named_classes
from windrow.functions import AggregateFunction
from windrow.functions.wrapper import unwrapped
from windrow.plan import (
    AggregateSpec,
    BroadcastNode,
    BroadcastProcessNode,
    KeyByNode,
    KeyedProcessNode,
    Node,
    ReduceSpec,
    SourceNode,
    Step,
    WindowNode,
)
from windrow.plan.hints import resolved_hints
from windrow.plan.own_parts import declared_state, held_types
from windrow.plan.records import is_record_class
from windrow.plan.types import base_argument
from windrow.plan.walk import map_steps
from windrow.sinks import Sink
from windrow.sources import Source
from windrow.state import StateDescriptor
from windrow.triggers.trigger import with_parts
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.sending.culprits import called_parts
from windrow_spark.exchange.picklable import make_picklable

# Any in this module: steps of all types.

_CONTAINERS: Final = frozenset({tuple, list, set, frozenset, dict})
_DEEPEST_ELEMENTS: Final = 8


class _NoSource(Source[Any]):
    """Stands for a source in a worker, which reads none."""

    @property
    def element_type(self) -> object | None:
        return None

    def describe(self) -> str:
        return "read by the engine"


class _NoSink(Sink[Any]):
    """Stands for a sink in a worker, which writes none."""

    def describe(self) -> str:
        return "written by the engine"


def without_sources_and_sinks(steps: Sequence[Step]) -> list[Step]:
    """Returns the same steps, with placeholders for sources and sinks that any worker can load.

    A source may hold a million elements or a DataFrame, and the function of a sink may hold objects of the driver
    alone; workers need none of them. Where a sink has an error policy, workers ask it which elements it cannot write.
    """

    def without(node: Node) -> Node:
        is_asked = node.is_sink and node.error_policy is not None
        # Any: replace() checks the fields of the one class alone.
        sink: dict[str, Any] = {"sink": _NoSink()} if node.is_sink and not is_asked else {}
        end: dict[str, Any] = {"source": _NoSource()} if node.is_source else sink
        return replace(node, **end)

    return map_steps(steps, without)


def sink_alone(step: Step) -> Step:
    """Returns a sink without the steps upstream of it, for a process that writes it and runs none of them."""
    element_type = step.node.inputs[0].element_type
    before = SourceNode(source=_NoSource(), name=None, element_type=element_type, location=None)
    return replace(step, node=step.node.with_inputs([before]))


def known_classes(steps: Sequence[Step]) -> tuple[UserClass, ...]:
    """Finds the user's classes of elements, keys, accumulators, windows and state.

    They are named in annotations, are those of the elements of a collection, or are named in the code of functions.
    """
    types = [kind for step in steps for kind in _types_of(step.node)]
    used = named_classes(part for step in steps for part in called_parts(step.node).values())
    classes = _collect([*types, *used])
    for kind in classes:
        make_picklable(kind)
    return tuple(
        UserClass(kind, {name: hint for name, hint in hints.items() if not _holds_reference(hint)})
        for kind, hints in classes.items()
    )


def _holds_reference(hint: object) -> bool:
    """Returns whether a hint cannot be pickled: an alias that refers to itself holds a reference."""
    if isinstance(hint, list):
        return any(map(_holds_reference, hint))
    return isinstance(hint, typing.ForwardRef) or any(map(_holds_reference, typing.get_args(hint)))


def _types_of(node: Node) -> Iterable[object]:
    """Yields the types of what a step handles: elements, keys, accumulators, windows and state."""
    yield node.element_type
    further = _TYPES.get(type(node))
    if further is not None:
        yield from further(node)


def _classes_of(values: Iterable[Any]) -> Iterator[type[Any]]:
    """Yields the classes of values, and of the values in tuples, lists, sets and dicts among them."""
    for _ in range(_DEEPEST_ELEMENTS):
        values = list(values)
        kinds = set(map(type, values))
        yield from kinds
        if kinds.isdisjoint(_CONTAINERS):
            return
        values = chain.from_iterable(
            chain(value, value.values()) if isinstance(value, dict) else value
            for value in values
            if type(value) in _CONTAINERS
        )


def _held_types(owner: object) -> Iterable[object]:
    return _kinds_of(declared_state(owner))


def _kinds_of(descriptors: Iterable[StateDescriptor]) -> Iterable[object]:
    return (kind for descriptor in descriptors for kind in held_types(descriptor))


def _window_types(node: WindowNode) -> Iterable[object]:
    yield type(node.assigner)
    assign = getattr(node.assigner, "assign_windows", None)
    with contextlib.suppress(NameError, TypeError):
        yield typing.get_type_hints(assign).get("return")
    spec = node.function
    yield from _held_types(spec.process)
    for part in with_parts(node.effective_trigger):
        yield from _held_types(part)
    if isinstance(spec, AggregateSpec):
        members = spec.aggregate.members if isinstance(spec.aggregate, Combined) else (("", spec.aggregate),)
        for _, member in members:
            yield base_argument(member, AggregateFunction, 1)
            yield base_argument(member, AggregateFunction, 2)
    elif isinstance(spec, ReduceSpec):
        yield node.input.element_type


def _process_types(node: KeyedProcessNode | BroadcastProcessNode) -> Iterable[object]:
    function = unwrapped(node.function)
    yield type(function)
    yield from _held_types(function)


# Any: each function takes nodes of its class.
_TYPES: Final[Mapping[type[Node], Callable[[Any], Iterable[object]]]] = {
    BroadcastNode: lambda node: _kinds_of(node.broadcast_state),
    BroadcastProcessNode: _process_types,
    KeyByNode: lambda node: [node.key_type],
    KeyedProcessNode: _process_types,
    SourceNode: lambda node: _classes_of(node.source.held_elements),
    WindowNode: _window_types,
}
"""What gives the types of keys, accumulators, windows and state, by the class of a node."""


def _collect(kinds: Iterable[object]) -> dict[type[Any], dict[str, Any]]:
    """Finds the classes of types, of their arguments and fields, and derived records, with their annotations."""
    types: dict[type[Any], dict[str, Any]] = {}
    seen: dict[int, object] = {}  # with the types themselves, which may not be hashable
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop(0)
        if id(kind) in seen:
            continue
        seen[id(kind)] = kind
        waiting += [*typing.get_args(kind), typing.get_origin(kind), *_named_by(kind)]
        if not isinstance(kind, type) or kind in types or (is_standard(kind.__module__) and not _is_record(kind)):
            continue
        types[kind] = {}
        derived: type[Any]
        for derived in type.__subclasses__(kind):
            # A worker may lack other modules, so their derived classes are left out.
            if _is_record(derived) and derived.__module__ == kind.__module__ and not is_standard(kind.__module__):
                waiting.append(derived)
        types[kind] = resolved_hints(kind)
        waiting += types[kind].values()
    # Methods still refer to a class that ``dataclass(slots=True)`` has replaced by one with slots.
    slotted = {id(_table_of(kind)) for kind in types if "__slots__" in vars(kind)} - {id(None)}
    return {
        kind: hints for kind, hints in types.items() if "__slots__" in vars(kind) or id(_table_of(kind)) not in slotted
    }


def _table_of(class_: type[Any]) -> object:
    """Returns the table of fields of a dataclass or an attrs class, shared with the class that it replaced."""
    own = vars(class_)
    return own.get("__dataclass_fields__", own.get("__attrs_attrs__"))


def _is_record(class_: type[Any]) -> bool:
    """Returns whether a class is an Enum with members or a record, which its definition describes in full."""
    if issubclass(class_, Enum):
        return bool(class_.__members__)
    return is_record_class(class_)


def _named_by(type_form: object) -> tuple[object, ...]:
    """Returns the type that a ``NewType`` or a ``type`` statement gives a name."""
    return tuple(
        getattr(type_form, name)
        for name in ("__supertype__", "__value__")
        if type(type_form).__module__ in {"typing", "typing_extensions"} and hasattr(type_form, name)
    )
