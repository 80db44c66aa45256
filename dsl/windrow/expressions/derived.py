"""Derives the types of functions' results from their code, for the plan and for columns."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any, Final, TypeAlias

from windrow.expressions.built_in import FUNCTION_TYPES, METHOD_TYPES
from windrow.expressions.generics import is_open
from windrow.expressions.member_types import united
from windrow.expressions.node import Expression, Types
from windrow.expressions.tracing import Opaque, arguments_of, traced
from windrow.expressions.tree import Conditional, Record

# Any in this module: functions of elements of every type.


def derived_type(function: Callable[..., Any], argument_types: Sequence[object | None]) -> object | None:
    """Derives the type of a function's results from its code; None where the code cannot be read.

    It is the type that type checkers find: an instance of it comes out of every call, if annotations are right. Nothing
    is called.

    Args:
        function: The function.
        argument_types: The types of its arguments; None for one that is not known.
    """
    built_in = _built_in(function)
    if built_in is not None:
        return built_in
    expression = traced(function)
    if isinstance(expression, Opaque):
        return None
    type_form = _result_type(expression, _types_of_arguments(function, argument_types))
    return None if type_form is None or is_open(type_form) else type_form


def unread_part(function: Callable[..., Any], argument_types: Sequence[object | None] | None = None) -> str | None:
    """Says in a few words why the type of a function's results is not known; None: nobody can say why.

    Args:
        function: The function.
        argument_types: The types of its arguments; None: only the code is looked at.
    """
    expression = traced(function)
    if isinstance(expression, Opaque):
        return f"the function {expression.reason}"
    if argument_types is None or derived_type(function, argument_types) is not None:
        return None
    known_types = _types_of_arguments(function, argument_types)
    for result, types in _results(expression, known_types):
        for part in result.parts():
            if types[part] is None and all(types[child] is not None for child in part.children):
                return f"the type of {'the elements before it' if part in known_types else part} is not known"
    return "what it gives has no type that says enough"


_Parts: TypeAlias = AbstractSet[Expression]
_NOTHING: Final[_Parts] = frozenset()


def _result_type(expression: Expression, known_types: Types, true_parts: _Parts = _NOTHING) -> object | None:
    """The type of an expression; ``Never`` where no element takes the way to it."""
    if isinstance(expression, Conditional):
        sides = (expression.yes, {*true_parts, expression.test}), (expression.no, true_parts)
        kinds = [kind for side in sides if (kind := _result_type(side[0], known_types, side[1])) is not typing.Never]
        return united(kinds) if kinds else typing.Never
    if isinstance(expression, Record):
        kinds = [_result_type(of, known_types, true_parts) for _, of in expression.fields]
        return typing.Never if typing.Never in kinds else expression.type_with(kinds)
    types = expression.types(known_types, true_parts)
    return typing.Never if typing.Never in types.values() else types[expression]


def _results(
    expression: Expression, known_types: Types, true_parts: _Parts = _NOTHING
) -> Iterator[tuple[Expression, Types]]:
    """Yields the values that an expression may give, or has in its fields, with the types of their nodes."""
    if isinstance(expression, Conditional):
        yield from _results(expression.yes, known_types, {*true_parts, expression.test})
        yield from _results(expression.no, known_types, true_parts)
    elif isinstance(expression, Record):
        for _, of in expression.fields:
            yield from _results(of, known_types, true_parts)
    else:
        yield expression, expression.types(known_types, true_parts)


def _built_in(function: Callable[..., Any]) -> object | None:
    """The type of what a function of Python's gives, such as ``len`` or ``str.upper``."""
    if isinstance(function, MethodDescriptorType):
        return METHOD_TYPES.get((function.__objclass__, function.__name__))
    return FUNCTION_TYPES.get(function) if isinstance(function, BuiltinFunctionType) else None


def _types_of_arguments(function: Callable[..., Any], argument_types: Sequence[object | None]) -> Types:
    """The types of the arguments of a function, by their nodes."""
    nodes = arguments_of(function)
    return {**dict.fromkeys(nodes), **dict(zip(nodes, argument_types, strict=False))}
