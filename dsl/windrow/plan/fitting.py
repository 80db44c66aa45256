"""Decides whether values of one type fit where another one is expected, as far as annotations tell for sure."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any, Union

# Type checkers take values of the types on the right for values of the type on the left.
_PROMOTED: dict[type, tuple[type, ...]] = {float: (int,), complex: (int, float)}
_UNIONS = (Union, types.UnionType)


def can_fit(actual: object, expected: object) -> bool:
    """Whether a value of one type may be of another type; True where nobody can tell.

    None is left out of account: an aggregate that may give None gives none for elements that are always there.
    """
    options = options_of(actual)
    options = [option for option in options if option is not type(None)] or options
    return any(_fits(one, other) for one in options for other in options_of(expected))


def accepts_none(type_form: object) -> bool:
    """Whether a field of a type takes None, or nobody can tell."""
    return any(_fits(type(None), option) for option in options_of(type_form))


def is_value_of(value: object, type_form: object) -> bool:
    """Whether a value is one of a type; True where nobody can tell."""
    return any(_fits(type(value), option) for option in options_of(type_form))


def widest(kinds: Sequence[object | None]) -> object | None:
    """The common type of some types: the one that all others fit, or else their union.

    None where one of them is not known.
    """
    if any(kind is None for kind in kinds):
        return None
    for kind in kinds:
        if all(is_subtype(other, kind) for other in kinds):
            return kind
    # A subtype is not named beside its supertype.
    wide = [
        kind
        for place, kind in enumerate(kinds)
        if not any(
            is_subtype(kind, other) and (other != kind or before < place)
            for before, other in enumerate(kinds)
            if before != place
        )
    ]
    # Any: type checkers take no list of types for the members of a union.
    members: Any = tuple(wide)
    together: object = Union[members]  # noqa: UP007  made of values
    return together


def is_subtype(actual: object, expected: object) -> bool:
    """Whether all values of one type are values of another one, as far as annotations tell for sure."""
    if actual == expected:
        return True
    others = options_of(expected)
    return all(any(_is_subclass(one, other) for other in others) for one in options_of(actual))


def _is_subclass(one: object, other: object) -> bool:
    if one == other or other is object:
        return True
    return isinstance(one, type) and isinstance(other, type) and not typing.get_args(other) and issubclass(one, other)


def holds_none(type_form: object) -> bool:
    """Whether a type says that a value may be None."""
    return type(None) in options_of(type_form)


def members(type_form: object) -> list[object]:
    """The types that values of a type may have, each once, None left out: those of a union, or the type itself."""
    return [option for option in dict.fromkeys(options_of(type_form)) if option is not type(None)]


def options_of(type_form: object) -> list[object]:
    """The members of a union, or the type itself."""
    if typing.get_origin(type_form) is Annotated:
        return options_of(typing.get_args(type_form)[0])
    if typing.get_origin(type_form) in _UNIONS:
        return [option for member in typing.get_args(type_form) for option in options_of(member)]
    # A NewType is its own class to the type checker, and none at run time.
    return [type(None) if type_form is None else getattr(type_form, "__supertype__", type_form)]


def _fits(actual: object, expected: object) -> bool:
    one, other = (typing.get_origin(kind) or kind for kind in (actual, expected))
    # Any is a class from Python 3.11 on. What is none is a type variable, a literal, a text that nobody resolved.
    if one in (Any, object) or other is Any or not isinstance(one, type) or not isinstance(other, type):
        return True
    if getattr(other, "_is_protocol", False):
        return True
    if not issubclass(one, other) and one not in _PROMOTED.get(other, ()):
        return False
    arguments = typing.get_args(actual), typing.get_args(expected)
    if one is not other or len(arguments[0]) != len(arguments[1]):
        return True
    return all(a is b or can_fit(a, b) for a, b in zip(*arguments, strict=True))
