"""Shows a plan as a flowchart of Mermaid, which GitHub and many editors draw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from windrow.plan.base_node import Node
from windrow.plan.explained.step_view import StepView, sides_of
from windrow.plan.nodes import SideOutputNode, SinkNode, SourceNode

_ENTITIES: Final = str.maketrans({"#": "#35;", '"': "#quot;", "&": "#amp;", "<": "#lt;", ">": "#gt;"})
"""Characters that mean something within a label, as Mermaid writes them."""

_SHAPES: Final[dict[type[Node], tuple[str, str]]] = {
    SourceNode: ("([", "])"),
    SinkNode: ("[/", "/]"),
    SideOutputNode: ("(", ")"),
}


def render_mermaid(name: str, views: Sequence[StepView]) -> str:
    """A box a step and an arrow an input; arrows to side outputs are dotted.

    Args:
        name: The name of the pipeline, which is the title.
        views: Its steps.
    """
    lines = ["---", f"title: {json.dumps(f'pipeline {name}', ensure_ascii=False)}", "---", "flowchart TD"]
    for view in views:
        left, right = _SHAPES.get(type(view.step.node), ("[", "]"))
        lines.append(f'    s{view.number}{left}"{"<br/>".join(_label(view))}"{right}')
    for view in views:
        arrow = "-.->" if view.step.node.side_output is not None else "-->"
        for side, number in zip(sides_of(view), view.inputs, strict=True):
            lines.append(f"    s{number} {arrow}{f'|{side}|' if side else ''} s{view.number}")
    return "\n".join(lines)


def _label(view: StepView) -> list[str]:
    kind = [] if view.element_type is None else [f": {view.element_type}"]
    form = [] if view.form is None else [f"runs as {view.form}"]
    return [_escaped(text) for text in [view.title, view.text, *kind, *view.notes, *form] if text]


def _escaped(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split()).translate(_ENTITIES)
