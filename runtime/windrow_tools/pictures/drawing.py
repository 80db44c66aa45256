"""Draws the recording of a window step as the Dataflow paper draws its figures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

from windrow.drawing.svg import element, number, shortened, text, width_of, wrapped
from windrow.errors import InvalidArgumentError
from windrow_runtime.operators.recording import Recording, StepRecording
from windrow_tools.pictures.axes import Axis
from windrow_tools.pictures.panel import Panel
from windrow_tools.pictures.picture import LEAST_WIDTH, Timeline, checked_input, page, whole
from windrow_tools.pictures.scene import AxisTimes, Scene, keys_of

# Any in this module: values of every type.


class _Keys(Enum):
    EVERY = "every key"


EVERY_KEY: Final = _Keys.EVERY
"""Stands for all keys, since None is the key of a stream without keys."""

MOST_PANELS: Final = 12
"""The most panels of a picture; :func:`timeline` draws the keys that came first, and says so."""

_LEFT, _RIGHT = 98.0, 40.0
_ROW: Final = 22.0
_GAP: Final = 22.0
_SAMPLE: Final = 24.0


LEAST_HEIGHT: Final = 60


def _check_one_of(name: str, value: object, expected: Sequence[object]) -> None:
    if value not in expected:
        raise InvalidArgumentError(f"there is no such {name}", given=value, expected=" or ".join(map(repr, expected)))


def timeline(
    recording: Recording,
    *,
    key: Hashable = EVERY_KEY,
    step: str | None = None,
    title: str | None = None,
    width: int = 760,
    height: int | None = None,
    values: Callable[[Any], str] = str,
    circles: Literal["number", "value"] = "number",
    by: Literal["clock", "order"] | None = None,
) -> Timeline:
    """Draws a recording: event time across, processing time up.

    Elements are circles, the watermark is a line, and each pane is a box: as wide as its window, and from the pane
    before, or the first element, up to the time at which it came out. Each key has a panel of its own.

    Args:
        recording: What ``StreamHarness(..., record=True).recording`` or ``LocalRunner(record=True).run(...).recording``
            has.
        key: The only key to draw; by default all keys.
        step: The id of the window step, if there are several.
        title: A title.
        width: The width of the picture in pixels.
        height: The height of a panel in pixels; by default as high as its elements need.
        values: Makes a text of an element, and of a result.
        circles: Whether circles hold the number of their element, in order of arrival, or its value.
        by: Whether processing time is that of the clock, or the order in which elements and watermarks came; by
            default the clock, unless it was not set or all elements came at once.

    Raises:
        InvalidArgumentError: If there is no such step or no such key, ``by`` asks for a clock that was not set, or an
            argument is none of those above.

    Example:
        >>> from datetime import timedelta
        >>> from windrow import from_source
        >>> from windrow.windows import TumblingEventTimeWindows
        >>> from windrow_runtime.testing import PushSource, StreamHarness
        >>> numbers = PushSource(int)
        >>> sums = (
        ...     from_source(numbers)
        ...     .key_by(lambda number: "all")
        ...     .window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
        ...     .reduce(lambda a, b: a + b)
        ... )
        >>> with StreamHarness(sums, numbers, record=True) as harness:
        ...     harness.process_element(1, timestamp=100)
        ...     harness.process_element(3, timestamp=200)
        ...     harness.process_watermark(999)
        >>> picture = timeline(harness.recording, title="Sums")
        >>> picture
        Timeline('Sums', ... characters of SVG)
    """
    _check_one_of("circles", circles, ("number", "value"))
    _check_one_of("by", by, (None, "clock", "order"))
    for name, pixels, least in (("width", width, LEAST_WIDTH), ("height", height, LEAST_HEIGHT)):
        if pixels is not None and pixels < least:
            raise InvalidArgumentError(f"the {name} is too small", given=pixels, expected=f"at least {least} pixels")
    show = checked_input(recording, values)
    recorded = recording.of(step)
    times = AxisTimes.of(recorded, by)
    if by == "clock" and not times.by_clock:
        raise InvalidArgumentError(
            "the clock was not set all the time", expected="by='order'", hint="StreamHarness.set_processing_time first"
        )
    keys = keys_of(recorded)
    if key is not EVERY_KEY and key not in keys:
        raise InvalidArgumentError("no element has the key", given=key, expected=shortened(repr(keys), 200))
    chosen = keys if key is EVERY_KEY else [key]
    words = f"Timeline of {recorded.name}" if title is None else title
    scenes = [Scene.of(recorded, each, times) for each in chosen[:MOST_PANELS]]
    drawing = _Drawing(recorded, times, scenes, width, height, show, circles == "number")
    return drawing.timeline(words, title, len(chosen) - len(scenes))


@dataclass(slots=True)
class _Drawing:
    """Arranges the panels of a picture below each other."""

    step: StepRecording
    times: AxisTimes
    scenes: Sequence[Scene]
    width: float
    height: float | None
    show: Callable[[Any], str]
    numbers: bool

    def timeline(self, words: str, title: str | None, left_out: int) -> Timeline:
        shapes: list[str] = []
        y = 12.0
        for line in wrapped(title or "", self.width - 28, 15):
            y += 20
            shapes.append(element("text", {"class": "title", "x": 14.0, "y": y - 4}, text(line)))
        panels: list[Panel] = []
        shows_keys = len(keys_of(self.step)) > 1
        for scene in self.scenes:
            if shows_keys:
                y += 18
                label = f"key {shortened(repr(scene.key), 80)}"
                shapes.append(element("text", {"class": "key", "x": _LEFT, "y": y - 2}, text(label)))
            panel, y = self._panel(scene, y + 10)
            panels.append(panel)
            shapes.append(element("g", {"class": "panel"}, *panel.draw()))
            shapes += self._axis_titles(panel)
        if left_out:
            y += 20
            words_left = f"{left_out} more {'key' if left_out == 1 else 'keys'}, not drawn; key=... chooses one"
            shapes.append(element("text", {"class": "note", "x": _LEFT, "y": y - 4}, text(words_left)))
        high, entries = _legend(panels, _LEFT, self.width - _RIGHT, y + 6)
        svg = whole(words, [*shapes, *entries], self.width, y + high + 14)
        return Timeline(words, svg, page(words, svg, *_table_of(panels, shows_keys=shows_keys)))

    def _panel(self, scene: Scene, top: float) -> tuple[Panel, float]:
        """Returns a panel, and the coordinate of its lower end, with labels."""
        # By the clock, all panels have the same vertical axis.
        scenes = self.scenes if self.times.by_clock else [scene]
        upwards = [time for each in scenes for time in each.times_up(self.times)]
        height = self.height
        if height is None:
            rows = len(set(upwards))
            height = (
                min(max(20.0 * rows, 240.0), 640.0) if not self.times.by_clock else min(340.0, max(240.0, 30.0 * rows))
            )
        bottom = top + height
        across = Axis.over((time for each in self.scenes for time in each.times_across()), _LEFT, self.width - _RIGHT)
        up = Axis.over(upwards, bottom, top)
        return Panel(scene, self.times, across, up, self.show, self.numbers), bottom + 40

    def _axis_titles(self, panel: Panel) -> list[str]:
        area = panel.area
        across = "processing time" if self.times.across_by_clock else "event time"
        across += panel.across.labels.unit(panel.across.low, panel.across.high)
        up = "processing time" if self.times.by_clock else "order of arrival"
        if panel.up.labels.unit(panel.up.low, panel.up.high) not in across:
            up += panel.up.labels.unit(panel.up.low, panel.up.high)
        x, y = (area.left + area.right) / 2, (area.top + area.bottom) / 2
        turned = f"rotate(-90 {number(16)} {number(y)})"
        middle = {"class": "axis", "text-anchor": "middle"}
        return [
            element("text", {**middle, "x": x, "y": area.bottom + 34}, text(across)),
            element("text", {**middle, "x": 16.0, "y": y + 4, "transform": turned}, text(up)),
        ]


def _legend(panels: Sequence[Panel], left: float, right: float, top: float) -> tuple[float, list[str]]:
    """Returns the height of the legend, which explains the outlines that a picture has, and its parts."""
    x, y, shapes = left, top, list[str]()
    for kind, words in _entries(panels):
        width = _SAMPLE + 6 + width_of(words, 11)
        if x > left and x + width > right:
            x, y = left, y + _ROW
        middle = y + _ROW / 2
        label = element("text", {"class": "note", "x": x + _SAMPLE + 6, "y": middle + 4}, text(words))
        shapes.append(element("g", {"class": "legend"}, _sample(kind, x, middle), label))
        x += width + _GAP
    return (y + _ROW - top if shapes else 0.0), shapes


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


def _table_of(panels: Sequence[Panel], *, shows_keys: bool) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Returns the headings and rows of a table of panes, in the order in which they fired."""
    heads = ["key"] * shows_keys + ["window", "at", "timing", "change", "result"]
    rows: list[Sequence[str]] = []
    for panel in panels:
        # Withdrawals are sorted among the panes, next to those that replace the withdrawn results.
        boxes = sorted([*panel.scene.withdrawals, *panel.scene.boxes], key=lambda box: box.pane.moment.order)
        for pane in (box.pane for box in boxes):
            cells = [repr(panel.scene.key)] * shows_keys
            cells += [panel.window_text(pane), panel.at_text(pane), pane.pane.timing.value if pane.pane else ""]
            rows.append([*cells, pane.kind.value, panel.values_text(pane)])
    return heads, rows
