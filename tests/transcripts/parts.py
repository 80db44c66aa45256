"""Makes triggers, windows and settings of what transcripts say about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from windrow import triggers
from windrow.panes import AccumulationMode, TimestampCombiner
from windrow.time import MAX_TIMESTAMP
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    Window,
    WindowAssigner,
    WindowStagger,
)

# Any in this module: what JSON holds, and windows of every kind.

Trigger = triggers.MergingComposableTrigger[object, Window]
Stubs = Callable[[str], Trigger]


def millis(ticks: float) -> timedelta:
    """The duration of some ticks; a tick of a transcript is a millisecond."""
    return timedelta(milliseconds=ticks)


def no_stub(name: str) -> Trigger:
    """Refuses a stub: only a case about a trigger on its own has some."""
    raise ValueError(f"a stub {name!r} has no place here")


def trigger_of(tree: Mapping[str, Any], stub: Stubs = no_stub) -> Trigger:
    """The trigger that a tree describes; its parts may be ``of``, ``early``, ``late``, ``main`` and ``until``."""

    def of(name: str) -> Trigger:
        return trigger_of(tree[name], stub)

    trigger: Trigger
    match tree["type"]:
        case "default" | "never" | "always" as kind:
            trigger = getattr(triggers, kind)()
        case "after_watermark":
            early, late = (of(part) if tree.get(part) else None for part in ("early", "late"))
            trigger = triggers.after_watermark(early=early, late=late)
        case "after_count":
            trigger = triggers.after_count(tree["n"])
        case "after_processing_time":
            trigger = triggers.after_processing_time(millis(tree["delay"]))
        case "at_period":
            trigger = triggers.after_processing_time(aligned_to=millis(tree["aligned_minutes"] * 60_000))
        case "repeatedly":
            trigger = triggers.repeatedly(of("of"))
        case "after_any" | "after_all" | "after_each" as kind:
            trigger = getattr(triggers, kind)(*(trigger_of(part, stub) for part in tree["of"]))
        case "or_finally":
            trigger = triggers.or_finally(of("main"), of("until"))
        case kind:
            assert kind == "stub", kind
            trigger = stub(tree["id"])
    return trigger


class _ShiftedWindows(TumblingEventTimeWindows):
    """Windows that would have their results at another time, if anybody asked them."""

    def __init__(self, size: int, output_shift: int) -> None:
        super().__init__(millis(size), millis(0), WindowStagger.ALIGNED)
        self.output_shift = output_shift

    def get_output_time(self, window: TimeWindow, timestamp: int) -> int:
        return timestamp + self.output_shift


def windows_of(described: Mapping[str, Any]) -> WindowAssigner[object, Any]:
    """The assigner that is described."""
    kind = described["kind"]
    if kind == "global":
        return GlobalWindows.create()
    if kind == "sessions":
        return EventTimeSessionWindows.with_gap(millis(described["gap"]))
    if kind == "sliding":
        return SlidingEventTimeWindows.of(millis(described["size"]), millis(described["period"]))
    if kind == "fixed_shifted_output":
        return _ShiftedWindows(described["size"], described["output_shift"])
    assert kind == "fixed", kind
    return TumblingEventTimeWindows.of(millis(described["size"]), millis(described.get("offset", 0)))


MODES = {mode.value: mode for mode in AccumulationMode}

COMBINERS = {combiner.name.lower(): combiner for combiner in TimestampCombiner}


def watermark_of(ticks: int | str) -> int:
    """A watermark of windrow's: Beam's says that all elements before it have come, which is one tick more."""
    return MAX_TIMESTAMP if ticks == "inf" else int(ticks) - 1
