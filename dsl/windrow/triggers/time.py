"""Triggers that fire once, when time reaches the end of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windrow.triggers.trigger import MergingTrigger, OnMergeContext, PartContext, TriggerContext, TriggerResult
from windrow.triggers.words import wait_for_clock, wait_for_watermark

if TYPE_CHECKING:
    from windrow.windows.window import Window


class EventTimeTrigger(MergingTrigger[object, "Window"]):
    """Fires when the watermark reaches the last timestamp of the window; at once for elements that come later."""

    @classmethod
    def create(cls) -> EventTimeTrigger:
        """The trigger."""
        return cls()

    def on_element(self, element: object, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if end <= context.current_watermark:
            return TriggerResult.FIRE
        context.register_event_time_timer(end)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        """Waits for the end of the new window, unless the watermark is past it: then the element will fire it."""
        end = window.max_timestamp()
        if end > context.current_watermark:
            context.register_event_time_timer(end)

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.delete_event_time_timer(window.max_timestamp())

    def __repr__(self) -> str:
        return f"{type(self).__name__}.create()"

    def explain(self, window: Window, context: PartContext) -> str:
        return f"{self.describe()}: {wait_for_watermark(window.max_timestamp(), context.current_watermark)}"


class ProcessingTimeTrigger(MergingTrigger[object, "Window"]):
    """Fires when the clock reaches the last timestamp of the window."""

    uses_processing_time = True

    @classmethod
    def create(cls) -> ProcessingTimeTrigger:
        """The trigger."""
        return cls()

    def on_element(self, element: object, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        context.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        """Waits for the end of the new window, unless the clock is past it."""
        end = window.max_timestamp()
        if end > context.current_processing_time:
            context.register_processing_time_timer(end)

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.delete_processing_time_timer(window.max_timestamp())

    def __repr__(self) -> str:
        return f"{type(self).__name__}.create()"

    def explain(self, window: Window, context: PartContext) -> str:
        return f"{self.describe()}: {wait_for_clock(window.max_timestamp(), context.current_processing_time)}"
