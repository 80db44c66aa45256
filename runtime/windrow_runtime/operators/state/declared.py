"""The state that functions and triggers declare: descriptors in attributes of the class or of the instance."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping

from windrow.functions import AggregateFunction
from windrow.functions.plain import WithoutKey
from windrow.plan.types import base_argument
from windrow.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

__all__ = ["declared_state", "held_types"]


def declared_state(owner: object) -> Iterator[StateDescriptor]:
    """The descriptors of a function or trigger, base classes first. One that a subclass replaces comes before it."""
    if isinstance(owner, WithoutKey):
        owner = owner.function
    spaces: list[Mapping[str, object]] = [vars(kind) for kind in reversed(type(owner).__mro__)]
    spaces.append(getattr(owner, "__dict__", {}))
    for space in spaces:
        yield from (value for value in space.values() if isinstance(value, StateDescriptor))


def held_types(descriptor: StateDescriptor) -> tuple[object | None, ...]:
    """The types of what state holds: of the key and of the value of a map, of the values otherwise. None: not known."""
    # ReducingStateDescriptor[int](...) leaves its type argument on the instance.
    given = tuple(
        None if isinstance(argument, typing.TypeVar) else argument
        for argument in typing.get_args(getattr(descriptor, "__orig_class__", None))
    )
    if isinstance(descriptor, MapStateDescriptor):
        return given if len(given) == 2 else (descriptor.key_type, descriptor.value_type)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return (base_argument(descriptor.aggregate_function, AggregateFunction, 1),)
    if isinstance(descriptor, (ValueStateDescriptor, ListStateDescriptor)) and descriptor.type_ is not None:
        return (descriptor.type_,)
    return (given[0] if given else None,)
