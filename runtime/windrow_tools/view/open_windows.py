"""Finds the windows that a watermark leaves open, from the plan alone: no state is looked into."""

from __future__ import annotations

from typing import Final

from windrow.plan import Node, Step, WindowNode
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows, WindowStagger
from windrow_tools.view.snapshot import OpenWindows

__all__ = ["open_windows"]

_MOST_SPANS: Final = 40


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
