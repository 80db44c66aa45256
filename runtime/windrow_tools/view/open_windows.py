"""Finds the windows that a watermark leaves open, from the plan alone: no state is looked into."""

from __future__ import annotations

from typing import Final

from windrow.plan import Node, Step, WindowNode
from windrow.windows import (
    CalendarWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowStagger,
)
from windrow_tools.view.snapshot import OpenWindows

_MOST_SPANS: Final = 40
_MOST_UNITS: Final = 10_000


def open_windows(step: Step, watermark: int | None) -> OpenWindows | None:
    """Returns the windows that can have elements under a watermark, up to the highest timestamp that led to it.

    None where the plan does not tell them: without a watermark, without windows in event time of fixed places or gaps,
    or where a watermark does not tell the highest timestamp, since a generator of the user's makes it.
    """
    node = step.node.windows
    if watermark is None or node is None:
        return None
    delay = _delay_of(node)
    if delay is None:
        return None
    newest = watermark + delay + 1
    # A window is there until the watermark reaches its last timestamp and the allowed lateness.
    lateness = node.allowed_lateness or 0
    assigner = node.assigner
    if isinstance(assigner, EventTimeSessionWindows):
        first, last = watermark - lateness - assigner.gap + 2, newest + assigner.gap
        return OpenWindows(step.id, watermark, newest, first, last, (), None)
    if isinstance(assigner, CalendarWindows):
        return _in_calendar(step, assigner, watermark, newest, lateness)
    if isinstance(assigner, TumblingEventTimeWindows):
        if assigner.stagger is not WindowStagger.ALIGNED:
            return None  # each task shifts them by itself
        size, slide, offset = assigner.size, assigner.size, assigner.offset
    elif isinstance(assigner, SlidingEventTimeWindows):
        size, slide, offset = assigner.size, assigner.slide, assigner.offset
    else:
        return None
    first = -((offset - (watermark - lateness - size + 2)) // slide) * slide + offset  # rounded up
    latest = newest - (newest - offset) % slide
    number = max((latest - first) // slide + 1, 0)
    if not number:
        return None
    starts = range(first, latest + 1, slide) if number <= _MOST_SPANS else ()
    spans = tuple((start, start + size) for start in starts)
    return OpenWindows(step.id, watermark, newest, first, latest + size, spans, number)


def _in_calendar(
    step: Step, assigner: CalendarWindows, watermark: int, newest: int, lateness: int
) -> OpenWindows | None:
    calendar, units, slide = assigner.calendar, assigner.units, assigner.slide_units
    first = calendar.number_of(watermark - lateness + 1) - units + 1
    numbers = range(first + -first % slide, calendar.number_of(newest) + 1, slide)
    if not numbers or len(numbers) > _MOST_UNITS:
        return None
    bounds = [(calendar.start_of(number), calendar.start_of(number + units)) for number in numbers]
    # Of those that begin together, all but the last begin with a unit that does not exist.
    spans = tuple(span for span, after in zip(bounds, [*bounds[1:], (None, None)], strict=True) if span[0] != after[0])
    shown = spans if len(spans) <= _MOST_SPANS else ()
    return OpenWindows(step.id, watermark, newest, spans[0][0], spans[-1][1], shown, len(spans))


def _delay_of(node: WindowNode) -> int | None:
    """Returns how far a watermark is behind the highest timestamp; None: it is not known, or not the same for all."""
    delays: set[int | None] = set()
    upstream: list[Node] = [node]
    while upstream:
        for each in upstream.pop().inputs:
            if each.makes_watermarks is None:
                upstream.append(each)
            else:
                delays.add(each.makes_watermarks.out_of_orderness)
    return delays.pop() if len(delays) == 1 else None
