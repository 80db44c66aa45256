"""Checks the arguments of triggers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windrow.errors import InvalidArgumentError
from windrow.functions.names import function_name
from windrow.triggers.trigger import MergingTrigger, Trigger, with_parts


def check_trigger(
    trigger: object, message: str, *, expected: str = "a Trigger", takes_several: str | None = None
) -> None:
    """Refuses what is no trigger.

    Args:
        trigger: The argument that should be a trigger.
        message: What is wrong if it is none.
        expected: What was expected.
        takes_several: The function that was given it, if that takes several triggers as its arguments.

    Raises:
        InvalidArgumentError: If it is no trigger.
    """
    if not isinstance(trigger, Trigger):
        shown = "None" if trigger is None else trigger
        raise InvalidArgumentError(message, given=shown, expected=expected, hint=_hint(trigger, takes_several))


def _hint(trigger: object, takes_several: str | None) -> str | None:
    if isinstance(trigger, type):
        return "an instance, not the class"
    if callable(trigger):
        return f"call it: {function_name(trigger)}(...)"
    if isinstance(trigger, Iterable) and not isinstance(trigger, str):
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
