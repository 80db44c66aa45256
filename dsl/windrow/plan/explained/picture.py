"""Draws a plan as SVG: a row a step, and lines that lead from each step to those that read it.

Rows lie below each other, so that a picture fits a narrow screen whatever the plan is; lanes beside them hold the
lines, as in the graph of a version control system.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from windrow.drawing.svg import element, number, picture, text, width_of, wrapped
from windrow.plan.explained.step_view import StepView, sides_of

_WIDTH: Final = 420.0
_MARGIN: Final = 14.0
_RADIUS: Final = 5.0
_BEND: Final = 14.0
_GAP: Final = 15.0
_LANES: Final = 120.0
"""How wide all lanes are together at most."""

_SIZES: Final = {"step": 13.0, "what": 12.0, "type": 12.0, "lost": 11.0, "form": 11.0}
"""The size of the font of each kind of lines."""

_RULES: Final = """
.step { font-size: 13px; font-weight: 600 }
.type { fill: $watermark }
.lost { font-size: 11px; fill: $withdrawn }
.form { font-size: 11px; fill: $soft }
.line { stroke: $soft; stroke-width: 1.6; fill: none }
.line.side { stroke-dasharray: 3 3 }
.arrow { fill: $soft }
.dot { fill: $ground; stroke: $soft; stroke-width: 2 }
.dot.source { fill: $second-line; stroke: $second-line }
.dot.keyed { fill: $element; stroke: $element-line }
.dot.sink { fill: $ink; stroke: $ink }
.dot.side { stroke-dasharray: 2 2 }
"""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the picture: the lane of a step, the middle of its dot, and its lines of text with their CSS classes."""

    view: StepView
    lane: int
    y: float
    lines: Sequence[tuple[str, str]]


def render_svg(name: str, views: Sequence[StepView]) -> str:
    """The picture of a plan, which needs no other file, and has colours for light and for dark backgrounds.

    Args:
        name: The name of the pipeline.
        views: Its steps.
    """
    lanes, count = _lanes(views)
    pitch = min(18.0, _LANES / max(count - 1, 1))
    left = _MARGIN + _RADIUS + pitch * (count - 1) + 16
    shapes: list[str] = []
    y = 12.0
    for line in _cut(f"pipeline {name}", _WIDTH - 2 * _MARGIN, 15 * 1.06):
        y += 20
        shapes.append(element("text", {"class": "title", "x": _MARGIN, "y": y - 4}, text(line)))
    rows: dict[int, _Row] = {}
    for view in views:
        lines = list(_lines(view, _WIDTH - _MARGIN - left))
        rows[view.number] = _Row(view, lanes[view.number], y + _GAP + 8, lines)
        y += _GAP + 16 * len(lines)
    places = [_MARGIN + pitch * lane for lane in range(count)]
    shapes += _lines_between(rows, places)
    shapes += [_step(row, places[row.lane], left) for row in rows.values()]
    return picture("windrow-plan", _RULES, f"Plan of the pipeline {name}", shapes, (_WIDTH, y + _GAP))


def _lanes(views: Sequence[StepView]) -> tuple[dict[int, int], int]:
    """The lane of each step by its number, and how many lanes there are.

    A step goes on in the lane of an input that nothing below reads, else in the first free lane.
    """
    last = {number: place for place, view in enumerate(views) for number in view.inputs}
    lanes: dict[int, int] = {}
    held: dict[int, int] = {}  # the step whose line is in a lane
    for place, view in enumerate(views):
        ended = sorted({lanes[each] for each in view.inputs if last[each] == place})
        for lane in ended:
            del held[lane]
        free = (lane for lane in range(len(held) + 1) if lane not in held)
        lanes[view.number] = lane = ended[0] if ended else next(free)
        if view.number in last:
            held[lane] = view.number
    return lanes, max(lanes.values(), default=0) + 1


def _lines(view: StepView, width: float) -> Iterator[tuple[str, str]]:
    """The lines of a step, each with its class."""
    sides = [f"{side} {each}".strip() for side, each in zip(sides_of(view), view.inputs, strict=True)]
    texts = [("step", view.title), ("what", view.text)]
    texts += [] if view.element_type is None else [("type", view.element_type)]
    texts += [("form", f"reads {', '.join(sides)}")] if len(sides) > 1 else []
    texts += [("lost", note) for note in view.notes]
    texts += [] if view.form is None else [("form", f"runs as {view.form}")]
    for kind, content in texts:
        size = _SIZES[kind] * (1.06 if kind == "step" else 1.0)
        yield from ((kind, line) for line in _cut(content, width, size))


def _cut(content: str, width: float, size: float) -> list[str]:
    """Wraps a text into lines that are at most ``width`` wide; longer words are cut."""
    words: list[str] = []
    for word in content.split():
        part = ""
        for character in word:
            if part and width_of(part + character, size) > width:
                words.append(part)
                part = ""
            part += character
        words.append(part)
    return wrapped(" ".join(words), width, size)


def _lines_between(rows: Mapping[int, _Row], places: Sequence[float]) -> Iterator[str]:
    """Draws lines from steps to their readers: down the lane of the step, then into the reader's above its dot."""
    drawn: dict[tuple[int, str], float] = {}  # how far down the lane of a step has its line
    for lower in rows.values():
        kind = "line side" if lower.view.step.node.side_output is not None else "line"
        for each in lower.view.inputs:
            upper = rows[each]
            begin, end = places[upper.lane], places[lower.lane]
            top, bottom = drawn.get((each, kind), upper.y + _RADIUS), lower.y - _RADIUS - 3
            turn = bottom if begin == end else bottom - _BEND
            path = f"M{number(begin)} {number(top)}V{number(turn)}"
            if begin != end:
                bend = number(bottom - _BEND / 2)
                path += f"C{number(begin)} {bend} {number(end)} {bend} {number(end)} {number(bottom)}"
            drawn[each, kind] = turn
            yield element("path", {"class": kind, "d": path})


def _step(row: _Row, x: float, left: float) -> str:
    """The dot of a step, the arrow into it, and its lines of text."""
    view, y = row.view, row.y
    shapes = [element("title", {}, text(view.step.where))]
    if view.inputs:
        tip = y - _RADIUS
        arrow = f"M{number(x - 4)} {number(tip - 6)}L{number(x + 4)} {number(tip - 6)}L{number(x)} {number(tip)}Z"
        shapes.append(element("path", {"class": "arrow", "d": arrow}))
    kind = _dot(view)
    if kind == "sink":
        square = {"x": x - _RADIUS, "y": y - _RADIUS, "width": 2 * _RADIUS, "height": 2 * _RADIUS}
        shapes.append(element("rect", {"class": f"dot {kind}"} | square))
    else:
        shapes.append(element("circle", {"class": f"dot {kind}".strip(), "cx": x, "cy": y, "r": _RADIUS}))
    for place, (line, content) in enumerate(row.lines):
        shapes.append(element("text", {"class": line, "x": left, "y": y + 4.5 + 16 * place}, text(content)))
    return element("g", {"class": "row"}, *shapes)


def _dot(view: StepView) -> str:
    node = view.step.node
    if node.is_source or node.is_sink:
        return node.kind
    return "side" if node.side_output is not None else "keyed" if node.is_keyed else ""
