"""Makes triggers, windows and settings of what transcripts say about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from windrow.panes import AccumulationMode, TimestampCombiner
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import (
    MergingComposableTrigger,
    after_all,
    after_any,
    after_count,
    after_each,
    after_processing_time,
    after_watermark,
    always,
    default,
    never,
    or_finally,
    repeatedly,
)
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

Trigger = MergingComposableTrigger[object, Window]
Stubs = Callable[[str], Trigger]


def millis(ticks: float) -> timedelta:
    """The duration of some ticks; a tick of a transcript is a millisecond."""
    return timedelta(milliseconds=ticks)


def no_stub(name: str) -> Trigger:
    """Refuses a stub: only a case about a trigger on its own has some."""
    raise ValueError(f"a stub {name!r} has no place here")


def trigger_of(tree: Mapping[str, Any], stub: Stubs = no_stub, *, minute: int = 60_000) -> Trigger:
    """The trigger that a tree describes; ``minute`` is one in ticks."""

    def of(inner: Mapping[str, Any]) -> Trigger:
        return trigger_of(inner, stub, minute=minute)

    def maybe(name: str) -> Trigger | None:
        return None if tree.get(name) is None else of(tree[name])

    parts = list(map(of, tree["of"])) if isinstance(tree.get("of"), list) else []
    makers: dict[str, Callable[[], Trigger]] = {
        "default": default,
        "never": never,
        "always": always,
        "after_watermark": lambda: after_watermark(early=maybe("early"), late=maybe("late")),
        "after_count": lambda: after_count(tree["n"]),
        "after_processing_time": lambda: after_processing_time(millis(tree["delay"])),
        "at_period": lambda: after_processing_time(aligned_to=millis(tree["aligned_minutes"] * minute)),
        "repeatedly": lambda: repeatedly(of(tree["of"])),
        "after_any": lambda: after_any(*parts),
        "after_all": lambda: after_all(*parts),
        "after_each": lambda: after_each(*parts),
        "or_finally": lambda: or_finally(of(tree["main"]), of(tree["until"])),
        "stub": lambda: stub(tree["id"]),
    }
    return makers[tree["type"]]()


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

COMBINERS = {
    "end_of_window": TimestampCombiner.END_OF_WINDOW,
    "earliest": TimestampCombiner.EARLIEST,
    "latest": TimestampCombiner.LATEST,
}


def watermark_of(ticks: int | str) -> int:
    """A watermark of windrow's: Beam's says that all elements before it have come, which is one tick more."""
    return MAX_TIMESTAMP if ticks == "inf" else int(ticks) - 1


def shown(window: object) -> object:
    """A window as transcripts write it."""
    return [window.start, window.end] if isinstance(window, TimeWindow) else "global"


def in_order(values: Iterable[Any]) -> list[Any]:
    """Values in the order in which transcripts write them."""
    return sorted(values)
