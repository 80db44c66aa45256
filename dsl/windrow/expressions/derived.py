"""Derives the types of what functions give: the one place in which the plan, and columns, find them."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any

from windrow.expressions.built_in import FUNCTION_TYPES, METHOD_TYPES
from windrow.expressions.generics import is_open
from windrow.expressions.member_types import united
from windrow.expressions.node import Expression
from windrow.expressions.tracing import Opaque, arguments_of, ways_of

__all__ = ["derived_type", "unread_part"]

# Any in this module: functions of elements of every type.


def derived_type(function: Callable[..., Any], argument_types: Sequence[object | None]) -> object | None:
    """The type of what a function gives, as its code computes it; None where that cannot be read.

    It is the type that type checkers find: an instance of it comes out of every call, if annotations are right. Nothing
    is called.

    Args:
        function: The function.
        argument_types: The types of its arguments; None for one that is not known.
    """
    built_in = _built_in(function)
    if built_in is not None:
        return built_in
    ways = ways_of(function)
    if isinstance(ways, Opaque):
        return None
    types = _given(function, argument_types)
    typed_results = [(way.result.types(types, way.facts), way.result) for way in ways]
    kind = united([of[result] for of, result in typed_results if not _is_impossible(of)])
    return None if kind is None or is_open(kind) else kind


def unread_part(function: Callable[..., Any], argument_types: Sequence[object | None] | None = None) -> str | None:
    """What keeps the type of what a function gives from being known, in a few words; None: it cannot be told.

    Args:
        function: The function.
        argument_types: The types of its arguments; None: only the code is looked at.
    """
    ways = ways_of(function)
    if isinstance(ways, Opaque):
        return f"the function {ways.reason}"
    if argument_types is None or derived_type(function, argument_types) is not None:
        return None
    types = _given(function, argument_types)
    for way in ways:
        part_types = way.result.types(types, way.facts)
        for part in way.result.parts() if not _is_impossible(part_types) else ():
            if part_types[part] is None and all(part_types[child] is not None for child in part.children):
                return f"the type of {'the elements before it' if part in types else part} is not known"
    return "what it gives has no type that says enough"


def _is_impossible(types: Mapping[Expression, object | None]) -> bool:
    """Whether a value is of no type, so that no element takes this way."""
    return any(kind is typing.Never for kind in types.values())


def _built_in(function: Callable[..., Any]) -> object | None:
    """The type of what a function of Python's gives, such as ``len`` or ``str.upper``."""
    if isinstance(function, MethodDescriptorType):
        return METHOD_TYPES.get((function.__objclass__, function.__name__))
    return FUNCTION_TYPES.get(function) if isinstance(function, BuiltinFunctionType) else None


def _given(function: Callable[..., Any], argument_types: Sequence[object | None]) -> dict[Expression, object | None]:
    """The types of the arguments of a function, by their nodes."""
    nodes = arguments_of(function)
    return {**dict.fromkeys(nodes), **dict(zip(nodes, argument_types, strict=False))}
