"""Finds what functions reach by their attributes and their code: tags, state, texts, classes. Nothing is run."""

from __future__ import annotations

import enum
import functools
import sys
import typing
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

from windrow.calls.attributes import attributes_of
from windrow.facts.code import facts, named_values
from windrow.facts.packages import is_installed, is_library, is_of_windrow, top_package
from windrow.functions.wrapper import unwrapped
from windrow.plan.hints import resolved_hints
from windrow.plan.records import is_record_class
from windrow.state import StateDescriptor, StateTtlConfig
from windrow.tags import OutputTag
from windrow.time import TimeDomain

# Any in this module: attributes of the user's classes and elements of side outputs, of every type.

_MOST: Final = 20_000
"""The values after which the search ends: what is asked for beyond them counts as undeclared when it runs."""

_ITEMS: Final = 1_000
"""The items of a container that are searched at most."""

_DEPTH: Final = 2
"""How deep functions of an installed package are searched: the one that is called, and those that it calls."""

_PLAIN: Final = frozenset({bool, int, float, complex, str, bytes, bytearray, type(None)})


def tags_of(function: object) -> Iterator[OutputTag[Any]]:
    """The tags that a function has, or that its code names."""
    return (value for value in _Search([function]) if isinstance(value, OutputTag))


def state_time_domains(function: object) -> set[TimeDomain]:
    """The time domains in which state of a function expires, as far as its attributes and its code tell.

    A method that makes a :class:`~windrow.state.StateTtlConfig` itself is taken to use it.
    """
    reached = list(_Search([function]))
    made_by_code = [_time_to_live(value) for value in reached if isinstance(value, FunctionType)]
    configured = [value.time_domain for value in reached if isinstance(value, StateTtlConfig)]
    return {domain for domain in (*made_by_code, *configured) if domain is not None}


def _time_to_live(function: FunctionType) -> TimeDomain | None:
    """The time domain of the time to live that a function makes when it runs."""
    # An object that an initializer makes is found as an attribute.
    if function.__name__ not in {"__init__", "__post_init__"}:
        for names in facts(function).names:
            if "StateTtlConfig" in names:
                return TimeDomain.EVENT_TIME if "EVENT_TIME" in names else TimeDomain.PROCESSING_TIME
    return None


def expiring_state(function: object) -> Iterator[StateDescriptor]:
    """The descriptors with a time to live that a function or trigger has, or that its code names."""
    return (value for value in _Search([function]) if isinstance(value, StateDescriptor) and value.ttl is not None)


def reached_state(function: object) -> dict[str, StateDescriptor]:
    """The descriptors that a function has, or that its code names, by the names of state."""
    by_name: dict[str, StateDescriptor] = {}
    for value in _Search([function]):
        if isinstance(value, StateDescriptor):
            by_name.setdefault(value.name, value)  # a subclass comes before its base
    return by_name


def reached_texts(functions: Iterable[object]) -> frozenset[str]:
    """The texts that functions have in attributes, or that are constants of their code or values of its variables."""
    texts: set[str] = set()
    for value in _Search(functions):
        constants = facts(value).constants if isinstance(value, FunctionType) else (value,)
        texts.update(each for each in constants if isinstance(each, str))
    return frozenset(texts)


def named_classes(functions: Iterable[object]) -> list[type[Any]]:
    """The classes of values that functions name in code, annotations, closures and defaults.

    A lambda such as ``lambda line: Reading(...)`` has no annotations, but its code names the class.
    """
    search = _Search(functions, into_classes=True)
    return [value for value in search if isinstance(value, type) and search.makes_values(value)]


def asks_for_time(function: object) -> bool:
    """Returns whether a method of a function's class names the timer service of its context."""
    methods = (each for kind in type(unwrapped(function)).__mro__ for each in vars(kind).values())
    return any(
        "timer_service" in names
        for method in methods
        if isinstance(method, FunctionType)
        for names in facts(method).names
    )


class _Search:
    """Searches what functions, and other parts of steps, refer to in attributes, code, closures and defaults.

    Only the user's code is searched: not that of the standard library, of windrow, or of libraries that windrow is
    built on. A function of an installed package is searched if the user's code calls it, with those of its package that
    it calls.

    Args:
        roots: The parts.
        into_classes: Whether classes are searched too, and annotations.
    """

    def __init__(self, roots: Iterable[object], *, into_classes: bool = False) -> None:
        self._roots = list(roots)
        self._into_classes = into_classes
        # Packages whose functions the plan uses directly count as the user's, even if they are installed.
        self._own = {top_package(_module_of(root)) for root in self._roots}

    def __iter__(self) -> Iterator[object]:
        """Yields the values that the parts reach, themselves among them; what is near comes first."""
        # The values are kept alive, so that no other one gets the same id.
        seen: dict[int, object] = {}
        # Each value with the installed package whose code refers to it (None: the user's own code does), and how many
        # functions and classes of that package led to it.
        waiting: deque[tuple[object, str | None, int]] = deque((root, None, 0) for root in self._roots)
        while waiting and len(seen) < _MOST:
            value, package, depth = waiting.popleft()
            if isinstance(value, str):
                yield value
            if type(value) in _PLAIN or id(value) in seen or not self._may_search(value, package):
                continue
            seen[id(value)] = value
            yield value
            module = _module_of(value)
            if not is_library(module):
                package = self.installed_package(module)
                depth = 0 if package is None else depth + isinstance(value, FunctionType)
            if depth <= _DEPTH:
                waiting.extend((part, package, depth) for part in self._parts(value))

    def installed_package(self, module: str) -> str | None:
        """Returns the installed package of a module; None for the user's own code."""
        top = top_package(module)
        return top if top not in self._own and is_installed(top) else None

    def _may_search(self, value: object, package: str | None) -> bool:
        """Returns whether to search a value, to which code of an installed package (None: the user's code) refers."""
        if not isinstance(value, (FunctionType, type)):
            return True
        # Decorators of libraries wrap functions of the user's.
        if isinstance(value, FunctionType) and "__wrapped__" in vars(value):
            return True
        if is_library(value.__module__):
            return False
        return package is None or self.installed_package(value.__module__) in (package, None)

    def _parts(self, value: Any) -> Iterable[object]:
        if isinstance(value, type):
            return _parts_of_class(value) if self._into_classes else ()
        if isinstance(value, FunctionType):
            hints = resolved_hints(value).values() if self._into_classes else ()
            return (vars(value).get("__wrapped__"), *hints, *named_values(value))
        if isinstance(value, MethodType):
            return (value.__self__, value.__func__)
        if isinstance(value, functools.partial):
            return (value.func, *value.args, *value.keywords.values())
        if isinstance(value, (classmethod, staticmethod)):
            return (value.__func__,)
        if isinstance(value, property):
            return (value.fget, value.fset)
        if isinstance(value, functools.cached_property):
            return (value.func,)
        if isinstance(value, (tuple, list, set, frozenset)):
            return islice(value, _ITEMS)
        if isinstance(value, dict):
            return chain.from_iterable(islice(value.items(), _ITEMS))
        if isinstance(value, ModuleType):
            return ()
        if typing.get_origin(value) is not None:
            return (typing.get_origin(value), *typing.get_args(value))
        return self._parts_of_object(value)

    def _parts_of_object(self, value: object) -> Iterator[object]:
        """Yields the attributes of an object, then its class, or the attributes of its classes instead."""
        class_ = type(value)
        is_users = is_of_windrow(class_.__module__) or not self._is_of_others(class_)
        attributes = attributes_of(value)
        yield from attributes.values() if is_users or not self._into_classes else (attributes.get("__wrapped__"),)
        if self._into_classes:
            yield class_
        else:
            yield from (
                each for base in class_.__mro__ if not is_library(base.__module__) for each in vars(base).values()
            )

    def _is_of_others(self, class_: type) -> bool:
        return is_library(class_.__module__) or self.installed_package(class_.__module__) is not None

    def makes_values(self, class_: type[Any]) -> bool:
        """Returns whether elements or state may have a class: records, enumerations, the user's plain classes."""
        if issubclass(class_, enum.Enum) or is_record_class(class_):
            return True
        # Errors and functions of steps are no elements or state; plain classes of other packages are mostly services.
        if issubclass(class_, (BaseException, type)) or getattr(class_, "_is_protocol", False):
            return False
        of_windrow = any(is_of_windrow(base.__module__) for base in class_.__mro__)
        # Compiled packages name modules that nobody can import, as `cimpl`, and no worker can be sent such classes.
        is_there = class_.__module__ in sys.modules
        return is_there and not of_windrow and self.installed_package(class_.__module__) is None


def _module_of(value: object) -> str:
    module = (value if isinstance(value, (FunctionType, type)) else type(value)).__module__
    return module if isinstance(module, str) else "builtins"


def _parts_of_class(class_: type[Any]) -> Iterator[object]:
    yield from class_.__mro__[1:]
    yield from vars(class_).values()
    yield from resolved_hints(class_).values()
    if issubclass(class_, enum.Enum):
        yield from (member.value for member in class_)
