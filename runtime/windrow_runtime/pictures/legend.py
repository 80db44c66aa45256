"""Draws the legend, which explains the outlines that a picture has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from windrow_runtime.pictures.panel import Panel
from windrow_runtime.pictures.svg import element, text, width_of

_ROW: Final = 22.0
_GAP: Final = 22.0
_SAMPLE: Final = 24.0


def legend(panels: Sequence[Panel], left: float, right: float, top: float) -> tuple[float, list[str]]:
    """Returns the height of the legend, and its parts."""
    x, y, parts = left, top, list[str]()
    for kind, words in _entries(panels):
        width = _SAMPLE + 6 + width_of(words, 11)
        if x > left and x + width > right:
            x, y = left, y + _ROW
        middle = y + _ROW / 2
        label = element("text", {"class": "note", "x": x + _SAMPLE + 6, "y": middle + 4}, text(words))
        parts.append(element("g", {"class": "legend"}, _sample(kind, x, middle), label))
        x += width + _GAP
    return (y + _ROW - top if parts else 0.0), parts


def _entries(panels: Sequence[Panel]) -> Iterator[tuple[str, str]]:
    elements = [point.element for panel in panels for point in panel.scene.points]
    panes = [box.pane.pane for panel in panels for box in panel.scene.boxes]
    what = "number in order of arrival" if any(panel.numbers for panel in panels) else "value"
    if elements:
        yield "element", f"element, with its {what}"
    if any(element.is_late and not element.is_dropped for element in elements):
        yield "element late", "late element"
    if any(element.is_dropped for element in elements):
        yield "element dropped", "dropped element"
    if any(panel.scene.watermarks and not panel.times.across_by_clock for panel in panels):
        yield "watermark", "watermark"
    if any(panel.shows_no_delay for panel in panels):
        yield "no-delay", "no delay"
    timings = {"fired" if pane is None else pane.timing.value for pane in panes}
    for timing, words in (
        ("fired", "pane"),
        ("early", "early pane"),
        ("on time", "pane on time"),
        ("late", "late pane"),
    ):
        if timing in timings:
            yield f"pane {timing.replace(' ', '-')}", words
    if any(panel.scene.withdrawals for panel in panels):
        yield "pane withdrawn", "withdrawn pane"


def _sample(kind: str, x: float, middle: float) -> str:
    if kind.startswith("element"):
        circle = element("circle", {"cx": x + _SAMPLE / 2, "cy": middle, "r": 7.0})
        line = f"M{x + 4:.1f} {middle + 8:.1f}L{x + 20:.1f} {middle - 8:.1f}"
        cross = [element("path", {"class": "cross", "d": line})] if "dropped" in kind else []
        return element("g", {"class": kind}, circle, *cross)
    if kind.startswith("pane"):
        rectangle: dict[str, str | float] = {"x": x, "y": middle - 6, "width": _SAMPLE, "height": 12.0}
        return element("g", {"class": kind}, element("rect", rectangle))
    return element("path", {"class": kind, "d": f"M{x:.1f} {middle:.1f}L{x + _SAMPLE:.1f} {middle:.1f}"})
