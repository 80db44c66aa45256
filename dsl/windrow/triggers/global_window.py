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
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        """Has nothing to merge."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.create()"

    def explain(self, window: Window, context: PartContext) -> str:
        return f"{self.describe()}: never fires"


class EndOfStreamTrigger(MergingTrigger[object, "Window"]):
    """Fires once, when a bounded stream is at its end: at watermark :data:`windrow.time.MAX_TIMESTAMP`."""

    @classmethod
    def create(cls) -> EndOfStreamTrigger:
        """The trigger."""
        return cls()

    def on_element(self, element: object, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        context.register_event_time_timer(MAX_TIMESTAMP)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == MAX_TIMESTAMP else TriggerResult.CONTINUE

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        context.register_event_time_timer(MAX_TIMESTAMP)

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.delete_event_time_timer(MAX_TIMESTAMP)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.create()"

    def explain(self, window: Window, context: PartContext) -> str:
        return f"{self.describe()}: {wait_for_watermark(MAX_TIMESTAMP, context.current_watermark)}"
