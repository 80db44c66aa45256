"""Wraps assigners, triggers and evictors for marked elements, so that they see the elements without marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final, TypeVar

from windrow.calls.attributes import attribute_of
from windrow.evictors import DeltaEvictor, Evictor, TimestampedValue
from windrow.functions.marked import Tagged
from windrow.plan.location import refusal
from windrow.triggers import DeltaTrigger, Trigger
from windrow.triggers.composable.contract import Part
from windrow.windows import DynamicEventTimeSessionWindows, DynamicProcessingTimeSessionWindows, WindowAssigner

P = TypeVar("P")

# Any in this module: elements of every type.

_LOOKING: Final = (DeltaTrigger, DeltaEvictor, DynamicEventTimeSessionWindows, DynamicProcessingTimeSessionWindows)
"""The classes of windrow's own that look at elements; users' own may."""


def assigner_of_both(assigner: WindowAssigner[Any, Any]) -> WindowAssigner[Any, Any]:
    """The assigner for marked elements."""
    return _looking_at_elements(assigner, ("assign_windows", "gap_of"), _Unmarked)


def evictor_of_both(evictor: Evictor[Any, Any]) -> Evictor[Any, Any]:
    """The evictor for marked elements."""
    return _looking_at_elements(evictor, ("evict_before", "evict_after"), _AllUnmarked)


def trigger_of_both(trigger: Trigger[Any, Any]) -> Trigger[Any, Any]:
    """The trigger for marked elements, with all triggers inside it."""
    for_both = _looking_at_elements(trigger, ("on_element", "observe"), _Unmarked)
    if for_both is not trigger or not trigger.parts:
        return for_both
    inside = {id(part): trigger_of_both(part) for part in trigger.parts}
    if all(inside[id(part)] is part for part in trigger.parts):
        return trigger
    clone = copy(trigger)
    for name, value in vars(trigger).items():
        if isinstance(value, Trigger):
            object.__setattr__(clone, name, inside.get(id(value), value))
        elif isinstance(value, tuple):
            object.__setattr__(clone, name, tuple(inside.get(id(each), each) for each in value))
        elif isinstance(value, list):  # those of a trigger that composes
            object.__setattr__(clone, name, [_part_of_both(each, inside) for each in value])
    return clone


def _part_of_both(part: Any, inside: Mapping[int, Any]) -> Any:
    if not isinstance(part, Part):
        return part
    clone = copy(part)
    clone.trigger = inside.get(id(part.trigger), part.trigger)
    return clone


def _looking_at_elements(part: P, methods: Sequence[str], unmarked: Callable[[Callable[..., Any]], object]) -> P:
    """A copy whose methods get the elements themselves; the part itself where it looks at none.

    The copy is of the same class, so that everything that depends on the class finds what it looks for.
    """
    if type(part).__module__.partition(".")[0] == "windrow" and not isinstance(part, _LOOKING):
        return part
    clone = copy(part)
    methods = [name for name in methods if attribute_of(part, name) is not None]
    for name in methods:
        object.__setattr__(clone, name, unmarked(getattr(part, name)))
    # Workers get copies of it.
    if any(name not in vars(copy(clone)) for name in methods):
        raise refusal(
            f"copies of a {type(part).__name__} lose attributes that are not its fields, and a join of two streams "
            "needs one",
            given=part,
            expected="an object whose copies have all its attributes",
            hint="leave slots=True out of its dataclass, and __getstate__ and __reduce__ out of its class",
        )
    return clone


class _Unmarked:
    """A method that takes an element first, and gets it without its mark."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __call__(self, element: Tagged[Any, Any], *further: Any) -> Any:
        return self._method(element.value, *further)


class _AllUnmarked:
    """A method that takes elements with timestamps first, and gets them without their marks."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __call__(self, elements: Sequence[TimestampedValue[Tagged[Any, Any]]], *further: Any) -> Any:
        return self._method([TimestampedValue(each.value.value, each.timestamp) for each in elements], *further)
