"""Finds the tags that a process function names: in its attributes, and in the code of its methods."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from windrow.plan.closures import closure_of
from windrow.tags import OutputTag

__all__ = ["tags_of"]

# Any: elements of side outputs, of every type.


def tags_of(function: object) -> Iterator[OutputTag[Any]]:
    """The tags in attributes of an object and of its class, and in variables that methods of the class look up."""
    spaces = [getattr(function, "__dict__", {}), *(vars(kind) for kind in type(function).__mro__)]
    for space in spaces:
        for value in space.values():
            for found in _variables(value) if isinstance(value, FunctionType) else (value,):
                if isinstance(found, OutputTag):
                    yield found


def _variables(function: FunctionType) -> Iterator[object]:
    for name in function.__code__.co_names:
        yield function.__globals__.get(name)
    yield from closure_of(function).values()
