"""Says whether the methods of a user's object can set attributes of the object."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from logging import Logger
from types import FunctionType, MemberDescriptorType
from typing import Final

from windrow.calls.attributes import attributes_of
from windrow.facts.code import ONCE, closure_of, facts, globals_of, is_special
from windrow.facts.packages import is_of_windrow
from windrow_runtime.operators.class_facts import CONSTANT_TYPES, is_constant_type

_LIBRARIES: Final = frozenset({"abc", "builtins", "typing", "typing_extensions"})
_BY_PYTHON: Final = frozenset({"__call__", "__getattr__", "__getattribute__"})
"""The special methods that Python may call for an element though no other method uses the object itself."""

_WITHOUT_SELF: Final = (staticmethod, classmethod, MemberDescriptorType)


def may_leave_something(owner: object) -> bool:
    """Returns whether a method may set or delete an attribute of the object; True if the code does not tell.

    None can if every method only looks up attributes of ``self``, and neither stores to it nor passes it on, and if the
    values of attributes cannot lead back to the object.
    """
    if not all(map(_holds_nothing, attributes_of(owner).values())):
        return True
    return any(method is None or _may_store(method, owner) for method in _methods(type(owner)))


def _holds_nothing(value: object) -> bool:
    """Returns whether a value certainly leads to no object of the user's that has attributes of its own."""
    if isinstance(value, (tuple, frozenset)) and type(value) in (tuple, frozenset):
        return all(map(_holds_nothing, value))
    if isinstance(value, FunctionType):
        around = (*closure_of(value).values(), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        return all(not isinstance(each, FunctionType) and _holds_nothing(each) for each in around)
    if isinstance(value, (Enum, Logger)) or is_of_windrow(type(value).__module__):
        return True
    return type(value) in CONSTANT_TYPES or is_constant_type(type(value))


def _may_store(method: FunctionType, owner: object) -> bool:
    variables = [*closure_of(method).values(), *globals_of(method).values()]
    return any(variable is owner for variable in variables) or facts(method).may_change_self


def _methods(class_: type) -> Iterator[FunctionType | None]:
    """Yields the methods that are called for elements, and None for each attribute that may be any callable."""
    for each in class_.__mro__:
        if each.__module__ in _LIBRARIES or is_of_windrow(each.__module__):
            continue
        for name, value in vars(each).items():
            method = value.fget if type(value) is property else value
            if name in ONCE or (is_special(name) and name not in _BY_PYTHON):
                continue
            if isinstance(method, FunctionType):
                yield method
            elif method is not value or (hasattr(method, "__get__") and not isinstance(method, _WITHOUT_SELF)):
                yield None
