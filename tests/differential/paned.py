"""Random triggers that compose, and what random steps compute of panes and changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.spark.comparison import Event, key_of, millis
from windrow.functions import ProcessWindowContext, ProcessWindowFunction
from windrow.panes import ChangeKind, ClosingBehavior, OnTimeBehavior, TimestampCombiner
from windrow.triggers import (
    Trigger,
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

# Any in this module: windows, triggers and results of every kind.

MODES = ("accumulating", "discarding", "retracting")


def composed(
    chance: random.Random, flinks: Callable[[], Trigger[Event, Any] | None], *, in_time: bool, clocked: bool
) -> Trigger[Event, Any]:
    """A trigger that composes.

    Args:
        chance: Draws.
        flinks: Draws a trigger of Flink's kind.
        in_time: Whether the windows are over by the watermark.
        clocked: Whether there is a clock.
    """

    def leaf() -> Trigger[Event, Any]:
        found = [after_count(chance.randrange(1, 5)), always(), never()]
        found += [after_watermark(), after_watermark(), default()] * in_time
        if clocked:
            aligned = millis(chance.randrange(1, 90)) if chance.random() < 0.4 else None
            found.append(after_processing_time(millis(chance.randrange(150)), aligned_to=aligned))
        return (flinks() if chance.random() < 0.2 else None) or chance.choice(found)

    def tree(depth: int) -> Trigger[Event, Any]:
        kind = chance.randrange(7) if depth else 6
        some = [tree(depth - 1) for _ in range(chance.randrange(1, 4))] if kind < 3 else []
        if kind < 3:
            return (after_any, after_all, after_each)[kind](*some)
        if kind == 3:
            return repeatedly(tree(depth - 1))
        if kind == 4:
            return or_finally(tree(depth - 1), tree(depth - 1))
        if kind == 5 and in_time:
            return after_watermark(early=tree(depth - 1), late=tree(depth - 1) if chance.random() < 0.7 else None)
        return leaf()

    trigger = tree(2)
    return trigger if chance.random() < 0.3 else repeatedly(trigger)


def said_of_panes(chance: random.Random, windows: Any) -> tuple[Any, str]:
    """Windows with an accumulation mode and other settings, and that mode."""
    mode = chance.choice(MODES)
    windows = getattr(windows, mode)()
    if chance.random() < 0.3:
        windows = windows.on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY)
    if chance.random() < 0.2:
        windows = windows.closing_behavior(ClosingBehavior.FIRE_ALWAYS)
    if chance.random() < 0.3:
        windows = windows.timestamp_combiner(chance.choice(list(TimestampCombiner)))
    return windows, mode


class Paned(ProcessWindowFunction[Any, tuple[Any, ...], Any, Any]):
    """All that a window function can see of a pane."""

    def process(self, key: Any, context: ProcessWindowContext[Any], elements: Sequence[Any]) -> list[tuple[Any, ...]]:
        pane = context.pane
        return [(key, context.window, pane.timing.name, *_numbers(pane), list(elements))]


def _numbers(pane: Any) -> tuple[int, int, bool, bool]:
    return pane.index, pane.nonspeculative_index, pane.is_first, pane.is_last


def alone_with_kind(kind: ChangeKind, result: Any) -> tuple[str, Any]:
    """A change of a stream whose elements do not begin with their key."""
    return kind.value, result


def with_kind(kind: ChangeKind, result: Any) -> tuple[Any, ...]:
    """A change as an element that begins with its key."""
    return key_of(result), kind.value, result
