"""Plans as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windrow.panes import TimestampCombiner
from windrow.plan.changing import repeating_windows
from windrow.plan.nodes import Node, TimestampsNode, WindowNode, type_name
from windrow.plan.steps import Step
from windrow.windows import GlobalWindows

__all__ = ["node_line", "render_text"]


def render_text(name: str, steps: Sequence[Step], forms: Mapping[str, str]) -> str:
    """A line a step: its number, name, inputs, what it does, and the type of its output; below, what may be lost.

    Args:
        name: The name of the pipeline.
        steps: Its steps.
        forms: How an engine runs steps, by their ids; stands below them.
    """
    lines = [f"pipeline {name}"]
    numbers = {step.id: step.index for step in steps}
    places = {id(step.node): step.index for step in steps}
    width = max((len(_title(step)) for step in steps), default=0)
    for step in steps:
        inputs = ", ".join(str(numbers[identifier]) for identifier in step.inputs)
        arrow = f"<- {inputs}" if inputs else ""
        line = f"  {_title(step):<{width}}  {arrow:<8} {step.node.describe()}"
        if step.node.element_type is not None and step.node.kind not in ("sink", "returns"):
            line += f"  : {type_name(step.node.element_type)}"
        lines.append(line.rstrip())
        indent = f"  {'':<{width}}           "
        if early := _stamped_early(step.node):
            lines.append(f"{indent}results of {_named(early, places)} may be late here, and are dropped then")
        if repeating := repeating_windows(step.node):
            lines.append(
                f"{indent}panes of {_named(repeating, places)} hold the elements of earlier panes, which count again "
                "here: discarding() there counts each once, retracting() leaves the last pane"
            )
        if isinstance(step.node, WindowNode) and step.node.may_leave_unfired:
            by_clock = not step.node.assigner.is_event_time
            end = "the stream" if by_clock or isinstance(step.node.assigner, GlobalWindows) else "a window"
            lines.append(f"{indent}elements that wait for a firing when {end} ends are dropped")
        if step.id in forms:
            lines.append(f"{indent}runs as {forms[step.id]}")
    return "\n".join(lines)


def _named(nodes: Sequence[Node], places: Mapping[int, int]) -> str:
    """Some steps by their numbers, which stand in ``places`` by their id()."""
    return " and ".join(f"step {place}" for place in sorted(places[id(node)] for node in nodes))


def _stamped_early(node: Node) -> list[WindowNode]:
    """The windows upstream of windows whose results may be late there; none where lateness is allowed.

    With a timestamp combiner a result carries a timestamp that the watermark may have passed before the window fires.
    """
    if not isinstance(node, WindowNode) or not node.assigner.is_event_time or node.allowed_lateness:
        return []
    found: list[WindowNode] = []
    waiting, seen = list(node.inputs), {id(node)}
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, TimestampsNode):
            continue
        seen.add(id(each))
        if not isinstance(each, WindowNode):
            waiting += each.inputs
        elif each.panes.timestamp not in {None, TimestampCombiner.END_OF_WINDOW}:
            found.append(each)
    return found


def _title(step: Step) -> str:
    kind = step.node.kind
    return f"{step.index} {kind} {step.name}" if step.name else f"{step.index} {step.scope}{kind}"


def node_line(kind: str, node: Node) -> str:
    """A stream in one line: its class, the step that makes it, and where that is."""
    step = f"{node.kind} {node.name!r}" if node.name else node.kind
    return f"{kind}({step}, {node.location})"
