"""Checks of what the calls of a stream are given, and the settings of count windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from windrow.counts import check_positive
from windrow.errors import InvalidArgumentError
from windrow.evictors import CountEvictor
from windrow.plan.location import caller_location
from windrow.plan.nodes import Node
from windrow.triggers import CountTrigger, PurgingTrigger
from windrow.window_settings import WindowSettings
from windrow.windows import GlobalWindows, Window, WindowAssigner

if TYPE_CHECKING:
    from windrow.stream import DataStream

__all__ = ["check_assigner", "check_function", "count_window"]

T = TypeVar("T")
W = TypeVar("W", bound=Window)


def check_function(function: object, call: str) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise InvalidArgumentError(
            f"{call} needs a function", given=function, expected="a callable", where=caller_location()
        )


def check_assigner(assigner: WindowAssigner[T, W]) -> WindowAssigner[T, W]:
    """The assigner, or an error where it is none."""
    if not isinstance(assigner, WindowAssigner):
        raise InvalidArgumentError(
            "windows need an assigner",
            given=assigner,
            expected="a WindowAssigner",
            where=caller_location(),
            hint="TumblingEventTimeWindows.of(timedelta(seconds=5))",
        )
    return assigner


def count_window(
    node: Node, make_stream: Callable[[Node], DataStream[Any]], size: int, slide: int | None
) -> WindowSettings:
    """The settings of windows of ``size`` elements, or of the last ``size`` at every ``slide``."""
    for name, number in (("size", size), ("slide", slide)):
        if number is not None:
            check_positive(number, f"the {name} of a count window", where=caller_location())
    assigner = GlobalWindows.create()
    if slide is None:
        return WindowSettings(node, make_stream, assigner, PurgingTrigger.of(CountTrigger.of(size)))
    # The evictor leaves the last elements, so a window still has some.
    return WindowSettings(node, make_stream, assigner, CountTrigger.of(slide), CountEvictor.of(size))
