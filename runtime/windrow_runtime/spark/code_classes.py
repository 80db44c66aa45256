"""The classes that the code of a plan's functions uses.

A lambda that makes a record has no annotation that names the record's class.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from windrow.plan import Node
from windrow.sinks import Sink
from windrow.sources import Source

__all__ = ["classes_in", "is_record", "is_standard"]

# Any throughout this module: objects and classes of every type.

_STANDARD: Final = frozenset(sys.stdlib_module_names) - {"__main__"}
_NOT_THE_USERS: Final = _STANDARD | {"windrow", "windrow_runtime", "pyspark"}


def is_standard(kind: type[Any]) -> bool:
    """Whether a class is one of the standard library."""
    return _package(kind) in _STANDARD


def is_record(kind: type[Any]) -> bool:
    """Whether a class says what its values hold: an Enum, a dataclass, a named tuple, a msgspec.Struct, or attrs."""
    if issubclass(kind, Enum):
        return bool(kind.__members__)
    named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return (
        named or is_dataclass(kind) or hasattr(kind, "__struct_fields__") or hasattr(kind, "__attrs_attrs__")
    )


def classes_in(owners: Iterable[object]) -> Iterator[type[Any]]:
    """Classes that functions use, and the functions that they call in their own module.

    Args:
        owners: Functions, or objects that hold functions, such as nodes of a plan.

    Yields:
        Records of any module, and other classes of the module of a function that uses them. A class may come twice.
    """
    return _Search().classes(owners)


class _Search:
    def __init__(self) -> None:
        # The objects themselves are kept: the id of one that is gone may be given to another.
        self._seen: dict[int, object] = {}

    def classes(self, owners: Iterable[object]) -> Iterator[type[Any]]:
        waiting = list(owners)
        while waiting:
            found = waiting.pop()
            if id(found) in self._seen:
                continue
            self._seen[id(found)] = found
            if isinstance(found, FunctionType):
                for used in _used_by(found):
                    if isinstance(used, type):
                        if is_record(used) or used.__module__ == found.__module__:
                            yield used
                    elif is_record(type(used)):
                        yield type(used)
                    if getattr(used, "__module__", None) == found.__module__:
                        waiting.append(used)
            else:
                if isinstance(found, type) and is_record(found) and _package(found) not in _NOT_THE_USERS:
                    yield found  # a function itself, or the class of what a plan holds
                waiting += _held_by(found)


def _held_by(owner: object) -> Iterable[object]:
    """The functions that belong to an object, or objects that may have some."""
    if isinstance(owner, MethodType):
        return [owner.__func__, owner.__self__]
    if isinstance(owner, partial):
        return [owner.func, *owner.args, *owner.keywords.values()]
    if isinstance(owner, (staticmethod, classmethod)):
        return [owner.__func__]
    if isinstance(owner, property):
        return [owner.fget]
    if isinstance(owner, (tuple, list)):
        return owner
    if isinstance(owner, dict):
        return owner.values()
    if isinstance(owner, type):
        return [] if _package(owner) in _NOT_THE_USERS else [*vars(owner).values(), *owner.__bases__]
    kind = type(owner)
    if isinstance(owner, (Source, Sink)) or is_standard(kind) or _package(kind) == "pyspark":
        return []
    slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    held = [getattr(owner, name, None) for name in slots] + list(getattr(owner, "__dict__", {}).values())
    if _package(kind) not in _NOT_THE_USERS:
        # What else an object of the user's holds may be large, and its functions are those of a library.
        held = [value for value in held if getattr(value, "__module__", None) == kind.__module__]
    # The nodes in front of a node are asked by themselves.
    return [kind, *(value for value in held if not isinstance(value, Node))]


def _used_by(function: FunctionType) -> Iterator[object]:
    """What a function finds in its module and around it, and in the modules that it names."""
    names = set(_names_of(function.__code__))
    found = [function.__globals__[name] for name in names if name in function.__globals__]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue  # it is filled later
    found += function.__defaults__ or ()
    for used in found:
        if isinstance(used, ModuleType):
            if used.__name__.partition(".")[0] not in _NOT_THE_USERS:
                members = (vars(used).get(name) for name in names)
                yield from (member for member in members if isinstance(member, type))
        elif not isinstance(used, type) or _package(used) not in _NOT_THE_USERS or is_record(used):
            yield used


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of(constant)


def _package(kind: type[Any]) -> str:
    return kind.__module__.partition(".")[0]
