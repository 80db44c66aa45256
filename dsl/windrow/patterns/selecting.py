"""Makes records of matches: by the names of parts, or of the elements as they are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from types import GenericAlias
from typing import Any

from windrow.errors import InvalidArgumentError, similar_name
from windrow.functions.names import function_name
from windrow.functions.type_names import type_name
from windrow.patterns.parts import Part
from windrow.patterns.pattern import Pattern

# Any in this module: matches of elements of every type.


class Shape(Enum):
    """How many elements of a part a match may have."""

    ONE = "one element"
    ONE_OR_NONE = "one element, or None"
    SEVERAL = "a list of elements"


class MatchFunction:
    """Makes a record from the elements of a match, by part.

    Attributes:
        function: What the user gave.
    """

    # Any: the stage has proved that the function fits.
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, parts: dict[str, list[Any]]) -> Any:
        """Makes the record; a part without elements is absent."""
        return self.function(parts)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of the record of a match, which takes the elements of one part."""

    name: str
    shape: Shape

    # Any: the elements.
    def value(self, parts: dict[str, list[Any]]) -> Any:
        """The element or the elements of the part in a match."""
        elements = parts.get(self.name)
        if self.shape is Shape.SEVERAL:
            return elements or []
        return elements[0] if elements else None


class Selected(MatchFunction):
    """Calls a record class, or a function, with the elements of each part under the part's name."""

    def __init__(self, function: Callable[..., Any], fields: Sequence[Field]) -> None:
        super().__init__(function)
        self._fields = tuple(fields)

    def __call__(self, parts: dict[str, list[Any]]) -> Any:
        """Makes the record."""
        return self.function(**{field.name: field.value(parts) for field in self._fields})


def shapes_of(pattern: Pattern[Any]) -> dict[str, Shape]:
    """How many elements the parts of a pattern may have, by name."""
    return dict(_shapes(pattern.parts, may_repeat=False, may_lack=False))


def _shapes(parts: Sequence[Part], *, may_repeat: bool, may_lack: bool) -> Iterator[tuple[str, Shape]]:
    for part in parts:
        repeats, lacks = may_repeat or part.most != 1, may_lack or part.may_be_empty
        if part.group:
            yield from _shapes(part.group, may_repeat=repeats, may_lack=lacks)
        elif part.name is not None and not part.relation.forbids:
            yield part.name, Shape.SEVERAL if repeats else Shape.ONE_OR_NONE if lacks else Shape.ONE


def selected(function: Callable[..., Any], pattern: Pattern[Any]) -> Selected:
    """Binds the parameters of a function, or the fields of a record class, to the parts of a pattern.

    Args:
        function: The class or the function. It need not take every part.
        pattern: The pattern.

    Raises:
        InvalidArgumentError: If a parameter has not the name of a part, or takes no name.
    """
    shapes = shapes_of(pattern)
    name = function_name(function)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{name} does not say which parameters it has",
            given=function,
            expected="a record class, or a function with a parameter for each part",
        ) from error
    named: list[str] = []
    for parameter in parameters:
        is_needed = parameter.default is inspect.Parameter.empty
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and is_needed:
            raise InvalidArgumentError(
                f"{name} takes {parameter.name} by its place, and parts are given by their names",
                given=parameter.name,
                expected="parameters that have names, without / behind them",
                hint="apply(function) takes the elements as a dict",
            )
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named += [each for each in shapes if each not in named]
        elif parameter.kind in {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}:
            if parameter.name in shapes:
                named.append(parameter.name)
            elif is_needed:
                raise InvalidArgumentError(
                    f"{name} has the parameter {parameter.name}, and the pattern has no such part",
                    given=parameter.name,
                    expected=f"a name of {', '.join(shapes)}",
                    hint=similar_name(parameter.name, shapes) or "apply(function) takes the elements as a dict",
                )
    if not named:
        raise InvalidArgumentError(
            f"{name} takes no part of the pattern",
            given=function,
            expected=f"parameters of the names {', '.join(shapes)}",
            hint="apply(function) takes the elements as a dict",
        )
    return Selected(function, [Field(each, shapes[each]) for each in named])


def shape_type(shape: Shape, element_type: object) -> object:
    """The type of what a record has of a part.

    Args:
        shape: How many elements.
        element_type: The type of an element.
    """
    if shape is Shape.SEVERAL:
        return GenericAlias(list, (element_type,))
    return element_type


def misfit(function: object, name: str, shape: Shape, wanted: object, element_type: object) -> InvalidArgumentError:
    """The error for a field that cannot take what a match has.

    Args:
        function: The record class or the function.
        name: The name of the field.
        shape: How many elements the part may have.
        wanted: The type of the field.
        element_type: The type of an element.
    """
    text = type_name(shape_type(shape, element_type))
    return InvalidArgumentError(
        f"field {name} of {function_name(function)} cannot take what a match has of that part",
        given=f"{shape.value}: {text}{' | None' if shape is Shape.ONE_OR_NONE else ''}",
        expected=type_name(wanted),
    )
