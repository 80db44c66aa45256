"""Analyses by their bytecode whether the methods of a user's object can set attributes of the object."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from logging import Logger
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Final

from windrow.facts.code import closure_of, globals_of
from windrow_runtime.operators.class_facts import CONSTANT_TYPES, attributes_of, is_constant_type, is_of_windrow

_LIBRARIES: Final = frozenset({"abc", "builtins", "typing", "typing_extensions"})
_ONCE: Final = frozenset({"open", "close", "open_async", "close_async"})
"""The methods that are called once; attributes that they set are the same for every batch and key."""

_BY_PYTHON: Final = frozenset({"__call__", "__getattr__", "__getattribute__"})
"""The special methods that Python may call for an element though no other method uses the object itself."""

_BACK_DOORS: Final = frozenset({"locals", "eval", "exec", "_getframe", "currentframe", "__self__"})
"""The names by which code can reach the variables and objects of other calls."""

_WITHOUT_SELF: Final = (staticmethod, classmethod, MemberDescriptorType)
_LOOKUPS: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
_OF_CLOSURES: Final = frozenset({"MAKE_CELL", "LOAD_CLOSURE", "COPY_FREE_VARS"})


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
    return any(variable is owner for variable in variables) or _stores_or_passes_on(method.__code__)


def _methods(kind: type) -> Iterator[FunctionType | None]:
    """Yields the methods that are called for elements, and None for each attribute that may be any callable."""
    for each in kind.__mro__:
        if each.__module__ in _LIBRARIES or is_of_windrow(each.__module__):
            continue
        for name, value in vars(each).items():
            method = value.fget if type(value) is property else value
            if name in _ONCE or (_is_special(name) and name not in _BY_PYTHON):
                continue
            if isinstance(method, FunctionType):
                yield method
            elif method is not value or (hasattr(method, "__get__") and not isinstance(method, _WITHOUT_SELF)):
                yield None


@lru_cache(maxsize=2_000)
def _stores_or_passes_on(code: CodeType, name: str | None = None) -> bool:
    """Returns whether code may do more with ``self`` than look up attributes; None: it is the first argument."""
    if name is None:
        if not code.co_argcount:
            return True
        name = code.co_varnames[0]
    if not _BACK_DOORS.isdisjoint(code.co_names):
        return True
    instructions = [each for each in dis.get_instructions(code) if each.opname not in ("EXTENDED_ARG", "NOP")]
    for instruction, following in zip(instructions, [*instructions[1:], instructions[-1]], strict=True):
        is_lookup = following.opname in _LOOKUPS
        if is_lookup and (following.argval in _ONCE or _is_special(following.argval)):
            return True
        is_local = instruction.opcode in dis.haslocal
        if not is_local and instruction.opcode not in dis.hasfree:
            continue
        *others, last = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        # From Python 3.13 on a variable is loaded for closures by the instruction for local variables.
        if instruction.opname in _OF_CLOSURES or (is_local and name in code.co_cellvars):
            continue
        if name in others or (last == name and not (is_lookup and "LOAD" in instruction.opname)):
            return True
    nested = [each for each in code.co_consts if isinstance(each, CodeType)]
    return any(_stores_or_passes_on(each, name if name in each.co_freevars else "") for each in nested)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name != "__class__"
