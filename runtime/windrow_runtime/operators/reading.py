"""Recognises functions that only read the element that they are given."""

from __future__ import annotations

import dis
import operator
from types import FunctionType
from typing import Final

__all__ = ["only_reads"]

_READING: Final = frozenset(
    {
        "BINARY_OP",
        "BINARY_SLICE",
        "BINARY_SUBSCR",
        "BUILD_STRING",
        "BUILD_TUPLE",
        "CACHE",
        "COMPARE_OP",
        "CONTAINS_OP",
        "CONVERT_VALUE",
        "COPY",
        "COPY_FREE_VARS",
        "EXTENDED_ARG",
        "FORMAT_SIMPLE",
        "FORMAT_VALUE",
        "FORMAT_WITH_SPEC",
        "IS_OP",
        "LOAD_ATTR",
        "LOAD_CONST",
        "LOAD_DEREF",
        "LOAD_FAST",
        "LOAD_FAST_BORROW",
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        "LOAD_FAST_LOAD_FAST",
        "LOAD_GLOBAL",
        "LOAD_SMALL_INT",
        "NOP",
        "NOT_TAKEN",
        "POP_TOP",
        "RESUME",
        "RETURN_CONST",
        "RETURN_VALUE",
        "SWAP",
        "TO_BOOL",
        "UNARY_INVERT",
        "UNARY_NEGATIVE",
        "UNARY_NOT",
        "UNARY_POSITIVE",
    }
)
"""Instructions that neither store nor call. A newer Python may have others, which then count as more than reading."""

_JUMPS: Final = ("JUMP_", "POP_JUMP_")


def only_reads(function: object) -> bool:
    """Whether a function certainly leaves its argument as it is: it takes fields, computes, compares and returns."""
    if isinstance(function, (operator.attrgetter, operator.itemgetter)):
        return True
    if type(function) is not FunctionType:
        return False
    names = (instruction.opname for instruction in dis.get_instructions(function.__code__))
    return all(name in _READING or name.startswith(_JUMPS) for name in names)
