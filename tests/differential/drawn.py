"""What several kinds of random steps draw alike, and what they ask of a stream before."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.differential import functions as f
from tests.spark.comparison import Event, millis
from windrow import DataStream, OutputTag
from windrow.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from windrow.plan import Node, WindowNode
from windrow.windows import GlobalWindows

# Any in this module: elements of every type, and windows of every kind.

LATE = OutputTag("late", Event)

FILTERS: tuple[Callable[[Event], bool], ...] = (
    lambda event: event.value > 20,
    lambda event: event.key != "b",
    lambda event: event.value % 5 != 2,
)
"""Filters whose plain comparisons are columns."""


def offset(chance: random.Random, below: int) -> timedelta:
    return millis(chance.choice([0, chance.randrange(1 - below, below)]))


def with_late(chance: random.Random, windows: Any, share: float = 0.5) -> tuple[Any, bool]:
    """Windows of event time, maybe with lateness, and a share of them with an output of late elements; and whether."""
    late = chance.random() < share
    if late:
        windows = windows.side_output_late_data(LATE)
    if chance.random() < 0.5:
        windows = windows.allowed_lateness(timedelta.max if chance.random() < 0.1 else millis(chance.randrange(120)))
    return windows, late


def evictor(chance: random.Random, *, by_distance: bool = False) -> Evictor[Event, Any] | None:
    """Mostly none; also one that goes by the distance of elements, if that is wanted."""
    after = chance.random() < 0.4
    match chance.randrange(10):
        case 0:
            return CountEvictor.of(chance.randrange(5), after)
        case 1:
            return TimeEvictor.of(millis(chance.randrange(80)), after)
        case 2 if by_distance:
            return DeltaEvictor.of(float(chance.randrange(-20, 60)), f.distance, after)
        case _:
            return None


def stamped_by_clock(stream: DataStream[Any]) -> bool:
    """Whether windows on the clock are in front: it may be years from such a timestamp to the watermark.

    A trigger that fires at intervals of event time would fire at each of them, in windows that take late elements.
    """
    nodes: list[Node] = [stream.node]
    while nodes:
        node = nodes.pop()
        assigner = node.assigner if isinstance(node, WindowNode) else None
        if assigner is not None and not assigner.is_event_time and not isinstance(assigner, GlobalWindows):
            return True
        nodes.extend(node.inputs)
    return False
