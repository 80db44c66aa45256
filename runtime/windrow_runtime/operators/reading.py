"""Recognises functions that only read the element that they are given."""

from __future__ import annotations

import dis
import operator
from types import FunctionType
from typing import Final

__all__ = ["only_reads"]

_READING: Final = frozenset(
    {"CACHE", "COPY", "COPY_FREE_VARS", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "POP_TOP", "RESUME", "SWAP"}
)
"""Instructions that neither store nor call, besides those of some beginnings."""

_READING_BEGINNINGS: Final = (
    *("BINARY_", "COMPARE_", "CONTAINS_", "IS_OP", "TO_BOOL", "UNARY_"),
    *("BUILD_STRING", "BUILD_TUPLE", "CONVERT_VALUE", "FORMAT_"),
    *("JUMP_", "POP_JUMP_", "LOAD_", "RETURN_CONST", "RETURN_VALUE"),
)


def only_reads(function: object) -> bool:
    """Returns whether a function certainly leaves its argument as it is: it takes fields, computes and compares."""
    if isinstance(function, (operator.attrgetter, operator.itemgetter)):
        return True
    if type(function) is not FunctionType:
        return False
    names = (instruction.opname for instruction in dis.get_instructions(function.__code__))
    return all(name in _READING or name.startswith(_READING_BEGINNINGS) for name in names)
