"""A trigger that never fires, from which tests derive triggers that do one thing."""

from __future__ import annotations

from typing import TypeVar

from windrow.triggers import Trigger, TriggerContext, TriggerResult
from windrow.windows import GlobalWindow

__all__ = ["WaitingTrigger"]

T = TypeVar("T")


class WaitingTrigger(Trigger[T, GlobalWindow]):
    """Continues at each element and timer of the window of all time, and has no state."""

    def on_element(self, element: T, timestamp: int, window: GlobalWindow, context: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, context: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: GlobalWindow, context: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: GlobalWindow, context: TriggerContext) -> None:
        pass
