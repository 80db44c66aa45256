"""Holds what the calls after ``window`` have set, and makes the step of it; the settings of count windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windrow.counts import check_positive
from windrow.evictors import CountEvictor, Evictor
from windrow.failures import ErrorPolicy
from windrow.panes.settings import DEFAULT_PANES, PaneSettings
from windrow.plan.base_node import Node
from windrow.plan.keyed_nodes import FunctionSpec, WindowNode
from windrow.plan.location import caller_location, refusal
from windrow.tags import OutputTag
from windrow.triggers import CountOrEndOfStreamTrigger, CountTrigger, PurgingTrigger, Trigger
from windrow.windows import GlobalWindows, WindowAssigner


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """Holds what the calls of a windowed stage have set so far."""

    input: Node
    # Any: the stages are generic and have proved that the parts fit.
    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any] | None = None
    evictor: Evictor[Any, Any] | None = None
    allowed_lateness: int | None = None
    late_tag: OutputTag[Any] | None = None
    panes: PaneSettings = DEFAULT_PANES
    # Whether an evictor may leave no element in a window when it fires; that of a count window never does.
    may_evict_all: bool = False

    @property
    def may_be_empty(self) -> bool:
        """Whether a window may fire with no element in it."""
        return self.may_evict_all or self.panes.may_be_empty

    def node(
        self, function: FunctionSpec, element_type: object | None, name: str | None, on_error: ErrorPolicy | None = None
    ) -> WindowNode:
        """The step with these settings that computes ``function``."""
        return WindowNode(
            input=self.input,
            on_error=on_error,
            assigner=self.assigner,
            trigger=self.trigger,
            evictor=self.evictor,
            allowed_lateness=self.allowed_lateness,
            late_tag=self.late_tag,
            panes=self.panes,
            function=function,
            element_type=element_type,
            name=name,
        )


def count_window(node: Node, size: int, slide: int | None, *, fire_at_end: bool) -> WindowSettings:
    """The settings of windows of ``size`` elements, or of the last ``size`` at every ``slide``.

    With ``fire_at_end`` they fire with what is left when the stream ends.
    """
    for name, number in (("size", size), ("slide", slide)):
        if number is not None:
            check_positive(number, f"the {name} of a count window", where=caller_location())
    if not isinstance(fire_at_end, bool):
        raise refusal("fire_at_end must be a bool", given=fire_at_end, expected="True or False")
    assigner = GlobalWindows.create()
    class_ = CountOrEndOfStreamTrigger if fire_at_end else CountTrigger
    if slide is None:
        return WindowSettings(node, assigner, PurgingTrigger.of(class_.of(size)))
    # The evictor leaves the last elements, so a window still has some.
    return WindowSettings(node, assigner, class_.of(slide), CountEvictor.of(size))
