"""Plans as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windrow.plan.nodes import Node, type_name
from windrow.plan.steps import Step

__all__ = ["node_line", "render_text"]


def render_text(name: str, steps: Sequence[Step], forms: Mapping[str, str]) -> str:
    """A line a step: its number, name, inputs, what it does, and the type of its output.

    Args:
        name: The name of the pipeline.
        steps: Its steps.
        forms: How an engine runs steps, by their ids; stands below them.
    """
    lines = [f"pipeline {name}"]
    numbers = {step.id: step.index for step in steps}
    width = max((len(_title(step)) for step in steps), default=0)
    for step in steps:
        inputs = ", ".join(str(numbers[identifier]) for identifier in step.inputs)
        arrow = f"<- {inputs}" if inputs else ""
        line = f"  {_title(step):<{width}}  {arrow:<8} {step.node.describe()}"
        if step.node.element_type is not None and step.node.kind not in ("sink", "returns"):
            line += f"  : {type_name(step.node.element_type)}"
        lines.append(line.rstrip())
        if step.id in forms:
            lines.append(f"  {'':<{width}}           runs as {forms[step.id]}")
    return "\n".join(lines)


def _title(step: Step) -> str:
    kind = step.node.kind
    return f"{step.index} {kind} {step.node.name}" if step.node.name else f"{step.index} {kind}"


def node_line(kind: str, node: Node) -> str:
    """A stream in one line: its class, the step that makes it, and where that is."""
    step = f"{node.kind} {node.name!r}" if node.name else node.kind
    return f"{kind}({step}, {node.location})"
