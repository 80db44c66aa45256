"""Triggers that fire again and again while a window is open."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from windrow.state import ReducingStateDescriptor
from windrow.time import MAX_TIMESTAMP, duration_text, positive_millis
from windrow.triggers.call_text import call_text, millis_text
from windrow.triggers.trigger import MergingTrigger, OnMergeContext, PartContext, TriggerContext, TriggerResult
from windrow.triggers.words import wait_for_clock, wait_for_watermark

if TYPE_CHECKING:
    from windrow.windows.window import Window


class _Continuous(MergingTrigger[object, "Window"]):
    # The earliest next firing wins where windows merge.
    _NEXT = ReducingStateDescriptor[int]("fire-time", min)

    def __init__(self, interval: timedelta) -> None:
        self.interval = positive_millis(interval, "the interval of a continuous trigger")

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        """Keeps the earliest next firing; in event time the element that came last sets the timer for the end."""
        context.merge_partitioned_state(self._NEXT)
        following = context.get_state(self._NEXT).get()
        if following is not None:
            self._register(following, context)

    def clear(self, window: Window, context: TriggerContext) -> None:
        following = context.get_state(self._NEXT)
        time = following.get()
        if time is not None:
            delete = (
                context.delete_processing_time_timer if self.uses_processing_time else context.delete_event_time_timer
            )
            delete(time)
            following.clear()

    def _set_next(self, time: int, window: Window, context: TriggerContext) -> None:
        following = min(time + self.interval, window.max_timestamp())
        context.get_state(self._NEXT).add(following)
        self._register(following, context)

    def _register(self, time: int, context: TriggerContext) -> None:
        if self.uses_processing_time:
            context.register_processing_time_timer(time)
        else:
            context.register_event_time_timer(time)

    def describe(self) -> str:
        return f"{type(self).__name__}({duration_text(self.interval)})"

    def __repr__(self) -> str:
        return call_text(f"{type(self).__name__}.of", millis_text(self.interval))


class ContinuousEventTimeTrigger(_Continuous):
    """Fires at every interval of event time, and when the watermark reaches the end of the window.

    The first firing is at the next multiple of the interval after the timestamp of the first element; each firing sets
    the next one, at the latest at the last timestamp of the window. So a watermark that leaps over many intervals
    fires at each of them, as in Flink: a year by the second is 31 million firings for each open window and key.
    """

    @classmethod
    def of(cls, interval: timedelta) -> ContinuousEventTimeTrigger:
        """Fire every ``interval`` of event time.

        Args:
            interval: The time from one firing to the next, at least one millisecond.

        Raises:
            InvalidArgumentError: If ``interval`` is not positive.
        """
        return cls(interval)

    def on_element(self, element: object, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if end <= context.current_watermark:
            return TriggerResult.FIRE
        context.register_event_time_timer(end)
        if context.get_state(self._NEXT).get() is None:
            start = timestamp - timestamp % self.interval
            self._set_next(start, window, context)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        following = context.get_state(self._NEXT)
        if following.get() != time:
            return TriggerResult.CONTINUE
        following.clear()
        end = window.max_timestamp()
        if context.current_watermark == end == MAX_TIMESTAMP:
            # The stream is at its end, and so is the window that has none: no interval is left in between.
            return TriggerResult.CONTINUE
        self._set_next(time, window, context)
        return TriggerResult.FIRE

    def clear(self, window: Window, context: TriggerContext) -> None:
        super().clear(window, context)
        context.delete_event_time_timer(window.max_timestamp())

    def explain(self, window: Window, context: PartContext) -> str:
        following = context.get_state(self._NEXT).get()
        due = window.max_timestamp() if following is None else following
        return f"{self.describe()}: {wait_for_watermark(due, context.current_watermark)}"


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires at every interval of processing time.

    The first firing is at the next multiple of the interval after the clock at the first element; each firing sets the
    next one, at the latest at the last timestamp of the window. So a clock that leaps over many intervals fires at each
    of them, as in Flink: after a day in which a query did not run, every open window fires as often as in that day.
    """

    uses_processing_time = True

    @classmethod
    def of(cls, interval: timedelta) -> ContinuousProcessingTimeTrigger:
        """Fire every ``interval`` of processing time.

        Args:
            interval: The time from one firing to the next, at least one millisecond.

        Raises:
            InvalidArgumentError: If ``interval`` is not positive.
        """
        return cls(interval)

    def on_element(self, element: object, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        if context.get_state(self._NEXT).get() is None:
            now = context.current_processing_time
            self._set_next(now - now % self.interval, window, context)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        following = context.get_state(self._NEXT)
        if following.get() != time:
            return TriggerResult.CONTINUE
        following.clear()
        # At the end of the window there is no next firing; an element that comes later sets one again.
        if time < window.max_timestamp():
            self._set_next(time, window, context)
        return TriggerResult.FIRE

    def explain(self, window: Window, context: PartContext) -> str:
        due = context.get_state(self._NEXT).get()
        waits = "waits for an element" if due is None else wait_for_clock(due, context.current_processing_time)
        return f"{self.describe()}: {waits}"
