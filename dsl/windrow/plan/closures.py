"""Reads the variables that a function uses: of the functions around it, and of its module."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Final

__all__ = ["closure_of", "codes_of", "globals_of"]

_GLOBAL: Final = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})


def closure_of(function: FunctionType) -> dict[str, object]:
    """The variables of the functions around that a function uses, by name. Those without a value are left out."""
    variables: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:
            continue
    return variables


def globals_of(function: FunctionType) -> dict[str, object]:
    """The variables of its module that a function uses, by name, in the order of their use; as cloudpickle sends them.

    An attribute that has the name of such a variable is none. Variables without a value are left out.
    """
    names = dict.fromkeys(name for code in codes_of(function.__code__) for name in _global_names(code))
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of the functions and comprehensions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


@lru_cache(maxsize=2_000)
def _global_names(code: CodeType) -> tuple[str, ...]:
    return tuple(step.argval for step in dis.get_instructions(code) if step.opname in _GLOBAL)
