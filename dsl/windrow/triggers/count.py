"""The trigger that counts elements."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from windrow.counts import check_positive
from windrow.state import ReducingStateDescriptor
from windrow.time import MAX_TIMESTAMP
from windrow.triggers.trigger import MergingTrigger, OnMergeContext, PartContext, TriggerContext, TriggerResult

if TYPE_CHECKING:
    from windrow.windows.window import Window


class CountTrigger(MergingTrigger[object, "Window"]):
    """Fires at every ``max_count``-th element of a window, and starts over.

    When windows merge, their counts add up; the sum is looked at when the next element comes.
    """

    _COUNT = ReducingStateDescriptor[int]("count", operator.add)

    def __init__(self, max_count: int) -> None:
        check_positive(max_count, "the count of a count trigger")
        self.max_count = max_count

    @classmethod
    def of(cls, max_count: int) -> CountTrigger:
        """Fire at every ``max_count``-th element.

        Args:
            max_count: How many elements make it fire, at least 1.

        Raises:
            InvalidArgumentError: If ``max_count`` is not a positive int.

        Example:
            >>> from windrow.triggers import CountTrigger
            >>> CountTrigger.of(100)
            CountTrigger.of(100)
        """
        return cls(max_count)

    def on_element(self, element: object, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        count = context.get_state(self._COUNT)
        count.add(1)
        if (count.get() or 0) >= self.max_count:
            count.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        context.merge_partitioned_state(self._COUNT)

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.get_state(self._COUNT).clear()

    def describe(self) -> str:
        return f"CountTrigger({self.max_count})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}.of({self.max_count})"

    def explain(self, window: Window, context: PartContext) -> str:
        count = context.get_state(self._COUNT).get() or 0
        return f"{self.describe()}: {count:,} of {self.max_count:,} elements have come"


class CountOrEndOfStreamTrigger(CountTrigger):
    """Fires at every so many elements of a window, and with those that are left when a bounded stream is at its end."""

    def on_element(self, element: object, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        context.register_event_time_timer(MAX_TIMESTAMP)
        return super().on_element(element, timestamp, window, context)

    def on_event_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        """Fires at the end of the stream, if elements have come since the window fired."""
        count = context.get_state(self._COUNT)
        if time != MAX_TIMESTAMP or not count.get():
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        super().on_merge(window, context)
        context.register_event_time_timer(MAX_TIMESTAMP)

    def clear(self, window: Window, context: TriggerContext) -> None:
        """Forgets the count, and deletes the timer."""
        super().clear(window, context)
        context.delete_event_time_timer(MAX_TIMESTAMP)

    def describe(self) -> str:
        return f"CountOrEndOfStreamTrigger({self.max_count})"
