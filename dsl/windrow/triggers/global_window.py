"""Triggers of the global window: never, and at the end of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windrow.time import MAX_TIMESTAMP
from windrow.triggers.trigger import MergingTrigger, OnMergeContext, PartContext, TriggerContext, TriggerResult
from windrow.triggers.words import wait_for_watermark

if TYPE_CHECKING:
    from windrow.windows.window import Window


class NeverTrigger(MergingTrigger[object, "Window"]):
    """Never fires. The default of :class:`~windrow.windows.GlobalWindows`."""

    @classmethod
    def create(cls) -> NeverTrigger:
        """The trigger."""
        return cls()

    def on_element(self, element: object, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        """Does nothing."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        """Has nothing to merge."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.create()"

    def explain(self, window: Window, context: PartContext) -> str:
        """Says that it never fires."""
        return f"{self.describe()}: never fires"


class EndOfStreamTrigger(MergingTrigger[object, "Window"]):
    """Fires once, when a bounded stream is at its end: at watermark :data:`windrow.time.MAX_TIMESTAMP`."""

    @classmethod
    def create(cls) -> EndOfStreamTrigger:
        """The trigger."""
        return cls()

    def on_element(self, element: object, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        """Waits for the end."""
        context.register_event_time_timer(MAX_TIMESTAMP)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        """Fires at the end."""
        return TriggerResult.FIRE if time == MAX_TIMESTAMP else TriggerResult.CONTINUE

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        """Waits for the end in the new window."""
        context.register_event_time_timer(MAX_TIMESTAMP)

    def clear(self, window: Window, context: TriggerContext) -> None:
        """Deletes the timer."""
        context.delete_event_time_timer(MAX_TIMESTAMP)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.create()"

    def explain(self, window: Window, context: PartContext) -> str:
        """Says that it waits for the end."""
        return f"{self.describe()}: {wait_for_watermark(MAX_TIMESTAMP, context.current_watermark)}"
