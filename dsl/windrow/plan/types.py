"""Finds types of elements from annotations alone, and defines the annotation for the digits of decimals."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from windrow.calls.attributes import attribute_of
from windrow.errors import InvalidArgumentError
from windrow.expressions.derived import derived_type
from windrow.expressions.generics import arguments_of, class_of, is_open, substituted, variables_of
from windrow.facts.called import called_type
from windrow.plan.hints import resolved_hints


def result_type(function: object, element_type: object | None = None) -> object | None:
    """The annotated result of a function or of a callable object, or None where it says nothing definite.

    Args:
        function: The function.
        element_type: The type of what it is given, where that is known: the annotation may name it.
    """
    # A method of generic elements has their type arguments: those of a TableChange[Order] for TableChange.changes.
    classes = getattr(class_of(element_type), "__mro__", ())
    owner = next((each for each in classes if any(it is function for it in vars(each).values())), object)
    annotated = substituted(_hints(function, element_type).get("return"), variables_of(element_type, owner))
    return _definite(annotated)


def made_type(function: object, *argument_types: object | None) -> object | None:
    """Returns the type of a function's results: the annotated one, or the one that its code says; None: not known.

    Args:
        function: The function.
        argument_types: The types of its arguments, where these are known.
    """
    annotated = result_type(function, argument_types[0] if argument_types else None)
    if annotated is not None or not callable(function):
        return annotated
    return derived_type(function, argument_types) or called_type(function)


def stated_type(function: object, element_type: object | None = None) -> object | None:
    """Returns the annotated type of a function's results, or that of the function which it calls; None: no type."""
    return result_type(function, element_type) or called_type(function)


def parameter_types(function: object) -> dict[str, object]:
    """The annotated types of the parameters of a function, or of those that make a record, by name."""
    target = called_by(function)
    try:
        parameters = inspect.signature(target).parameters  # type: ignore[arg-type]  # callable, by contract
    except (TypeError, ValueError):
        return {}
    hints = resolved_hints(target)
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [name for name, parameter in parameters.items() if parameter.kind not in rest]
    return {name: hints[name] for name in named if name in hints and not is_open(hints[name])}


def sequence_type(type_form: object | None) -> object | None:
    """``Sequence[X]`` for ``X``; None where that is not known."""
    return None if type_form is None else types.GenericAlias(Sequence, (type_form,))


def iterable_item(type_form: object | None) -> object | None:
    """``X`` for ``Iterable[X]``, ``list[X]`` and the like, also where None may stand in their place."""
    type_form = _without_none(type_form)
    origin = typing.get_origin(type_form)
    arguments = typing.get_args(type_form)
    if isinstance(origin, type) and issubclass(origin, Iterable) and arguments:
        if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
            return None
        return _definite(arguments[0])
    return None


def _without_none(type_form: object | None) -> object | None:
    """``X`` for ``X | None``."""
    if typing.get_origin(type_form) not in (typing.Union, types.UnionType):
        return type_form
    others = [argument for argument in typing.get_args(type_form) if argument is not type(None)]
    return others[0] if len(others) == 1 else type_form


def base_argument(instance: object, base: type, position: int) -> object | None:
    """The type argument that ``type(instance)`` gives to its generic base class, through all levels.

    ``class Mean(AggregateFunction[float, tuple[int, float], float])`` gives ``float`` for position 2.
    """
    arguments = arguments_of(type(instance), base)
    return _definite(arguments[position]) if position < len(arguments) else None


def called_by(function: object) -> object:
    """The function or method that runs when a function, or an object in its place, is called."""
    if isinstance(function, functools.partial):
        return called_by(function.func)
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    # A callable object: MapFunction and the like delegate __call__ to the method that the user annotated.
    for method in ("map", "flat_map", "get_key", "reduce"):
        callee = attribute_of(function, method)
        if callable(callee):
            return callee
    return attribute_of(function, "__call__", function)


def _hints(function: object, element_type: object | None = None) -> dict[str, object]:
    if inspect.isclass(function):
        return {"return": function}
    # Annotations that cannot be resolved say nothing; the plan then asks for returns().
    return resolved_hints(called_by(function), known=element_type)


def _definite(type_form: object | None) -> object | None:
    return None if type_form is None or is_open(type_form) else type_form


_MOST_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class DecimalType:
    """The digits that a ``Decimal`` field has in columns of Arrow, Parquet and Spark, as a note of its annotation.

    ``amount: Annotated[Decimal, DecimalType(10, 2)]`` is a column of the type ``DECIMAL(10, 2)``. A field without it is
    one of ``DECIMAL(38, 18)``. A number of a source's column that has more digits is a malformed record. Objects with
    attributes of these names, such as Spark's and Arrow's types of decimals, may stand in its place.

    Args:
        precision: How many digits a number has at most, 1 to 38.
        scale: How many of them are after the point.

    Raises:
        InvalidArgumentError: If there is no such type.
    """

    precision: int
    scale: int = 0

    def __post_init__(self) -> None:
        for digits in (self.precision, self.scale):
            if type(digits) is not int or digits < 0:
                raise InvalidArgumentError("digits are counted", given=digits, expected="an int of 0 or more")
        if not max(self.scale, 1) <= self.precision <= _MOST_DIGITS:
            raise InvalidArgumentError(
                "no column has such decimals",
                given=self,
                expected=f"a precision of 1 to {_MOST_DIGITS}, and a scale of 0 to the precision",
            )
