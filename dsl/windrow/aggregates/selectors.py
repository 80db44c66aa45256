"""Finds the text and the type of what a selector takes from an element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Never

from windrow.errors import InvalidArgumentError
from windrow.expressions.member_types import present
from windrow.expressions.tracing import Opaque, recognise
from windrow.expressions.tree import Binary, Constant, Element, Field, Item, Unary
from windrow.functions.names import function_name
from windrow.plan.fitting import holds_none
from windrow.plan.types import made_type

# Any in this module: selectors of elements of every type.

_SHORT: Final = (Binary, Constant, Element, Field, Item, Unary)
_LONGEST: Final = 80  # characters of a selector's text in a plan


def selector_text(selector: Callable[[Any], Any]) -> str:
    """How a selector is shown in a plan: ``.celsius``, ``.high - .low``, or the name of the function."""
    expression, name = recognise(selector), function_name(selector)
    if isinstance(expression, Opaque):
        return name
    # The name of a function that decides or calls something says more than what it computes.
    has_name = name != "lambda" and not all(isinstance(part, _SHORT) for part in expression.parts())
    return name if has_name or len(str(expression)) > _LONGEST else str(expression)


def selected_type(selector: Callable[[Any], Any], element_type: object | None) -> object | None:
    """The type of what a selector takes, without None; None where annotations do not say."""
    type_form = present(made_type(selector, element_type))
    return None if type_form is Never else type_form


def refuse_texts(selector: Callable[[Any], Any], element_type: object | None, call: str, where: object = None) -> None:
    """Refuse a selector whose annotations say that it takes a text, which cannot be added up.

    Args:
        selector: The selector.
        element_type: The type of the elements; None where it is not known.
        call: What adds up.
        where: The line of the user's program.

    Raises:
        InvalidArgumentError: If it takes a str or bytes.
    """
    type_form = selected_type(selector, element_type)
    # functools.wraps copies the annotations of another function.
    if (type_form is str or type_form is bytes) and not hasattr(selector, "__wrapped__"):
        raise InvalidArgumentError(
            f"{call} adds numbers up, and its selector takes a text",
            given=f"{selector_text(selector)}, of type {type_form.__name__}",
            expected="a selector of numbers or time spans",
            where=where,
            hint="a selector of another field, or one that makes a number: lambda element: int(element.text)",
        )


def gives_none(selector: Callable[[Any], Any], element_type: object | None) -> bool | None:
    """Whether a selector may give None; None where annotations do not say."""
    type_form = made_type(selector, element_type)
    return None if type_form is None else holds_none(type_form)
