"""Holds what the calls after ``window`` have set, and makes the step of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windrow.evictors import Evictor
from windrow.panes.settings import DEFAULT_PANES, PaneSettings
from windrow.plan.location import caller_location
from windrow.plan.nodes import FunctionSpec, Node, WindowNode
from windrow.tags import OutputTag
from windrow.triggers import Trigger
from windrow.windows import WindowAssigner

if TYPE_CHECKING:
    from windrow.stream import DataStream

__all__ = ["WindowSettings"]


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """Holds what the calls of a windowed stage have set so far."""

    input: Node
    # The constructor of streams is handed in: their module imports this one.
    make_stream: Callable[[Node], DataStream[Any]]
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

    def node(self, function: FunctionSpec, element_type: object | None, name: str | None) -> WindowNode:
        """The step with these settings that computes ``function``."""
        return WindowNode(
            input=self.input,
            assigner=self.assigner,
            trigger=self.trigger,
            evictor=self.evictor,
            allowed_lateness=self.allowed_lateness,
            late_tag=self.late_tag,
            panes=self.panes,
            function=function,
            element_type=element_type,
            name=name,
            location=caller_location(),
        )
