"""Checks that a record class, or a function that makes records, has parameters for the declared values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from windrow.errors import similar_name
from windrow.functions.names import function_name
from windrow.plan.location import refusal


# Any: a record class of any type, whose parameters are looked at here.
def check_target(
    target: Callable[..., Any], parts: str, positional: Sequence[object], named: Mapping[str, object]
) -> None:
    """Refuse a target of ``into`` that cannot be called with one value for each part.

    Args:
        target: A record class, or a function that makes the result.
        parts: What stands for the values in the call of ``into``, such as ``aggregates``.
        positional: The parts by position.
        named: The parts by the names of the parameters of ``target``.

    Raises:
        InvalidArgumentError: If parts are missing, if there are too many, or if a name is misspelt.
    """
    try:
        signature = inspect.signature(target)
    except Exception:  # a class of an extension has none, and attributes of the user's object may raise anything
        return  # it says itself what it takes, when it is called
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        # Only the names that nobody asked for yet: the misspelt one stands for one of these.
        missing = [name for name in signature.parameters if name not in named]
        hints = [similar_name(name, missing) for name in named if name not in signature.parameters]
        raise refusal(
            f"{function_name(target)} does not take these {parts}: {error}",
            given=", ".join(named) or f"{len(positional)} {parts}",
            expected=f"{function_name(target)}{signature}",
            hint=next(filter(None, hints), f"one of the {parts} for each argument, by position or by name"),
        ) from error
