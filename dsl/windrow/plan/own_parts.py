"""Looks at the functions, triggers and other parts of steps that users write, for what would go wrong unseen.

Of methods that windrow calls for their effect, Python would run none of the code of generators and coroutines. Two
descriptors of one name are one state.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from inspect import isfunction
from typing import Any, Final

from windrow.calls.attributes import attribute_of
from windrow.facts.lazy import COROUTINE, GENERATOR, lazy_result
from windrow.facts.reached import expiring_state, reached_texts, state_time_domains
from windrow.failures import Failed
from windrow.functions import ProcessAllWindowFunction, ProcessWindowFunction, TimeDomain
from windrow.functions.aggregate import AggregateFunction
from windrow.functions.names import function_name
from windrow.functions.rich import RichFunction
from windrow.functions.type_names import type_name
from windrow.functions.wrapper import unwrapped
from windrow.plan.base_node import Node
from windrow.plan.steps import Step, StepFault
from windrow.plan.types import base_argument
from windrow.sinks import Sink
from windrow.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from windrow.triggers import ComposableTrigger, Trigger

# Any in this module: attributes of the user's classes, and state of every type.

_CALLED_FOR_EFFECT: Final[tuple[tuple[type, tuple[str, ...]], ...]] = (
    (RichFunction, ("open", "close")),
    (ProcessWindowFunction, ("clear",)),
    (ProcessAllWindowFunction, ("clear",)),
    (Trigger, ("clear", "on_merge")),
    (ComposableTrigger, ("observe", "observe_timer", "forget")),
)


_KINDS: Final = (
    ValueStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    AggregatingStateDescriptor,
)


def unrun_faults(node: Node) -> Iterator[StepFault]:
    """Give a fault for each method of a step whose call would run none of its code."""
    for part in node.user_parts:
        for name in _called_for_effect(type(part)):
            yield from _faults_of(f"{type(part).__name__}.{name}", getattr(type(part), name, None))
        yield from lazy_faults(type(part))
        for descriptor in declared_state(part):
            if isinstance(descriptor, AggregatingStateDescriptor):
                yield from lazy_faults(type(descriptor.aggregate_function))
    for function in () if node.writes is None else node.writes.functions_called_for_effect:
        yield from _faults_of(function_name(function), function)
    for class_ in node.called_classes:
        yield from lazy_faults(class_)


def _called_for_effect(class_: type) -> Iterator[str]:
    """Yields the names of the methods of a class whose results nobody takes."""
    for base, names in _CALLED_FOR_EFFECT:
        yield from names if issubclass(class_, base) else ()
    if issubclass(class_, Sink):
        yield from class_.called_for_effect


def lazy_faults(class_: type) -> Iterator[StepFault]:
    """Give a fault for each method of a class that gives a coroutine or a generator where windrow takes a result.

    Args:
        class_: The class of a part of a step; methods that replace those of windrow's base classes are looked at.
    """
    checked = set(_called_for_effect(class_))
    for base in class_.__mro__:
        if base.__module__.partition(".")[0] != "windrow":
            continue
        for name, method in vars(base).items():
            own = inspect.getattr_static(class_, name, None)
            if not isfunction(method) or own is method or name in checked or lazy_result(method) is not None:
                continue
            lazy = lazy_result(own)
            if lazy == COROUTINE:
                yield (
                    f"{class_.__name__}.{name} is a coroutine function, and nobody awaits what it gives",
                    "write it without async; map_async(function, capacity=...) before the step, or after it, awaits",
                )
            elif lazy == GENERATOR and not _SEVERAL.search(str(method.__annotations__.get("return"))):
                yield (
                    f"{class_.__name__}.{name} is a generator, and its result is taken, not what it yields",
                    "return the result, without yield",
                )
            checked.add(name)


_SEVERAL: Final = re.compile("Iterable|Iterator|Sequence|Collection")
"""What methods of windrow's classes return, by their annotations, where a generator is as good."""


def counter_names(steps: Iterable[Step]) -> frozenset[str]:
    """The names that counters of the functions of steps may have: all texts in the code of these functions."""
    return reached_texts(part for step in steps for part in step.node.user_parts if part is not None)


def _faults_of(name: str, function: object) -> Iterator[StepFault]:
    lazy = lazy_result(function)
    if lazy is not None:
        yield (
            f"{name} is {lazy}, so none of its code would run when it is called",
            "write it without yield and async; nobody takes what it gives",
        )


def declared_state(owner: object) -> Iterator[StateDescriptor]:
    """The descriptors of a function or trigger, base classes first. One that a subclass replaces comes before it."""
    for space in _spaces(owner):
        yield from (value for value in space.values() if isinstance(value, StateDescriptor))


def _spaces(owner: object) -> Iterator[Mapping[str, Any]]:
    """The attributes of the classes of an object, base classes first, and its own."""
    owner = unwrapped(owner)
    yield from map(vars, reversed(type(owner).__mro__))
    yield attribute_of(owner, "__dict__", {})


def held_types(descriptor: StateDescriptor) -> tuple[object | None, ...]:
    """The types of what state holds: of the key and of the value of a map, of the values otherwise. None: not known."""
    if isinstance(descriptor, AggregatingStateDescriptor):
        return (base_argument(descriptor.aggregate_function, AggregateFunction, 1),)
    # ReducingStateDescriptor[int](...) leaves its type argument on the instance.
    arguments = [
        None if isinstance(argument, typing.TypeVar) else argument
        for argument in typing.get_args(getattr(descriptor, "__orig_class__", None))
    ]
    if isinstance(descriptor, MapStateDescriptor):
        return tuple(arguments) if len(arguments) == 2 else (descriptor.key_type, descriptor.value_type)
    return (getattr(descriptor, "type_", None) or (arguments[0] if arguments else None),)


def state_faults(node: Node) -> Iterator[StepFault]:
    """Give a fault for two descriptors of one function or trigger that have one name, and not one kind or type."""
    for part in node.user_parts:
        # A subclass replaces an attribute of its base, and an object one of its class.
        attributes = {name: value for space in _spaces(part) for name, value in space.items()}
        first: dict[str, tuple[str, StateDescriptor]] = {}
        for attribute, descriptor in attributes.items():
            if not isinstance(descriptor, StateDescriptor):
                continue
            before, other = first.setdefault(descriptor.name, (attribute, descriptor))
            if not _is_one(other, descriptor):
                yield (
                    f"{type(part).__name__} has two descriptors of the name {descriptor.name!r}: "
                    f"{before} is {_shown(other)}, and {attribute} is {_shown(descriptor)}",
                    "give each state a name of its own",
                )


def expiry_faults(node: Node) -> Iterator[StepFault]:
    """Give a fault for state with a time to live that it cannot have where it is."""
    function = node.process_function
    if node.windows is not None:
        for part in node.user_parts:
            for descriptor in expiring_state(part):
                yield (
                    f"{type(part).__name__} gives the state {descriptor.name!r} a time to live, and the state of "
                    "windows and triggers does not expire",
                    "leave ttl out: the state goes with its window; clear what global_state holds in the function's "
                    "clear",
                )
    elif (
        function is not None
        and TimeDomain.EVENT_TIME in state_time_domains(function)
        and not node.inputs[0].has_timestamps
    ):
        yield (
            f"state of {function.describe()} expires in event time, and the stream has no timestamps",
            "call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) before key_by, or let "
            "the state expire in processing time",
        )


def _is_one(one: StateDescriptor, other: StateDescriptor) -> bool:
    """Whether two descriptors may be of one state, as far as their types are known."""
    return _kind(one) is _kind(other) and all(
        a is None or b is None or a == b for a, b in zip(held_types(one), held_types(other), strict=True)
    )


def _kind(descriptor: StateDescriptor) -> type[StateDescriptor] | None:
    return next((kind for kind in _KINDS if isinstance(descriptor, kind)), None)


def _shown(descriptor: StateDescriptor) -> str:
    types = [type_name(kind) for kind in held_types(descriptor) if kind is not None]
    return f"a {type(descriptor).__name__}" + (f" of {' and '.join(types)}" if types else "")


def failed_tag_faults(node: Node) -> Iterator[StepFault]:
    """Finds tags for failed elements that are of another type than these: a sink would meet it at the first failure."""
    for tag in node.failed_tags:
        type_form = getattr(tag.element_type, "__value__", tag.element_type)  # of `type Dead = Failed[Order]`
        if type_form not in (None, Any, object, Failed) and typing.get_origin(type_form) is not Failed:
            yield (
                f"the tag {tag.name!r} of on_error is of {type_name(type_form)}, and gets failed elements",
                f"OutputTag[Failed[{type_name(type_form)}]]({tag.name!r}), with Failed of windrow.failures",
            )
