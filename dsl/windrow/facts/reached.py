"""Finds what a function reaches by its attributes and its code: tags, descriptors of state, texts. Nothing is run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

from windrow.calls.attributes import attribute_of
from windrow.facts.code import facts, is_users, named_values
from windrow.functions.wrapper import unwrapped
from windrow.state import StateDescriptor, StateTtlConfig
from windrow.tags import OutputTag
from windrow.time import TimeDomain

__all__ = ["asks_for_time", "expiring_state", "reached_state", "reached_texts", "state_time_domains", "tags_of"]

# Any in this module: attributes of the user's classes and elements of side outputs, of every type.

_MOST_OBJECTS: Final = 2_000
"""After this many objects the search gives up: what is asked for beyond them counts as undeclared when it runs."""

_MOST_ITEMS: Final = 100
"""A larger collection in an attribute is data, and no collection of descriptors."""


def tags_of(function: object) -> Iterator[OutputTag[Any]]:
    """The tags that a function has, or that its code names."""
    return (value for value in _reached([function]) if isinstance(value, OutputTag))


def state_time_domains(function: object) -> set[TimeDomain]:
    """The time domains in which state of a function expires, as far as its attributes and its code tell.

    A method that makes a :class:`~windrow.state.StateTtlConfig` itself is taken to use it.
    """
    reached = list(_reached([function]))
    made = [_time_to_live(value) for value in reached if isinstance(value, FunctionType)]
    configured = [value.time_domain for value in reached if isinstance(value, StateTtlConfig)]
    return {domain for domain in (*made, *configured) if domain is not None}


def _time_to_live(function: FunctionType) -> TimeDomain | None:
    """The time domain of the time to live that a function makes when it runs."""
    # What an initializer makes is an attribute.
    if function.__name__ not in {"__init__", "__post_init__"} and is_users(function.__module__):
        for names in facts(function).names:
            if "StateTtlConfig" in names:
                return TimeDomain.EVENT_TIME if "EVENT_TIME" in names else TimeDomain.PROCESSING_TIME
    return None


def expiring_state(function: object) -> Iterator[StateDescriptor]:
    """The descriptors with a time to live that a function or trigger has, or that its code names."""
    return (value for value in _reached([function]) if isinstance(value, StateDescriptor) and value.ttl is not None)


def reached_state(function: object) -> dict[str, StateDescriptor]:
    """The descriptors that a function has, or that its code names, by the names of state."""
    by_name: dict[str, StateDescriptor] = {}
    for value in _reached([function]):
        if isinstance(value, StateDescriptor):
            by_name.setdefault(value.name, value)  # a subclass comes before its base
    return by_name


def reached_texts(functions: Iterable[object]) -> frozenset[str]:
    """The texts that functions have in attributes, or that are constants of their code or values of its variables."""
    texts: set[str] = set()
    for value in _reached(functions):
        constants = facts(value).constants if isinstance(value, FunctionType) else (value,)
        texts.update(each for each in constants if isinstance(each, str))
    return frozenset(texts)


def asks_for_time(function: object) -> bool:
    """Returns whether a method of a function's class names the timer service of its context."""
    methods = (each for kind in type(unwrapped(function)).__mro__ for each in vars(kind).values())
    return any(
        "timer_service" in names
        for method in methods
        if isinstance(method, FunctionType)
        for names in facts(method).names
    )


def _reached(roots: Iterable[object]) -> Iterator[object]:
    """Yields the objects that others reach, themselves among them."""
    seen: dict[int, object] = {}  # with the objects, so that no id is used twice
    waiting = deque(map(unwrapped, roots))  # what is near comes first: a library may name more than there is room for
    while waiting and len(seen) < _MOST_OBJECTS:
        value = waiting.popleft()
        if isinstance(value, str):
            yield value
        elif id(value) not in seen:
            seen[id(value)] = value
            yield value
            waiting.extend(_within(value))


def _within(value: object) -> Iterable[object]:
    """Returns the objects that an object holds, or that its code names."""
    if isinstance(value, (bytes, int, float, ModuleType, OutputTag, StateTtlConfig, type(None), type)):
        return ()
    if isinstance(value, StateDescriptor):
        return (value.name, value.ttl)
    if isinstance(value, (staticmethod, classmethod)):
        return (value.__func__,)
    if isinstance(value, MethodType):
        return (value.__func__, value.__self__)
    if isinstance(value, property):
        return (value.fget,)
    if isinstance(value, FunctionType):
        return named_values(value) if is_users(value.__module__) else ()
    if isinstance(value, partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(value) if len(value) <= _MOST_ITEMS else ()
    if isinstance(value, Mapping):
        return (*value.keys(), *value.values()) if len(value) <= _MOST_ITEMS else ()
    own = attribute_of(value, "__dict__", {})
    spaces = [vars(kind) for kind in type(value).__mro__ if is_users(kind.__module__)]
    slots = [attribute_of(value, name) for space in spaces for name in _slots_of(space)]
    return [*(own.values() if isinstance(own, dict) else ()), *slots, *(each for s in spaces for each in s.values())]


def _slots_of(space: Mapping[str, Any]) -> tuple[str, ...]:
    slots = space.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
