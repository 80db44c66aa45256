"""The global window: all elements of a key in one window."""

from __future__ import annotations

from windrow.triggers.global_window import EndOfStreamTrigger, NeverTrigger
from windrow.triggers.trigger import MergingTrigger
from windrow.windows.assigner import AssignerContext, WindowAssigner
from windrow.windows.window import GlobalWindow

_ALL = (GlobalWindow(),)


class GlobalWindows(WindowAssigner[object, GlobalWindow]):
    """Puts every element of a key into one window, which has neither start nor end.

    No time ends this window, so it needs a trigger that fires it: one of yours by ``trigger(...)``, such as
    :class:`~windrow.triggers.CountTrigger`, or the one of :meth:`create_with_end_of_stream_trigger`. Without one the
    window never fires, and nothing comes out. It keeps its elements until a trigger purges them
    (:class:`~windrow.triggers.PurgingTrigger`), so on an endless stream its state grows without one that does.

    Args:
        end_of_stream: Whether the window fires once at the end of a bounded stream, if no trigger is set.
    """

    def __init__(self, *, end_of_stream: bool) -> None:
        self.end_of_stream = end_of_stream

    @classmethod
    def create(cls) -> GlobalWindows:
        """Global windows without a trigger: the next stage needs ``trigger(...)``, or they never fire."""
        return cls(end_of_stream=False)

    @classmethod
    def create_with_end_of_stream_trigger(cls) -> GlobalWindows:
        """Global windows that fire once, at the end of a bounded stream."""
        return cls(end_of_stream=True)

    def assign_windows(self, element: object, timestamp: int, context: AssignerContext) -> tuple[GlobalWindow]:
        return _ALL

    def default_trigger(self) -> MergingTrigger[object, GlobalWindow]:
        """:class:`~windrow.triggers.NeverTrigger`, or :class:`~windrow.triggers.EndOfStreamTrigger`."""
        return EndOfStreamTrigger.create() if self.end_of_stream else NeverTrigger.create()

    @property
    def is_event_time(self) -> bool:
        """False, as the global window is never cleaned up by a watermark and knows no lateness."""
        return False

    def describe(self) -> str:
        return "GlobalWindows(end of stream)" if self.end_of_stream else "GlobalWindows"

    def __repr__(self) -> str:
        return f"GlobalWindows.create{'_with_end_of_stream_trigger' if self.end_of_stream else ''}()"
