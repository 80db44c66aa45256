"""Checks of what triggers are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windrow.errors import InvalidArgumentError
from windrow.functions.names import function_name
from windrow.triggers.trigger import MergingTrigger, Trigger, with_parts

__all__ = ["check_trigger", "parts_that_cannot_merge"]


def check_trigger(
    given: object, message: str, *, expected: str = "a Trigger", takes_several: str | None = None
) -> None:
    """Refuses what is no trigger.

    Args:
        given: The argument.
        message: What is wrong if it is none.
        expected: What was expected.
        takes_several: The function that was given it, if that takes several triggers as its arguments.

    Raises:
        InvalidArgumentError: If it is no trigger.
    """
    if not isinstance(given, Trigger):
        shown = "None" if given is None else given
        raise InvalidArgumentError(message, given=shown, expected=expected, hint=_hint(given, takes_several))


def _hint(given: object, takes_several: str | None) -> str | None:
    if isinstance(given, type):
        return "an instance, not the class"
    if callable(given):
        return f"call it: {function_name(given)}(...)"
    if isinstance(given, Iterable) and not isinstance(given, str):
        if takes_several is not None:
            return f"unpack it: {takes_several}(*triggers)"
        return "after_any(*triggers) makes one trigger of several"
    return None


# Any: triggers of every type.
def parts_that_cannot_merge(trigger: Trigger[Any, Any]) -> list[Trigger[Any, Any]]:
    """The innermost triggers inside one that cannot follow windows that merge; itself if all inside it can."""
    return [
        part
        for part in with_parts(trigger)
        if not isinstance(part, MergingTrigger) and all(isinstance(inner, MergingTrigger) for inner in part.parts)
    ]
