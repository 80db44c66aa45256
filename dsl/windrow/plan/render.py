"""Shows plans as text."""

from __future__ import annotations

from collections.abc import Sequence

from windrow.plan.base_node import Node
from windrow.plan.explained.labels import short_type
from windrow.plan.explained.step_view import StepView


def render_text(name: str, views: Sequence[StepView]) -> str:
    """Writes a plan as text: a line a step with number, name, inputs, work and type of output, and losses below.

    Args:
        name: The name of the pipeline.
        views: Its steps.
    """
    lines = [f"pipeline {name}"]
    width = max((len(view.title) for view in views), default=0)
    for view in views:
        arrow = f"<- {', '.join(map(str, view.inputs))}" if view.inputs else ""
        line = f"  {view.title:<{width}}  {arrow:<8} {view.text}"
        lines.append((line if view.element_type is None else f"{line}  : {view.element_type}").rstrip())
        below = [*view.notes, *([] if view.form is None else [f"runs as {view.form}"])]
        lines += [f"  {'':<{width}}           {note}" for note in below]
    return "\n".join(lines)


def node_line(kind: str, node: Node) -> str:
    """Describes a stream in one line: its class, its last step, the type of its elements, and the user's line."""
    path = "" if node.scope is None else node.scope.path
    step = f"{node.kind} {path + node.name!r}" if node.name else f"{path}{node.kind}"
    elements = "" if node.element_type is None else f": {short_type(node.element_type)}"
    return f"{kind}({step}{elements}, {node.location})"
