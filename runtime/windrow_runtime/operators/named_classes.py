"""Finds the classes that functions of a plan name in their code.

A lambda such as ``lambda line: Reading(...)`` has no annotations, but its code names the class. So the code is searched
for the names that it looks up: classes, functions that it calls, and modules that have these. Nothing is run.

Only the user's code is searched: not that of the standard library, of windrow, or of libraries that windrow is built
on. A function of an installed package is searched if the user's code calls it, with those of its package that it calls.
"""

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

from windrow.calls.attributes import attribute_of
from windrow.facts.code import named_values
from windrow.plan.hints import resolved_hints
from windrow.plan.records import is_record_class
from windrow_runtime.operators.class_facts import attributes_of, is_installed, is_library, is_of_windrow, top_package

# Any in this module: functions of the user's may refer to objects of any type.

_MOST: Final = 20_000
"""The values after which the search ends, so that its time is limited."""

_ITEMS: Final = 1_000
"""The items of a container that are searched at most."""

_DEPTH: Final = 2
"""How deep functions of an installed package are searched: the one that is called, and those that it calls."""

_PLAIN: Final = frozenset({bool, int, float, complex, str, bytes, bytearray, type(None)})
_CONTAINERS: Final = (tuple, list, set, frozenset)


def named_classes(roots: Iterable[object]) -> list[type[Any]]:
    """Returns the classes of values that parts of steps name in code, annotations, closures and defaults."""
    return _Search(roots).run()


class _Search:
    """Searches the values that functions refer to for classes."""

    def __init__(self, roots: Iterable[object]) -> None:
        self._found: dict[type[Any], None] = {}
        self._roots = list(roots)
        # Packages whose functions the plan uses directly count as the user's, even if they are installed.
        self._own = {top_package(_module_of(root)) for root in self._roots}

    def run(self) -> list[type[Any]]:
        # The values are kept alive, so that no other one gets the same id.
        seen: dict[int, object] = {}
        # Each value with the installed package whose code refers to it (None: the user's own code does), and how many
        # functions and classes of that package led to it.
        waiting: deque[tuple[object, str | None, int]] = deque((root, None, 0) for root in self._roots)
        while waiting and len(seen) < _MOST:
            value, package, depth = waiting.popleft()
            if type(value) in _PLAIN or id(value) in seen or not self._may_search(value, package):
                continue
            seen[id(value)] = value
            module = _module_of(value)
            if not is_library(module):
                package = self._installed_package(module)
                depth = 0 if package is None else depth + isinstance(value, FunctionType)
            if depth <= _DEPTH:
                waiting.extend((part, package, depth) for part in self._parts(value))
        return list(self._found)

    def _may_search(self, value: object, package: str | None) -> bool:
        """Returns whether to search a value, to which code of an installed package (None: the user's code) refers."""
        if not isinstance(value, (FunctionType, type)):
            return True
        # Decorators of libraries wrap functions of the user's.
        if isinstance(value, FunctionType) and "__wrapped__" in vars(value):
            return True
        if is_library(value.__module__):
            return False
        return package is None or self._installed_package(value.__module__) in (package, None)

    def _installed_package(self, module: str) -> str | None:
        """Returns the installed package of a module; None for the user's own code."""
        top = top_package(module)
        return top if top not in self._own and is_installed(top) else None

    def _parts(self, value: Any) -> Iterable[object]:
        if isinstance(value, type):
            if self._makes_values(value):
                self._found[value] = None
            return _parts_of_class(value)
        if isinstance(value, FunctionType):
            return _parts_of_function(value)
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
        if isinstance(value, _CONTAINERS):
            return islice(value, _ITEMS)
        if isinstance(value, dict):
            return chain.from_iterable(islice(value.items(), _ITEMS))
        if isinstance(value, ModuleType):
            return ()
        if typing.get_origin(value) is not None:
            return (typing.get_origin(value), *typing.get_args(value))
        return self._parts_of_object(value)

    def _parts_of_object(self, value: object) -> Iterator[object]:
        """Yields the class of an object, and its attributes if the class is the user's or windrow's own."""
        kind = type(value)
        yield kind
        space = attribute_of(value, "__dict__")
        attributes: dict[str, object] = space if isinstance(space, dict) else {}
        yield attributes.get("__wrapped__")
        module = kind.__module__
        if is_of_windrow(module) or not (is_library(module) or self._installed_package(module)):
            yield from attributes_of(value).values()

    def _makes_values(self, kind: type[Any]) -> bool:
        """Returns whether elements or state may have a class: records, enumerations, the user's plain classes."""
        if issubclass(kind, enum.Enum) or is_record_class(kind):
            return True
        # Errors and functions of steps are no elements or state; plain classes of other packages are mostly services.
        if issubclass(kind, (BaseException, type)) or getattr(kind, "_is_protocol", False):
            return False
        of_windrow = any(is_of_windrow(base.__module__) for base in kind.__mro__)
        # Compiled packages name modules that nobody can import, as `cimpl`, and no worker can be sent such classes.
        is_there = kind.__module__ in sys.modules
        return is_there and not of_windrow and self._installed_package(kind.__module__) is None


def _module_of(value: object) -> str:
    module = (value if isinstance(value, (FunctionType, type)) else type(value)).__module__
    return module if isinstance(module, str) else "builtins"


def _parts_of_class(kind: type[Any]) -> Iterator[object]:
    yield from kind.__mro__[1:]
    yield from vars(kind).values()
    yield from resolved_hints(kind).values()
    if issubclass(kind, enum.Enum):
        yield from (member.value for member in kind)


def _parts_of_function(function: FunctionType) -> Iterator[object]:
    yield vars(function).get("__wrapped__")
    yield from resolved_hints(function).values()
    yield from named_values(function)
