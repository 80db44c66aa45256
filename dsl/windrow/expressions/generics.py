"""Finds what the type variables of generic classes stand for: in a class, and in its bases."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

# Any in this module: typing has no type for what can be subscripted.


def class_of(type_form: object) -> type | None:
    """The class of the values of a type: ``list`` for ``list[int]``; None where there is no single one."""
    plain = typing.get_origin(type_form) or type_form
    return plain if isinstance(plain, type) and plain not in (Any, types.UnionType) else None


def arguments_of(type_form: object, base: type) -> tuple[object, ...]:
    """Returns the arguments of a generic class, as a type has them itself or gives them to that base class.

    ``class Mean(AggregateFunction[float, tuple[int, float], float])`` gives ``float`` in the third place.
    """
    return next((arguments for each, arguments in _bases(type_form) if each is base), ())


def variables_of(type_form: object, base: type) -> dict[object, object]:
    """What the type variables of a base class of a type, or of its own class, stand for."""
    parameters: tuple[object, ...] = getattr(base, "__parameters__", ())
    return dict(zip(parameters, arguments_of(type_form, base), strict=False))


def _bases(type_form: object) -> Iterator[tuple[type, tuple[object, ...]]]:
    """The class of a type and its bases, each with its type arguments."""
    owner = class_of(type_form)
    if owner is None:
        return
    arguments = typing.get_args(type_form)
    yield owner, arguments
    parameters: tuple[object, ...] = getattr(owner, "__parameters__", ())
    variables = dict(zip(parameters, arguments, strict=False))
    generic: tuple[object, ...] = vars(owner).get("__orig_bases__", ())
    for base in (*generic, *owner.__bases__):
        if class_of(base) not in (None, typing.Generic, object):
            yield from _bases(substituted(base, variables))


def substituted(type_form: object, variables: Mapping[object, object]) -> object:
    """A type with its type variables replaced, at every depth."""
    if isinstance(type_form, TypeVar):
        return variables.get(type_form, type_form)
    parameters = getattr(type_form, "__parameters__", ()) if typing.get_args(type_form) else ()
    if not parameters or not any(each in variables for each in parameters):
        return type_form
    generic: Any = type_form
    filled: object = generic[tuple(variables.get(parameter, parameter) for parameter in parameters)]
    return filled


def solved(declared: object, actual: object, variables: dict[object, object]) -> None:
    """Adds what the type variables of a declared type stand for where a value of another type is given."""
    if isinstance(declared, TypeVar):
        # Two values of different types: which type they have in common is left to type checkers.
        variables[declared] = actual if variables.get(declared, actual) == actual else Any
        return
    owner = class_of(declared)
    if owner is None or not typing.get_args(declared):
        return
    for inner, outer in zip(typing.get_args(declared), arguments_of(actual, owner), strict=False):
        solved(inner, outer, variables)


def is_open(type_form: object) -> bool:
    """Whether a type holds a type variable, Any, or the Never of an empty list, at any depth."""
    return (
        type_form in (Any, typing.Never)
        or isinstance(type_form, TypeVar)
        or any(map(is_open, typing.get_args(type_form)))
    )
