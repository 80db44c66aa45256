"""Recognises functions that do nothing but make a record: ``lambda line: Reading(*line.split())``.

Their result is of the class that they call, though no annotation says so. The code is read, and never run.
"""

from __future__ import annotations

import dis
import enum
from types import FunctionType, ModuleType
from typing import Final

from windrow.plan.closures import closure_of
from windrow.plan.records import is_users_method

__all__ = ["constructed_type"]

_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_CALLS: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_BEFORE: Final = frozenset({"RESUME", "COPY_FREE_VARS", "PUSH_NULL", "NOP"})


def constructed_type(function: object) -> type | None:
    """The record or enumeration whose call is all that a function returns; None where it may return anything else."""
    if type(function) is not FunctionType:
        return None
    code = list(dis.get_instructions(function))
    if function.__code__.co_exceptiontable or any(each.opcode in dis.hasjrel for each in code):
        return None
    start = next((place for place, each in enumerate(code) if each.opname not in _BEFORE), 0)
    called = _loaded(function, code[start])
    end = start + 1
    while isinstance(called, ModuleType) and code[end].opname in _ATTRIBUTES:
        called = vars(called).get(code[end].argval)
        end += 1
    if not isinstance(called, type) or not _gives_instances(called):
        return None
    return called if _is_called_last(code, end) else None


def _loaded(function: FunctionType, instruction: dis.Instruction) -> object:
    name = instruction.argval
    if instruction.opname == "LOAD_GLOBAL":
        return function.__globals__.get(name)
    if instruction.opname == "LOAD_DEREF":
        return closure_of(function).get(name)
    return None


def _gives_instances(kind: type) -> bool:
    """Whether calling a class gives nothing but its instances."""
    if type(kind) is enum.EnumType:
        return not is_users_method(kind, "_missing_")
    made_by_class = not is_users_method(type(kind), "__call__")
    # A class derived from a named tuple may replace what makes it.
    is_named_tuple = kind.__bases__[0] is tuple and hasattr(kind, "_fields")
    is_record = hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__struct_fields__")
    return made_by_class and (is_named_tuple or (is_record and not is_users_method(kind, "__new__")))


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
