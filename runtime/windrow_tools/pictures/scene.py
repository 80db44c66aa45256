"""Arranges the recording of one key by two times: the horizontal and the vertical one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from windrow.windows import TimeWindow
from windrow_runtime.operators.recording import Moment, RecordedElement, RecordedPane, RecordedWatermark, StepRecording
from windrow_tools.pictures.axes import is_finite

# Any in this module: windows of every type.


class Edges(NamedTuple):
    """The first time of a window, and the first after it; None if a window has no such edge."""

    start: int | None
    end: int | None

    @classmethod
    def of(cls, window: Any) -> Edges:
        """Returns the edges of a window; those of users' own classes as far as they have the attributes."""
        start, end = getattr(window, "start", None), getattr(window, "end", None)
        if not isinstance(end, int):
            end = window.max_timestamp() + 1
        return cls(start if isinstance(start, int) and is_finite(start) else None, end if is_finite(end) else None)

    def hold(self, time: int) -> bool:
        """Returns whether a time is in the window."""
        return (self.start is None or self.start <= time) and (self.end is None or time < self.end)

    def enclose(self, other: Edges) -> bool:
        """Returns whether the other window lies inside of this one."""
        if None in self or other.start is None or other.end is None:
            return False
        return self.hold(other.start) and self.hold(other.end - 1)


class Point(NamedTuple):
    """An element with its horizontal and vertical time; ``across`` is None if it has no timestamp."""

    element: RecordedElement
    across: int | None
    up: int


@dataclass(frozen=True, slots=True)
class Box:
    """A pane with the times that its box covers.

    Attributes:
        pane: The pane.
        edges: The edges of its window.
        bottom: The time of the previous pane, or else of the first element; None if there is neither.
        top: The time at which the pane fired.
        rank: The index of the pane among those that one window fired at the same time.
        ranks: The number of these panes.
    """

    pane: RecordedPane
    edges: Edges
    bottom: int | None
    top: int
    rank: int = 0
    ranks: int = 1


@dataclass(frozen=True, slots=True)
class AxisTimes:
    """The times of a picture's axes: clock or order of arrival vertically, event time or clock horizontally."""

    by_clock: bool
    across_by_clock: bool

    @classmethod
    def of(cls, step: StepRecording, by: str | None) -> AxisTimes:
        """Chooses the times for a recording; ``by`` is the user's choice for the vertical axis."""
        elements = step.elements
        moments = [element.moment for element in elements]
        moments += [move.moment for move in step.watermarks]
        moments += [pane.moment for pane in step.panes]
        has_clock = all(moment.clock is not None for moment in moments)
        clocks = {element.moment.clock for element in elements}
        # By the clock, elements that came at the same time would lie in one line.
        tells = len(clocks) > 1 or len(elements) <= 1
        by_clock = has_clock and (by == "clock" or (by is None and tells))
        edges = [Edges.of(pane.window) for pane in step.panes]
        windows_by_clock = not step.is_event_time and any(None not in each for each in edges)
        stampless = bool(elements) and all(element.timestamp is None for element in elements)
        return cls(by_clock, has_clock and (windows_by_clock or stampless))

    def up(self, moment: Moment) -> int:
        """Returns the vertical time of a moment."""
        return moment.clock if self.by_clock and moment.clock is not None else moment.order

    def across(self, element: RecordedElement) -> int | None:
        """Returns the horizontal time of an element; None if it has none."""
        return element.moment.clock if self.across_by_clock else element.timestamp


@dataclass(frozen=True, slots=True)
class Scene:
    """The contents of a panel, which shows one key of a step.

    Attributes:
        key: The key.
        points: Its elements.
        boxes: Its panes.
        withdrawals: The withdrawals of its panes, as boxes.
        watermarks: The advances of the watermark, which all keys share.
    """

    key: Hashable
    points: tuple[Point, ...]
    boxes: tuple[Box, ...]
    withdrawals: tuple[Box, ...]
    watermarks: tuple[RecordedWatermark, ...]

    @classmethod
    def of(cls, step: StepRecording, key: Hashable, times: AxisTimes) -> Scene:
        """Returns the scene of a key."""
        points = tuple(
            Point(element, times.across(element), times.up(element.moment))
            for element in step.elements
            if _is_same(element.key, key)
        )
        panes = [pane for pane in step.panes if _is_same(pane.key, key)]
        results = [pane for pane in panes if not pane.kind.is_withdrawal]
        withdrawals = [pane for pane in panes if pane.kind.is_withdrawal]
        boxes = tuple(_boxes(results, points, times, merging=step.is_merging))
        taken_back = tuple(Box(pane, Edges.of(pane.window), None, times.up(pane.moment)) for pane in withdrawals)
        return cls(key, points, boxes, taken_back, step.watermarks)

    def times_across(self) -> Iterator[int]:
        """Yields the times that the horizontal axis must contain."""
        for point in self.points:
            if point.across is not None and is_finite(point.across):
                yield point.across
        for box in (*self.boxes, *self.withdrawals):
            yield from (edge for edge in box.edges if edge is not None)

    def times_up(self, times: AxisTimes) -> Iterator[int]:
        """Yields the times that the vertical axis must contain."""
        yield from (point.up for point in self.points)
        yield from (box.top for box in (*self.boxes, *self.withdrawals))
        yield from (times.up(move.moment) for move in self.watermarks)


def _is_same(one: Hashable, other: Hashable) -> bool:
    """Returns whether two keys are equal, or the same NaN: the engine makes all NaNs one object."""
    return one is other or one == other


def keys_of(step: StepRecording) -> list[Hashable]:
    """Returns the keys of a recording, in order of arrival."""
    return list(dict.fromkeys([element.key for element in step.elements] + [pane.key for pane in step.panes]))


def window_text(window: Any, times: Iterable[str]) -> str:
    """Returns a window as text; ``times`` are the texts of its edges, if it has both."""
    edges = list(times)
    if isinstance(window, TimeWindow) and len(edges) == 2:
        return f"{edges[0]} to {edges[1]}"
    return "all time" if Edges.of(window) == (None, None) else str(window)


def _boxes(panes: list[RecordedPane], points: tuple[Point, ...], times: AxisTimes, *, merging: bool) -> Iterator[Box]:
    at_once = Counter((pane.window, times.up(pane.moment)) for pane in panes)
    before: list[tuple[Any, Edges, int]] = []
    ranks: Counter[tuple[Any, int]] = Counter()
    for pane in panes:
        edges, top = Edges.of(pane.window), times.up(pane.moment)
        earlier = [
            other_top
            for window, other, other_top in before
            if other_top < top and (window == pane.window or (merging and edges.enclose(other)))
        ]
        came = [
            point.up
            for point in points
            if not point.element.is_dropped
            and point.across is not None
            and point.up <= top
            and edges.hold(point.across)
        ]
        bottom = max(earlier, default=min(came, default=None))
        yield Box(pane, edges, bottom, top, ranks[pane.window, top], at_once[pane.window, top])
        ranks[pane.window, top] += 1
        before.append((pane.window, edges, top))
