"""Recognises functions that do nothing but call another one, or a class: ``lambda line: Reading(*line.split())``.

Their result is of the type that what they call says, though no annotation of theirs does. The code is read, and never
run.
"""

from __future__ import annotations

import builtins
import dis
import enum
import inspect
import typing
from types import BuiltinFunctionType, ClassMethodDescriptorType, FunctionType, ModuleType
from typing import Final

from windrow.expressions.built_in import FUNCTION_TYPES
from windrow.expressions.generics import is_open
from windrow.facts.code import closure_of
from windrow.plan.hints import resolved_hints
from windrow.plan.records import is_record_class, is_users_method

_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_CALLS: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_BEFORE: Final = frozenset({"RESUME", "COPY_FREE_VARS", "PUSH_NULL", "NOP"})
_PYTHONS: Final = frozenset({"builtins", "datetime", "decimal", "fractions", "uuid"})


def called_type(function: object) -> object | None:
    """Returns the type of the call that a function returns, if it does nothing else; None: it is not known.

    A class gives its instances, and a function, or a method of a class, what its annotation says.
    """
    if type(function) is not FunctionType:
        return None
    code = list(dis.get_instructions(function))
    if function.__code__.co_exceptiontable or any(each.opcode in dis.hasjrel for each in code):
        return None
    start = next((place for place, each in enumerate(code) if each.opname not in _BEFORE), 0)
    owner: object = None
    called = _loaded(function, code[start])
    end = start + 1
    while isinstance(called, (ModuleType, type)) and code[end].opname in _ATTRIBUTES:
        name = code[end].argval
        owner, called = called, inspect.getattr_static(called, name, None)
        end += 1
    type_form = _type_of_call(owner, called)
    return type_form if type_form is not None and _is_called_last(code, end) else None


def _loaded(function: FunctionType, instruction: dis.Instruction) -> object:
    name = instruction.argval
    if instruction.opname == "LOAD_GLOBAL":
        return function.__globals__.get(name, getattr(builtins, name, None))
    if instruction.opname == "LOAD_DEREF":
        return closure_of(function).get(name)
    return None


def _type_of_call(owner: object, called: object) -> object | None:
    """The type of what a class, or a function of a module or a class, gives."""
    if isinstance(called, type):
        return called if _gives_instances(called) else None
    if isinstance(called, (staticmethod, classmethod)):
        called = called.__func__
    elif isinstance(owner, type):
        called = called.__get__(None, owner) if isinstance(called, ClassMethodDescriptorType) else None
    if isinstance(called, BuiltinFunctionType):
        return FUNCTION_TYPES.get(called)
    if not isinstance(called, FunctionType) or inspect.iscoroutinefunction(called):
        return None
    type_form = resolved_hints(called).get("return")
    if type_form is typing.Self:
        return owner
    return None if type_form is None or is_open(type_form) else type_form


def _gives_instances(class_: type) -> bool:
    """Whether calling a class gives nothing but its instances, of one type."""
    if getattr(class_, "__parameters__", ()):
        return False  # its instances are of one of many types
    if type(class_) is enum.EnumType:
        return not is_users_method(class_, "_missing_")
    if class_.__module__ in _PYTHONS:
        return class_ is not type and not hasattr(class_, "__class_getitem__")
    # A class derived from a named tuple may replace what makes it.
    is_named_tuple = class_.__bases__[0] is tuple and hasattr(class_, "_fields")
    is_record = is_record_class(class_) and not is_users_method(class_, "__new__")
    return not is_users_method(type(class_), "__call__") and (is_named_tuple or is_record)


def _is_called_last(code: list[dis.Instruction], end: int) -> bool:
    """Whether what lies deepest on the stack is what the last call calls.

    Args:
        code: The instructions.
        end: Where the arguments begin.
    """
    depth = sum(_effect(each) for each in code[:end])
    held = depth
    for place, each in enumerate(code[end:], start=end):
        if depth < held:
            return False
        depth += _effect(each)
        if each.opname in _CALLS and depth == 1:
            return code[place + 1].opname == "RETURN_VALUE" and place + 2 == len(code)
    return False


def _effect(instruction: dis.Instruction) -> int:
    if instruction.opcode < dis.HAVE_ARGUMENT:
        return dis.stack_effect(instruction.opcode)
    return dis.stack_effect(instruction.opcode, instruction.arg)
