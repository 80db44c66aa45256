"""Assigners from JSON, and the user-defined ones that some cases need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from tests.conformance.cases import AnyWindow, CaseError, Fields, Json, decode, encode, to_window
from tests.conformance.elements import Element
from windrow.triggers import EventTimeTrigger, ProcessingTimeTrigger
from windrow.windows import (
    AssignerContext,
    EventTimeSessionWindows,
    GlobalWindows,
    Merge,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
    merge_time_windows,
)


def millis(fields: Fields, name: str, default: int | None = None) -> timedelta:
    """A duration of a case."""
    value = fields.integer(name, default)
    try:
        return timedelta(milliseconds=value)
    except OverflowError:
        # 2.7 million years are as good as for ever, which windrow writes as timedelta.max.
        return timedelta.max if value > 0 else timedelta.min


# Any: the type of the windows is known only when the case is read.
def build_assigner(fields: Fields) -> WindowAssigner[Element, Any]:
    """The assigner that ``fields`` describe."""
    kind = fields.text("type")
    if kind not in _BUILDERS:
        raise CaseError(f"unknown assigner {kind!r}")
    assigner = _BUILDERS[kind](fields)
    fields.done()
    return assigner


def _tumbling(kind: Any, fields: Fields) -> WindowAssigner[Element, Any]:
    stagger = stagger_of(fields.text("stagger", "aligned"))
    assigner: WindowAssigner[Element, Any]
    assigner = kind.of(millis(fields, "size_ms"), millis(fields, "offset_ms", 0), stagger)
    return assigner


def _sliding(kind: Any, fields: Fields) -> WindowAssigner[Element, Any]:
    assigner: WindowAssigner[Element, Any]
    assigner = kind.of(millis(fields, "size_ms"), millis(fields, "slide_ms"), millis(fields, "offset_ms", 0))
    return assigner


def _scripted(fields: Fields) -> WindowAssigner[Element, AnyWindow]:
    event_time = fields.flag("event_time")
    return ScriptedMergingWindows(event_time) if fields.flag("merging") else ScriptedWindows(event_time)


def stagger_of(mode: str) -> WindowStagger:
    """The mode that has this name."""
    try:
        return WindowStagger(mode)
    except ValueError:
        raise CaseError(f"unknown stagger {mode!r}") from None


class _Gaps:
    """The gap of an element: by key and value, else the default of the key."""

    def __init__(self, gaps: Fields) -> None:
        self._gaps = {key: dict(gaps.fields(key).data) for key in gaps.data}

    def __call__(self, element: Element) -> timedelta:
        by_value = self._gaps.get(_name(element.key))
        if by_value is None:
            raise CaseError(f"no gap is given for key {element.key}")
        gap = by_value.get(_name(element.value), by_value.get("default"))
        if isinstance(gap, bool) or not isinstance(gap, (int, float)):
            raise CaseError(f"no gap is given for key {element.key}, value {element.value}")
        return timedelta(milliseconds=gap)


def _name(text: str) -> str:
    """A JSON value as the name of a field."""
    value = decode(text)
    return value if isinstance(value, str) else text


class PointSessions(MergingWindowAssigner[Element, TimeWindow]):
    """Sessions in event time in which elements of one value open an empty window."""

    def __init__(self, gap: timedelta, point_value: Json) -> None:
        self._sessions = EventTimeSessionWindows.with_gap(gap)
        self._point = encode(point_value)

    def assign_windows(self, element: Element, timestamp: int, context: AssignerContext) -> Collection[TimeWindow]:
        if element.value == self._point:
            return [TimeWindow(timestamp, timestamp)]
        return self._sessions.assign_windows(element, timestamp, context)

    def merge_windows(self, windows: Collection[TimeWindow]) -> list[Merge[TimeWindow]]:
        return merge_time_windows(windows)

    def default_trigger(self) -> EventTimeTrigger:
        return EventTimeTrigger.create()

    @property
    def is_event_time(self) -> bool:
        return True


class ScriptedWindows(WindowAssigner[Element, AnyWindow]):
    """Gives each element the windows that it carries."""

    def __init__(self, event_time: bool) -> None:
        self._event_time = event_time

    def assign_windows(self, element: Element, timestamp: int, context: AssignerContext) -> Collection[AnyWindow]:
        windows = element.part("windows")
        if not isinstance(windows, list):
            raise CaseError("an element for a scripted assigner carries windows")
        return [to_window(window) for window in windows]

    def default_trigger(self) -> EventTimeTrigger | ProcessingTimeTrigger:
        return EventTimeTrigger.create() if self._event_time else ProcessingTimeTrigger.create()

    @property
    def is_event_time(self) -> bool:
        return self._event_time


class ScriptedMergingWindows(ScriptedWindows, MergingWindowAssigner[Element, AnyWindow]):
    """As :class:`ScriptedWindows`; merges what the element that is being added says."""

    def __init__(self, event_time: bool) -> None:
        super().__init__(event_time)
        self._merges: list[Merge[AnyWindow]] = []

    def assign_windows(self, element: Element, timestamp: int, context: AssignerContext) -> Collection[AnyWindow]:
        # Windows are merged while the element is being added, so this is not kept from element to element.
        self.answer(element.part("merges"))
        return super().assign_windows(element, timestamp, context)

    def answer(self, merges: Json) -> None:
        """Merge by ``merges`` from now on."""
        answers = Fields({"merges": merges or []}, "step").all_fields("merges")
        self._merges = [Merge(answer.window("into"), answer.windows("from")) for answer in answers]
        for answer in answers:
            answer.done()

    def merge_windows(self, windows: Collection[AnyWindow]) -> list[Merge[AnyWindow]]:
        present = set(windows)
        return [merge for merge in self._merges if present.issuperset(merge.sources)]


_BUILDERS: Mapping[str, Callable[[Fields], WindowAssigner[Element, Any]]] = {
    "tumbling_event_time": partial(_tumbling, TumblingEventTimeWindows),
    "tumbling_processing_time": partial(_tumbling, TumblingProcessingTimeWindows),
    "sliding_event_time": partial(_sliding, SlidingEventTimeWindows),
    "sliding_processing_time": partial(_sliding, SlidingProcessingTimeWindows),
    "event_time_session": lambda fields: EventTimeSessionWindows.with_gap(millis(fields, "gap_ms")),
    "processing_time_session": lambda fields: ProcessingTimeSessionWindows.with_gap(millis(fields, "gap_ms")),
    "dynamic_event_time_session": lambda fields: EventTimeSessionWindows.with_dynamic_gap(_Gaps(fields.fields("gaps"))),
    "dynamic_processing_time_session": lambda fields: ProcessingTimeSessionWindows.with_dynamic_gap(
        _Gaps(fields.fields("gaps"))
    ),
    "point_session": lambda fields: PointSessions(millis(fields, "gap_ms"), fields.raw("point_value")),
    "global": lambda fields: GlobalWindows.create(),
    "global_end_of_stream": lambda fields: GlobalWindows.create_with_end_of_stream_trigger(),
    "scripted": _scripted,
}
