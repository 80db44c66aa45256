"""Checks of what ``explain()`` gives in each format, whatever the plan is."""

from __future__ import annotations

import json
import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import msgspec

from windrow import Pipeline
from windrow.drawing.svg import width_of
from windrow.plan.explained.document import PlanDocument
from windrow.plan.pipeline import Engine

__all__ = ["check_json", "check_mermaid", "check_svg", "check_whole"]

_SVG: Final = "{http://www.w3.org/2000/svg}"
_SIZES: Final = {"title": 15 * 1.06, "step": 13 * 1.06, "what": 12.0, "type": 12.0, "lost": 11.0, "form": 11.0}
_BOX: Final = re.compile(r"    s(\d+)(\(\[|\[/|\[|\()\"([^\"]+)\"(\]\)|/\]|\]|\))")
_ARROW: Final = re.compile(r"    s(\d+) (?:-->|-\.->)(?:\|(?:left|right)\|)? s(\d+)")
_LABEL: Final = re.compile(r"(?:[^#&<>\"]|#(?:35|quot|amp|lt|gt);|<br/>)+")
_ENDS: Final = {"([": "])", "[/": "/]", "[": "]", "(": ")"}


def check_whole(pipeline: Pipeline, engine: Engine | None) -> None:
    """Checks each format of a plan, and that all show the same steps."""
    document = check_json(pipeline.explain(engine, format="json"))
    numbers = {step["number"] for step in document["steps"]}
    lines = pipeline.explain(engine).splitlines()
    assert {int(found[1]) for line in lines if (found := re.match(r"  (\d+) ", line))} == numbers
    assert check_mermaid(pipeline.explain(engine, format="mermaid")) == numbers
    titles = [f"{step['number']} " for step in document["steps"]]
    shown = iter(check_svg(pipeline.explain(engine, format="svg")))
    assert all(any(line.startswith(title) for line in shown) for title in titles)
    members = {member for step in document["steps"] for member in step["members"]}
    assert {step["id"] for step in document["steps"]} | members == {step.id for step in pipeline.steps}


def check_json(text: str) -> PlanDocument:
    """Checks JSON against its schema, and that it has no other fields; returns the plan."""
    document = msgspec.json.decode(text, type=PlanDocument)
    assert json.loads(text) == document
    ids = [step["id"] for step in document["steps"]]
    for place, step in enumerate(document["steps"]):
        assert set(step["inputs"]) <= set(ids[:place])
    return document


def check_mermaid(text: str) -> set[int]:
    """Checks a flowchart by a small grammar; returns the numbers of its boxes."""
    begin, title, end, kind, *lines = text.splitlines()
    assert (begin, end, kind) == ("---", "---", "flowchart TD")
    assert isinstance(json.loads(title.removeprefix("title: ")), str)
    boxes: set[int] = set()
    for line in lines:
        if box := _BOX.fullmatch(line):
            assert _ENDS[box[2]] == box[4]
            assert _LABEL.fullmatch(box[3]), line
            boxes.add(int(box[1]))
        else:
            arrow = _ARROW.fullmatch(line)
            assert arrow, line
            assert {int(arrow[1]), int(arrow[2])} <= boxes
    return boxes


def check_svg(text: str) -> list[str]:
    """Checks that a picture is XML in which no two labels overlap or leave it; returns the labels."""
    root = ElementTree.fromstring(text)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert width == 420
    boxes: list[tuple[float, float, float, float]] = []
    left_of_steps = width
    for label in root.iter(f"{_SVG}text"):
        size, x, y = _SIZES[label.attrib["class"]], float(label.attrib["x"]), float(label.attrib["y"])
        if label.attrib["class"] != "title":
            left_of_steps = min(left_of_steps, x)
        boxes.append((x, y - 0.8 * size, x + width_of(label.text or "", size), y + 0.2 * size))
    for left, top, right, bottom in boxes:
        assert 0 <= left <= right <= width
        assert 0 <= top < bottom <= height
    for one, other in combinations(boxes, 2) if len(boxes) < 500 else pairwise(boxes):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)
    lanes = [float(path.attrib["d"].split()[0][1:]) for path in root.iter(f"{_SVG}path")]
    assert max(lanes, default=0.0) + 8 < left_of_steps
    return [label.text or "" for label in root.iter(f"{_SVG}text")]


if __name__ == "__main__":
    schema = json.dumps(msgspec.json.schema(PlanDocument), indent=2) + "\n"
    (Path(__file__).parents[2] / "docs" / "_static" / "plan-1.schema.json").write_text(schema)
