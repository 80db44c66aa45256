"""Draws the inputs and results of a step without windows: a lane for each input stream, and one for results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from windrow.drawing.svg import element, shortened, text, width_of, wrapped
from windrow.errors import InvalidArgumentError
from windrow_runtime.operators.errors import misuse
from windrow_runtime.operators.recording import Lane, ProcessRecording, RecordedEvent, Recording
from windrow_tools.pictures.axes import Labels, is_finite
from windrow_tools.pictures.picture import LEAST_WIDTH, Timeline, checked_input, page, whole

# Any in this module: values of every type.

MOST_EVENTS: Final = 60
"""The most events of a picture; :func:`lanes` draws those that came first, and says so."""

_RIGHT: Final = 14.0
_LEAST_COLUMN: Final = 52.0
_BOLD: Final = 13.2
"""The size of plain letters that are as wide as bold ones of 12 pixels."""

_LINE: Final = 15.0
_NOTE: Final = 10.0
_TIMES: Final = (Lane.WATERMARK, Lane.CLOCK)
_RESULTS: Final = "results"


def lanes(
    recording: Recording,
    *,
    step: str | None = None,
    title: str | None = None,
    width: int = 760,
    values: Callable[[Any], str] = str,
    names: Mapping[Lane, str] | None = None,
) -> Timeline:
    """Draws the elements of a keyed step without windows, in order from left to right, and the results of each.

    Each input stream of the step has a lane; so have the advances of the watermark, and those of the clock that led to
    results. Below each box stands the timestamp of the element, and its key if there are several.

    Args:
        recording: What ``StreamHarness(..., record=True).recording`` or ``LocalRunner(record=True).run(...).recording``
            has.
        step: The id of the step, if there are several without windows.
        title: A title.
        width: The width of the picture in pixels; it is wider where the events need more.
        values: Makes a text of an element, and of a result.
        names: What to call lanes; by default what they are, such as "first stream".

    Raises:
        InvalidArgumentError: If there is no such step, ``names`` has a lane that the step has not, ``values`` makes no
            text, or the width is too small.

    Example:
        >>> from windrow import from_source
        >>> from windrow_runtime.testing import PushSource, StreamHarness
        >>> numbers = PushSource(int)
        >>> highest = from_source(numbers).key_by(lambda n: "all").max(lambda n: n)
        >>> with StreamHarness(highest, numbers, record=True) as harness:
        ...     harness.process_element(1, timestamp=100)
        ...     harness.process_element(3, timestamp=200)
        >>> lanes(harness.recording, title="Highest")
        Timeline('Highest', ... characters of SVG)
    """
    if width < LEAST_WIDTH:
        raise InvalidArgumentError("the width is too small", given=width, expected=f"at least {LEAST_WIDTH} pixels")
    show = checked_input(recording, values)
    process = recording.of_process(step)
    named = {*process.lanes, *_TIMES}
    unknown = [lane for lane in names or () if lane not in named]
    if unknown:
        raise misuse(
            "the picture has no such lane",
            given=", ".join(map(str, unknown)),
            expected=f"lanes of {', '.join(str(lane) for lane in Lane if lane in named)}",
        )
    words = f"Lanes of {process.name}" if title is None else title
    return _Drawing.of(process, width, show, names or {}).timeline(words, title)


@dataclass(frozen=True, slots=True)
class _Box:
    """A box of a lane: the lines in it, the notes below it, and its tooltip."""

    lines: Sequence[str]
    notes: Sequence[str]
    title: str

    @property
    def height(self) -> float:
        return _LINE * len(self.lines) + 6 + (_NOTE + 2) * len(self.notes)


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Arranges events in columns, and their boxes in lanes."""

    events: Sequence[RecordedEvent]
    left_out: int
    rows: Mapping[Lane | str, str]
    left: float
    column: float
    show: Callable[[Any], str]
    stamps: Labels
    clock: Labels
    shows_keys: bool

    @classmethod
    def of(
        cls, step: ProcessRecording, width: float, show: Callable[[Any], str], names: Mapping[Lane, str]
    ) -> _Drawing:
        """Returns the drawing of a step that is ``width`` wide, or as wide as the events need."""
        events = step.events[:MOST_EVENTS]
        seen = {event.lane for event in events}
        rows: dict[Lane | str, str] = {
            lane: names.get(lane, lane.value) for lane in (*step.lanes, *_TIMES) if lane in step.lanes or lane in seen
        }
        rows[_RESULTS] = _RESULTS
        left = 24 + max(width_of(name, 13) for name in rows.values())
        times = [event.timestamp for event in events] + [
            event.value for event in events if event.lane is Lane.WATERMARK and is_finite(event.value)
        ]
        keys = [event.key for event in events if event.lane not in (*_TIMES, Lane.BROADCAST)]
        return cls(
            events=events,
            left_out=len(step.events) - len(events),
            rows=rows,
            left=left,
            column=max(_LEAST_COLUMN, (width - left - _RIGHT) / max(len(events), 1)),
            show=show,
            stamps=Labels.of(time for time in times if time is not None),
            clock=Labels.of(event.moment.clock for event in events if event.moment.clock is not None),
            shows_keys=any(key != keys[0] for key in keys),
        )

    @property
    def right(self) -> float:
        """The coordinate of the lanes' right end."""
        return self.left + self.column * max(len(self.events), 1)

    def timeline(self, words: str, title: str | None) -> Timeline:
        """Draws the picture."""
        shapes: list[str] = []
        y = 12.0
        for line in wrapped(title or "", self.right - 28, 15):
            y += 20
            shapes.append(element("text", {"class": "title", "x": 14.0, "y": y - 4}, text(line)))
        boxes = [self._boxes(event) for event in self.events]
        tops: dict[Lane | str, float] = {}
        grid: list[str] = []
        y += 10
        for row, name in self.rows.items():
            height = max([_LINE + 5, *(sum(each.height + 3 for each in own.get(row, ())) for own in boxes)]) + 11
            tops[row] = y + 7
            grid.append(element("text", {"class": "key", "x": 14.0, "y": y + 22}, text(name)))
            y += height
            grid.append(element("line", {"class": "grid", "x1": 14.0, "y1": y, "x2": self.right, "y2": y}))
        for index, (event, own) in enumerate(zip(self.events, boxes, strict=True)):
            middle = self.left + self.column * (index + 0.5)
            shapes.append(element("g", {"class": "event"}, *self._column(event, own, middle, tops)))
        if any(event.moment.clock is not None for event in self.events):
            y += 18
            shapes += self._clock(y)
        if self.left_out:
            y += 20
            words_left = f"{self.left_out} more {'event' if self.left_out == 1 else 'events'}, not drawn"
            shapes.append(element("text", {"class": "note", "x": self.left, "y": y - 4}, text(words_left)))
        svg = whole(words, [*grid, *shapes], self.right + _RIGHT, y + 14)
        return Timeline(words, svg, page(words, svg, ["lane", "key", "element", "time", "results"], self._table()))

    def _boxes(self, event: RecordedEvent) -> dict[Lane | str, list[_Box]]:
        """Returns the boxes of an event by lane: its own, and those of the results."""
        if event.lane in _TIMES:
            labels = self.stamps if event.lane is Lane.WATERMARK else self.clock
            content = self._time(event.value, labels)
            own = self._box(content, [], f"{event.lane.value} {content}")
        else:
            content = self.show(event.value)
            stamp = [] if event.timestamp is None else [self._time(event.timestamp, self.stamps)]
            key = [f"key {event.key!r}"] if self.shows_keys and event.lane is not Lane.BROADCAST else []
            title = "\n".join([content, *(f"event time {each}" for each in stamp), *key])
            own = self._box(content, [*stamp, *key], title)
        results = [self._box(each, [], each) for each in map(self.show, event.results)]
        return {event.lane: [own], _RESULTS: results}

    def _box(self, content: str, notes: Sequence[str], title: str) -> _Box:
        room = self.column - 16
        most_in_line = max(3, int(room / (_BOLD * 0.58)))
        lines = [shortened(line, most_in_line) for line in wrapped(content, room, _BOLD)]
        most = max(3, int((self.column - 4) / (_NOTE * 0.58)))
        return _Box(lines or ["''"], [shortened(note, most) for note in notes], title)

    def _column(
        self,
        event: RecordedEvent,
        boxes: Mapping[Lane | str, Sequence[_Box]],
        middle: float,
        tops: Mapping[Lane | str, float],
    ) -> Iterator[str]:
        """Draws one event. Nothing else is in its column, so that its arrow crosses no other box."""
        (own,) = boxes[event.lane]
        if boxes[_RESULTS]:
            start, end = tops[event.lane] + own.height + 2, tops[_RESULTS] - 1
            yield element("path", {"class": "arrow", "d": f"M{middle:.1f} {start:.1f}L{middle:.1f} {end:.1f}"})
            head = f"M{middle - 4:.1f} {end - 6:.1f}L{middle:.1f} {end:.1f}L{middle + 4:.1f} {end - 6:.1f}"
            yield element("path", {"class": "arrow", "d": head})
        kind = "time" if event.lane in _TIMES else event.lane.name.lower()
        yield self._drawn(own, kind, middle, tops[event.lane])
        y = tops[_RESULTS]
        for box in boxes[_RESULTS]:
            yield self._drawn(box, "result", middle, y)
            y += box.height + 3

    def _drawn(self, box: _Box, kind: str, middle: float, top: float) -> str:
        wide = min(self.column - 4, max(width_of(line, _BOLD) for line in box.lines) + 10)
        high = _LINE * len(box.lines) + 5
        frame: dict[str, str | float] = {"x": middle - wide / 2, "y": top, "width": wide, "height": high, "rx": 4.0}
        centred: dict[str, str | float] = {"text-anchor": "middle", "x": middle}
        lines = [
            element("text", {"class": "line", **centred, "y": top + _LINE * index + 14}, text(line))
            for index, line in enumerate(box.lines)
        ]
        notes = [
            element("text", {"class": "beside", **centred, "y": top + high + (_NOTE + 2) * (index + 1) - 1}, text(note))
            for index, note in enumerate(box.notes)
        ]
        return element(
            "g", {"class": f"box {kind}"}, element("title", {}, text(box.title)), element("rect", frame), *lines, *notes
        )

    def _clock(self, y: float) -> Iterator[str]:
        """Draws the processing time of the columns in which it has changed."""
        yield element("text", {"class": "axis", "x": 14.0, "y": y - 4}, text("processing time"))
        before, free = None, self.left
        for index, event in enumerate(self.events):
            now = event.moment.clock
            if now is None or now == before:
                continue
            label, middle = self._time(now, self.clock), self.left + self.column * (index + 0.5)
            half = width_of(label, 11) / 2
            # A label without room is left out, as on an axis.
            if middle - half >= free:
                yield element("text", {"class": "tick", "x": middle, "y": y - 4, "text-anchor": "middle"}, text(label))
                before, free = now, middle + half + 8

    def _time(self, time: int, labels: Labels) -> str:
        if not is_finite(time):
            return "end" if time > 0 else "none"
        return labels.text(time)

    def _table(self) -> list[list[str]]:
        """Returns the rows of the table below the picture."""
        return [
            [
                self.rows[event.lane],
                "" if event.lane in (*_TIMES, Lane.BROADCAST) else repr(event.key),
                "" if event.lane in _TIMES else self.show(event.value),
                self._time(event.value, self.stamps if event.lane is Lane.WATERMARK else self.clock)
                if event.lane in _TIMES
                else ("" if event.timestamp is None else self._time(event.timestamp, self.stamps)),
                ", ".join(map(self.show, event.results)),
            ]
            for event in self.events
        ]
