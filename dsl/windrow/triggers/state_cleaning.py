"""Defines the count trigger that drops windows after some time without elements."""

from __future__ import annotations

import operator
from datetime import timedelta
from typing import TYPE_CHECKING

from windrow.counts import check_positive
from windrow.errors import InvalidArgumentError
from windrow.state import ReducingStateDescriptor, ValueStateDescriptor
from windrow.time import MAX_TIMESTAMP, duration_text, positive_millis
from windrow.triggers.call_text import call_text, millis_text
from windrow.triggers.trigger import PartContext, Trigger, TriggerContext, TriggerResult
from windrow.triggers.words import wait_for_clock

if TYPE_CHECKING:
    from windrow.windows.window import Window


class StateCleaningCountTrigger(Trigger[object, "Window"]):
    """A count trigger that drops windows which get no more elements, after Flink's trigger of the same name.

    It fires at every ``max_count``-th element and starts over. When no element came for a while it fires a last time,
    and contents and state go: after at least ``min_retention`` and at most ``max_retention`` of processing time. The
    span between the two spares setting a timer for every element.
    """

    uses_processing_time = True

    _COUNT = ReducingStateDescriptor[int]("count", operator.add)
    _CLEANUP = ValueStateDescriptor("cleanup", int)

    def __init__(self, min_retention: timedelta, max_retention: timedelta, max_count: int) -> None:
        self.min_retention = positive_millis(min_retention, "the minimum retention")
        self.max_retention = positive_millis(max_retention, "the maximum retention")
        if self.max_retention < self.min_retention:
            raise InvalidArgumentError(
                "the maximum retention is below the minimum",
                given=f"min {min_retention}, max {max_retention}",
                expected="max_retention >= min_retention",
            )
        check_positive(max_count, "the count of a count trigger")
        self.max_count = max_count

    @classmethod
    def of(cls, min_retention: timedelta, max_retention: timedelta, max_count: int) -> StateCleaningCountTrigger:
        """Fire at every ``max_count``-th element, and clean up windows that get no more elements.

        Args:
            min_retention: The processing time for which a window stays at least after its last element.
            max_retention: The processing time for which it stays at most.
            max_count: How many elements make it fire, at least 1.

        Raises:
            InvalidArgumentError: If a retention is not positive, the maximum is below the minimum, or the count is
                not a positive int.
        """
        return cls(min_retention, max_retention, max_count)

    def on_element(self, element: object, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        """Moves the cleanup timer where it has come too near, then counts."""
        now = context.current_processing_time
        cleanup = context.get_state(self._CLEANUP)
        cleanup_time = cleanup.value()
        if cleanup_time is None or now + self.min_retention > cleanup_time:
            following = min(now + self.max_retention, MAX_TIMESTAMP)
            context.register_processing_time_timer(following)
            if cleanup_time is not None:
                context.delete_processing_time_timer(cleanup_time)
            cleanup.update(following)
        count = context.get_state(self._COUNT)
        count.add(1)
        if (count.get() or 0) >= self.max_count:
            count.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        """Fires a last time and forgets the window, at its cleanup timer."""
        if context.get_state(self._CLEANUP).value() != time:
            return TriggerResult.CONTINUE
        self.clear(window, context)
        return TriggerResult.FIRE_AND_PURGE

    def clear(self, window: Window, context: TriggerContext) -> None:
        cleanup = context.get_state(self._CLEANUP)
        cleanup_time = cleanup.value()
        if cleanup_time is not None:
            context.delete_processing_time_timer(cleanup_time)
            cleanup.clear()
        context.get_state(self._COUNT).clear()

    def describe(self) -> str:
        retention = f"{duration_text(self.min_retention)} to {duration_text(self.max_retention)}"
        return f"StateCleaningCountTrigger({self.max_count}, retention {retention})"

    def __repr__(self) -> str:
        retentions = (millis_text(self.min_retention), millis_text(self.max_retention))
        return call_text(f"{type(self).__name__}.of", *retentions, str(self.max_count))

    def explain(self, window: Window, context: PartContext) -> str:
        count = context.get_state(self._COUNT).get() or 0
        text = f"{self.describe()}: {count:,} of {self.max_count:,} elements have come"
        cleanup = context.get_state(self._CLEANUP).value()
        if cleanup is None:
            return text
        return f"{text}; to forget them it {wait_for_clock(cleanup, context.current_processing_time)}"
