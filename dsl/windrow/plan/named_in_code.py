"""Finds the tags and the times to live of state that a function has in its attributes, or that its code names."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

from windrow.calls.attributes import attribute_of
from windrow.functions.wrapper import unwrapped
from windrow.plan.closures import closure_of, codes_of
from windrow.state import StateDescriptor, StateTtlConfig
from windrow.tags import OutputTag
from windrow.time import TimeDomain

__all__ = ["asks_for_time", "expiring_state", "reached_state", "state_time_domains", "tags_of"]

# Any in this module: attributes of the user's classes and elements of side outputs, of every type.

_MOST_OBJECTS: Final = 2_000
"""After this many objects the search gives up: what is asked for beyond them counts as undeclared when it runs."""

_MOST_ITEMS: Final = 100
"""A larger collection in an attribute is data, and no collection of descriptors."""


def tags_of(function: object) -> Iterator[OutputTag[Any]]:
    """The tags in attributes of an object and of its class, and in variables that methods of the class look up."""
    owner: Any = function
    if isinstance(owner, partial):
        yield from (variable for variable in _variables(owner) if isinstance(variable, OutputTag))
        owner = owner.func
    kinds = inspect.getmro(type(owner))
    spaces = [attribute_of(owner, "__dict__", {}), *map(vars, kinds)]
    for space in spaces:
        for value in space.values():
            for variable in _variables(value):
                if isinstance(variable, OutputTag):
                    yield variable


def _variables(function: object) -> Iterator[object]:
    """The value of an attribute, or the variables and bound arguments that it looks up if it is a function."""
    if isinstance(function, partial):
        yield from (*function.args, *function.keywords.values())
        function = function.func
    if not isinstance(function, FunctionType):
        yield function
        return
    for code in codes_of(function.__code__):
        for name in code.co_names:
            yield function.__globals__.get(name)
    yield from closure_of(function).values()


def state_time_domains(function: object) -> set[TimeDomain]:
    """The time domains in which state of a function expires, as far as its attributes and its code tell.

    A method that makes a :class:`~windrow.state.StateTtlConfig` itself is taken to use it.
    """
    return {value for value in _walk(unwrapped(function)) if isinstance(value, TimeDomain)}


def expiring_state(function: object) -> Iterator[StateDescriptor]:
    """The descriptors with a time to live that a function or trigger has, or that its code names."""
    for value in _walk(unwrapped(function)):
        if isinstance(value, StateDescriptor) and value.ttl is not None:
            yield value


def reached_state(function: object) -> dict[str, StateDescriptor]:
    """The descriptors that a function has, or that its code names, by the names of state."""
    by_name: dict[str, StateDescriptor] = {}
    for value in _walk(unwrapped(function)):
        if isinstance(value, StateDescriptor):
            by_name.setdefault(value.name, value)  # a subclass comes before its base
    return by_name


def asks_for_time(function: object) -> bool:
    """Returns whether a method of a function's class names the timer service of its context."""
    methods = (each for kind in type(unwrapped(function)).__mro__ for each in vars(kind).values())
    return any(
        "timer_service" in code.co_names
        for method in methods
        if isinstance(method, FunctionType)
        for code in codes_of(method.__code__)
    )


def _walk(root: object) -> Iterator[Any]:
    """The descriptors that an object reaches, and the time domains of the times to live that it reaches."""
    seen: set[int] = set()
    kept: list[object] = []  # so that no id is used twice
    waiting: deque[object] = deque([root])  # what is near comes first: a library may name more than there is room for
    while waiting and len(seen) < _MOST_OBJECTS:
        value = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kept.append(value)
        if isinstance(value, StateDescriptor):
            yield value
            waiting.append(value.ttl)
        elif isinstance(value, StateTtlConfig):
            yield value.time_domain
        elif isinstance(value, _MadeByCode):
            yield value.domain
        else:
            waiting.extend(_within(value))


class _MadeByCode:
    """Stands for a time to live that code makes when it runs."""

    def __init__(self, domain: TimeDomain) -> None:
        self.domain = domain


def _within(value: object) -> Iterable[object]:
    """Returns the objects that an object holds, or that its code names."""
    if isinstance(value, (str, bytes, int, float, ModuleType, type(None))):
        return ()
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        return (value.__func__,) if not isinstance(value, MethodType) else (value.__func__, value.__self__)
    if isinstance(value, property):
        return (value.fget,)
    if isinstance(value, FunctionType):
        return _named_by(value)
    if isinstance(value, partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(value) if len(value) <= _MOST_ITEMS else ()
    if isinstance(value, Mapping):
        return tuple(value.values()) if len(value) <= _MOST_ITEMS else ()
    if isinstance(value, type):
        return ()
    own = attribute_of(value, "__dict__", {})
    spaces = [vars(kind) for kind in type(value).__mro__ if _is_users(kind.__module__)]
    slots = [attribute_of(value, name) for space in spaces for name in _slots_of(space)]
    return [*(own.values() if isinstance(own, dict) else ()), *slots, *(each for s in spaces for each in s.values())]


def _slots_of(space: Mapping[str, Any]) -> tuple[str, ...]:
    slots = space.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_users(module: object) -> bool:
    name = str(module).partition(".")[0]
    return name not in {"builtins", "windrow", "windrow_runtime", "abc", "typing"}


def _named_by(function: FunctionType) -> Iterator[object]:
    """The values of the variables that the code of a function names, and the times to live that it makes."""
    if not _is_users(function.__module__):
        return
    spaces = function.__globals__
    for code in codes_of(function.__code__):
        for name in code.co_names:
            value = spaces.get(name)
            if isinstance(value, ModuleType):
                yield from (vars(value).get(other) for other in code.co_names)
            elif value is not None:
                yield value
        # What an initializer makes is an attribute.
        if "StateTtlConfig" in code.co_names and function.__name__ not in {"__init__", "__post_init__"}:
            by_events = "EVENT_TIME" in code.co_names
            yield _MadeByCode(TimeDomain.EVENT_TIME if by_events else TimeDomain.PROCESSING_TIME)
    yield from closure_of(function).values()
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
