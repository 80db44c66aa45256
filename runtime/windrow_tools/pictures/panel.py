"""Draws a panel: the elements, the watermark and the panes of one key, with labels that do not overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any, Final

from windrow.drawing.svg import element, number, shortened, text, width_of
from windrow.panes import PaneTiming
from windrow_runtime.operators.recording import RecordedElement, RecordedPane
from windrow_tools.pictures.axes import Axis
from windrow_tools.pictures.scene import AxisTimes, Box, Edges, Point, Scene, window_text

# Any in this module: values of every type.

_MINUS: Final = "\N{MINUS SIGN}"

_STRIP: Final = 15.0
"""The height of a withdrawal, in pixels."""

_LEAST_BOX: Final = 17.0
"""The height of the box of a pane that fired as soon as its first element came."""

_MANY: Final = 80
"""The number of elements from which on circles are drawn smaller."""

_SQUARE: Final = 24.0
"""The side of a square of the grid in which free places are looked for, in pixels."""

_TIMINGS: Final = {PaneTiming.EARLY: "early", PaneTiming.ON_TIME: "on-time", PaneTiming.LATE: "late"}


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: Area) -> bool:
        """Returns whether two rectangles share more than an edge."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def contains(self, other: Area) -> bool:
        """Returns whether another rectangle lies inside of this one."""
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )

    def crosses(self, other: Area) -> bool:
        """Returns whether the rectangle overlaps an edge of another one."""
        return self.covers(other) and not other.contains(self)


@dataclass(slots=True)
class OccupiedAreas:
    """The areas of a panel that are occupied already, by the squares of a grid that they touch."""

    _squares: dict[tuple[int, int], list[Area]] = field(default_factory=dict)

    def add(self, areas: Iterable[Area]) -> None:
        """Occupies areas."""
        for area in areas:
            for square in _squares_of(area):
                self._squares.setdefault(square, []).append(area)

    def choose(self, candidates: Iterable[Area]) -> Area | None:
        """Occupies and returns the first free candidate; None if none is free."""
        for area in candidates:
            if not any(area.covers(other) for square in _squares_of(area) for other in self._squares.get(square, ())):
                self.add([area])
                return area
        return None


def _squares_of(area: Area) -> Iterator[tuple[int, int]]:
    columns = range(int(area.left // _SQUARE), int(area.right // _SQUARE) + 1)
    rows = range(int(area.top // _SQUARE), int(area.bottom // _SQUARE) + 1)
    return product(columns, rows)


@dataclass(slots=True)
class Panel:
    """A panel between two axes.

    Attributes:
        scene: The elements, panes and watermarks to draw.
        times: The time domains of the axes.
        across: The horizontal axis.
        up: The vertical axis.
        show: Formats a value.
        numbers: Whether circles show the numbers of the elements, not their values.
    """

    scene: Scene
    times: AxisTimes
    across: Axis
    up: Axis
    show: Callable[[Any], str]
    numbers: bool
    _occupied: OccupiedAreas = field(default_factory=OccupiedAreas)

    @property
    def area(self) -> Area:
        """The area between the axes."""
        return Area(self.across.start, self.up.end, self.across.end, self.up.start)

    def draw(self) -> Iterator[str]:
        """Draws the parts of the panel, from the back to the front."""
        yield from self._axes()
        circles = list(self._circles())
        boxes = sorted(self.scene.boxes, key=lambda box: (box.top, box.rank))
        # Labels of boxes avoid each other and circles, and are drawn above all lines.
        placed = [(box, self._area_of(box)) for box in boxes]
        strips = [(box, self._strip(box)) for box in self.scene.withdrawals]
        watermark = self._watermark()
        self._occupied.add(Area(*map(min, one, other), *map(max, one, other)) for one, other in pairwise(watermark))
        strip_labels = [self._label(area, f"{_MINUS}{self.values_text(box.pane)}", 12) for box, area in strips]
        self._occupied.add(area for _, area in strips)
        areas = [area for _, area in placed]
        labels = [
            self._label(area, self.values_text(box.pane), 14, areas[:index] + areas[index + 1 :])
            for index, (box, area) in enumerate(placed)
        ]
        for box, area in placed:
            yield self._pane(box.pane, area, _TIMINGS[box.pane.pane.timing] if box.pane.pane else "fired")
        if watermark:
            yield element("path", {"class": "watermark", "d": _path(watermark)})
        for box, area in strips:
            yield self._pane(box.pane, area, "withdrawn")
        yield from (circle for _, _, circle in circles)
        if self.numbers:
            yield from self._values_beside([(point, area) for point, area, _ in circles])
        yield from labels
        yield from (f'<g class="withdrawn">{label}</g>' for label in strip_labels)

    # Axes and lines

    def _axes(self) -> Iterator[str]:
        area = self.area
        for at, label in self.across.ticks():
            yield element("line", {"class": "grid", "x1": at, "y1": area.top, "x2": at, "y2": area.bottom})
            yield _words(label, at, area.bottom + 16, "tick", "middle")
        for at, label in self.up.ticks():
            yield element("line", {"class": "grid", "x1": area.left, "y1": at, "x2": area.right, "y2": at})
            yield _words(label, area.left - 13, at + 4, "tick", "end")
        yield element("path", {"class": "frame", "d": _path([(area.left, area.top), (area.left, area.bottom)])})
        yield element("path", {"class": "frame", "d": _path([(area.left, area.bottom), (area.right, area.bottom)])})
        if self.shows_no_delay:
            first, last = max(self.across.low, self.up.low), min(self.across.high, self.up.high)
            ends = [(self.across.place(time), self.up.place(time)) for time in (first, last)]
            yield element("path", {"class": "no-delay", "d": _path(ends)})

    @property
    def shows_no_delay(self) -> bool:
        """Whether the panel contains times at which event time equals processing time, for a line of no delay."""
        if not self.times.by_clock or self.times.across_by_clock:
            return False
        return max(self.across.low, self.up.low) < min(self.across.high, self.up.high)

    def _watermark(self) -> list[tuple[float, float]]:
        """Returns the corners of the watermark's line, which has a step for each advance."""
        moves = self.scene.watermarks
        if not moves or self.times.across_by_clock:
            return []
        x, points = self.across.start, []
        for move in moves:
            y = self.up.place(self.times.up(move.moment))
            points.append((x, y))
            x = self.across.place(move.watermark)
            points.append((x, y))
        return [*points, (x, self.up.end)]

    # Panes

    def _edges(self, box: Box) -> tuple[float, float]:
        start, end = box.edges
        left = self.across.start if start is None else self.across.place(start)
        right = self.across.end if end is None else self.across.place(end)
        return left, max(right, left + 2)

    def _area_of(self, box: Box) -> Area:
        left, right = self._edges(box)
        top = self.up.place(box.top)
        bottom = top if box.bottom is None else self.up.place(box.bottom)
        if bottom - top < 2:
            bottom = min(top + _LEAST_BOX, self.up.start)
        height = (bottom - top) / box.ranks
        # Of panes that fired at the same time the last is on top.
        return Area(left, bottom - height * (box.rank + 1), right, bottom - height * box.rank)

    def _strip(self, box: Box) -> Area:
        left, right = self._edges(box)
        top = self.up.place(box.top)
        return Area(left, top, right, top + _STRIP)

    def _pane(self, pane: RecordedPane, area: Area, kind: str) -> str:
        # The rectangle is a little smaller, so that the outlines of neighbours stay apart.
        width, height = area.right - area.left - 2, area.bottom - area.top - 2
        rectangle = {"x": area.left + 1, "y": area.top + 1, "width": max(width, 1), "height": max(height, 1)}
        return element("g", {"class": f"pane {kind}"}, _title(self.pane_text(pane)), element("rect", {**rectangle}))

    def values_text(self, pane: RecordedPane) -> str:
        """Returns the results of a pane as text."""
        return ", ".join(map(self.show, pane.values)) if pane.values else "∅"

    def _label(self, area: Area, content: str, size: float, others: Sequence[Area] = ()) -> str:
        """Draws a label inside of ``area``, if possible outside of the other boxes, or else on none of their edges."""
        width = area.right - area.left
        label = shortened(content, max(6, int(width / (size * 0.58))))
        wide, tall = width_of(label, size), size * 1.05
        middle = (area.left + area.right - wide) / 2
        rows = [
            area.top + 2 + tall * 0.5 * step for step in range(max(1, int((area.bottom - area.top) / tall * 2) - 1))
        ]
        if area.bottom - area.top < tall + 3:
            rows = [(area.top + area.bottom - tall) / 2]
        columns = [middle, area.left + 5, area.right - wide - 5, middle - width / 4, middle + width / 4]
        candidates = [Area(x - 2, y, x + wide + 2, y + tall) for x in columns for y in rows]
        alone = [candidate for candidate in candidates if not any(candidate.covers(other) for other in others)]
        clear = [candidate for candidate in candidates if not any(candidate.crosses(other) for other in others)]
        chosen = self._occupied.choose([*alone, *clear, *candidates]) or candidates[0]
        return _words(label, (chosen.left + chosen.right) / 2, chosen.bottom - tall * 0.2, "value", "middle")

    # Elements

    def _circles(self) -> Iterator[tuple[Point, Area, str]]:
        radius = 9.0 if len(self.scene.points) < _MANY else 5.0
        for point in self.scene.points:
            x = self.across.start if point.across is None else self.across.place(point.across)
            y = self.up.place(point.up)
            steps = (0.0, 1.5 * radius, -1.5 * radius, 3 * radius, -3 * radius)
            areas = [Area(x + dx - radius, y - radius, x + dx + radius, y + radius) for dx in steps]
            # Circles may overlap a little; one that would hide another is moved sideways.
            cores = [_shrunk(area, 0.25) for area in areas]
            core = self._occupied.choose(cores) or cores[0]
            area = areas[cores.index(core)]
            self._occupied.add([area])
            yield point, area, self._circle(point.element, area, radius)

    def _circle(self, of: RecordedElement, area: Area, radius: float) -> str:
        kinds = ["element", *(["late"] if of.is_late else []), *(["dropped"] if of.is_dropped else [])]
        x, y = (area.left + area.right) / 2, (area.top + area.bottom) / 2
        shapes = [_title(self.element_text(of)), element("circle", {"cx": x, "cy": y, "r": radius})]
        if of.is_dropped:
            half = radius * 1.1
            ends = [(x - half, y + half), (x + half, y - half)]
            shapes.append(element("path", {"class": "cross", "d": _path(ends)}))
        inside = str(of.number) if self.numbers else shortened(self.show(of.value), 3)
        inside = f"{_MINUS}{inside}" if of.kind.is_withdrawal else inside
        if radius > 6 or len(inside) == 1:
            size = {} if len(inside) < 3 else {"style": f"font-size: {8 if len(inside) == 3 else 7}px"}
            shapes.append(element("text", {"class": "number", "x": x, "y": y + 3.5, **size}, text(inside)))
        return element("g", {"class": " ".join(kinds)}, *shapes)

    def _values_beside(self, circles: list[tuple[Point, Area]]) -> Iterator[str]:
        for point, area in circles:
            content = shortened(self.show(point.element.value), 14)
            wide, middle = width_of(content, 10), (area.top + area.bottom) / 2
            right = Area(area.right + 2, middle - 6, area.right + 2 + wide, middle + 6)
            left = Area(area.left - 2 - wide, middle - 6, area.left - 2, middle + 6)
            chosen = self._occupied.choose([each for each in (right, left) if self.area.contains(each)])
            if chosen is not None:
                yield _words(content, chosen.left, chosen.bottom - 2.5, "beside", "start")

    # Words

    def element_text(self, of: RecordedElement) -> str:
        """Returns the tooltip of an element."""
        stamp = "no timestamp" if of.timestamp is None else f"event time {self.across.labels.text(of.timestamp)}"
        note = "dropped" if of.is_dropped else "late" if of.is_late else ""
        note = f"{note}, withdrawn upstream".strip(", ") if of.kind.is_withdrawal else note
        arrived = self.up.labels.text(self.times.up(of.moment))
        lines = [f"element {of.number}: {self.show(of.value)}", stamp, f"arrived {arrived}", note]
        return "\n".join(line for line in lines if line)

    def pane_text(self, pane: RecordedPane) -> str:
        """Returns the tooltip of a pane."""
        counted = "" if pane.pane is None else f"pane {pane.pane.index}, {pane.pane.timing.value}"
        counted = f"withdrawal of {counted or 'a result'}" if pane.kind.is_withdrawal else counted
        lines = [self.values_text(pane), f"window {self.window_text(pane)}", f"at {self.at_text(pane)}", counted]
        return "\n".join(line for line in lines if line)

    def window_text(self, pane: RecordedPane) -> str:
        """Returns the window of a pane as text."""
        edges = (edge for edge in Edges.of(pane.window) if edge is not None)
        return window_text(pane.window, map(self.across.labels.text, edges))

    def at_text(self, pane: RecordedPane) -> str:
        """Returns the time at which a pane fired, as text."""
        return self.up.labels.text(self.times.up(pane.moment))


def _path(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def _words(content: str, x: float, y: float, kind: str, anchor: str) -> str:
    return element("text", {"class": kind, "x": x, "y": y, "text-anchor": anchor}, text(content))


def _title(content: str) -> str:
    return element("title", {}, text(content))


def _shrunk(area: Area, share: float) -> Area:
    dx, dy = (area.right - area.left) * share, (area.bottom - area.top) * share
    return Area(area.left + dx, area.top + dy, area.right - dx, area.bottom - dy)
