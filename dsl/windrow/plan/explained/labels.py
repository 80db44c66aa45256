"""Finds words for functions and types of a plan: what a lambda computes, the name of another function, short types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from windrow.expressions.tracing import Opaque, recognise
from windrow.functions.marked import Tagged
from windrow.functions.names import function_name

# Any in this module: functions of elements of every type.

_LONGEST: Final = 80
"""How many characters of an expression are shown."""


def function_text(function: Callable[..., Any]) -> str:
    """The name of a function of one element, or what a lambda computes, such as ``.celsius > 30``."""
    if isinstance(function, functools.partial):
        return f"partial of {function_text(function.func)}"
    name = function_name(function)
    if name != "lambda" and not isinstance(function, (attrgetter, itemgetter)):
        return name
    expression = recognise(function)
    return name if isinstance(expression, Opaque) else _shortened(str(expression))


def pair_text(function: Callable[..., Any]) -> str:
    """The name of a function of two elements, or what a lambda computes, by the names of its parameters."""
    name = function_name(function)
    expression = recognise(function, 2) if name == "lambda" else Opaque("has a name")
    return name if isinstance(expression, Opaque) else _shortened(str(expression))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def short_type(type_form: object) -> str:
    """A type without the modules of its parts, such as ``WindowResult[str, TimeWindow, int]``; ``?``: not known."""
    if type_form is None:
        return "?"
    if type_form is Ellipsis:
        return "..."
    if isinstance(type_form, (list, tuple)):  # the parameters of a Callable
        return f"[{', '.join(map(short_type, type_form))}]"
    origin, arguments = get_origin(type_form), get_args(type_form)
    if origin is Annotated:
        return short_type(arguments[0])
    if origin is Tagged:
        return " or ".join(dict.fromkeys(map(short_type, arguments)))
    if origin in (Union, UnionType):
        return " | ".join("None" if member is NoneType else short_type(member) for member in arguments)
    name = getattr(type_form if origin is None else origin, "__name__", None)
    if name is None or origin is Literal:
        return str(type_form).removeprefix("typing.")
    return f"{name}[{', '.join(map(short_type, arguments))}]" if arguments else str(name)
