"""What the plan can tell of element types, from annotations alone."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Iterable
from typing import Any, TypeVar

__all__ = ["base_argument", "iterable_item", "parameter_type", "result_type"]


def result_type(function: object) -> object | None:
    """The annotated result of a function or of a callable object, or None where it says nothing definite."""
    return _definite(_hints(function).get("return"))


def parameter_type(function: object, position: int) -> object | None:
    """The annotated type of a positional parameter, or None where it says nothing definite."""
    target = _target(function)
    try:
        names = list(inspect.signature(target).parameters)  # type: ignore[arg-type]  # callable, by contract
    except (TypeError, ValueError):
        return None
    if position >= len(names):
        return None
    return _definite(_hints(function).get(names[position]))


def iterable_item(kind: object | None) -> object | None:
    """``X`` for ``Iterable[X]``, ``list[X]`` and the like."""
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if isinstance(origin, type) and issubclass(origin, Iterable) and arguments:
        if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
            return None
        return _definite(arguments[0])
    return None


def base_argument(instance: object, base: type, position: int) -> object | None:
    """The type argument that ``type(instance)`` gives to its generic base class, through all levels.

    ``class Mean(AggregateFunction[float, tuple[int, float], float])`` gives ``float`` for position 2.
    """
    return _definite(_base_argument(type(instance), base, position))


def _base_argument(kind: type, base: type, position: int) -> object | None:
    for generic in getattr(kind, "__orig_bases__", ()):
        origin = typing.get_origin(generic)
        if not isinstance(origin, type) or not issubclass(origin, base):
            continue
        arguments = typing.get_args(generic)
        if origin is base:
            return arguments[position] if position < len(arguments) else None
        found = _base_argument(origin, base, position)
        if isinstance(found, TypeVar):
            parameters = list(getattr(origin, "__parameters__", ()))
            if found in parameters and parameters.index(found) < len(arguments):
                argument: object = arguments[parameters.index(found)]
                return argument
        return found
    for parent in kind.__bases__:
        if issubclass(parent, base) and parent is not base:
            return _base_argument(parent, base, position)
    return None


def _target(function: object) -> object:
    if isinstance(function, functools.partial):
        return _target(function.func)
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    # A callable object: MapFunction and the like delegate __call__ to the method that the user annotated.
    for method in ("map", "flat_map", "get_key", "reduce"):
        found = getattr(function, method, None)
        if callable(found):
            return found
    return getattr(function, "__call__", function)  # noqa: B004  its signature is wanted, not whether it is callable


def _hints(function: object) -> dict[str, object]:
    if inspect.isclass(function):
        return {"return": function}
    try:
        # Any: get_type_hints takes whatever has annotations.
        target: Any = _target(function)
        return dict(typing.get_type_hints(target))
    except (NameError, TypeError, AttributeError):
        # Annotations that cannot be resolved say nothing; the plan then asks for returns().
        return {}


def _definite(kind: object | None) -> object | None:
    if kind is None or kind is Any or isinstance(kind, TypeVar):
        return None
    if any(_definite(argument) is None for argument in typing.get_args(kind) if _is_type(argument)):
        return None
    return kind


def _is_type(argument: object) -> bool:
    # NoneType in Optional, Ellipsis in tuple[X, ...], and the values of Literal are no open questions.
    return argument is Any or isinstance(argument, TypeVar)
