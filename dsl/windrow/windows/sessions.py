"""Session windows: an element opens a window of one gap, and windows that overlap or touch merge."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Generic, Self, TypeVar

from windrow.errors import require_callable
from windrow.functions.names import function_name
from windrow.time import duration_text, positive_millis
from windrow.triggers.call_text import call_text, millis_text
from windrow.windows.assigner import AssignerContext, InEventTime, InProcessingTime, Merge, MergingWindowAssigner
from windrow.windows.window import TimeWindow

T_contra = TypeVar("T_contra", contravariant=True)
D = TypeVar("D")


def merge_time_windows(windows: Collection[TimeWindow]) -> list[Merge[TimeWindow]]:
    """The groups of ``windows`` that overlap or touch, each with the window that covers it.

    A window that meets no other is in no group; equal windows are one.

    Args:
        windows: The windows, in any order.
    """
    merges: list[Merge[TimeWindow]] = []
    group: list[TimeWindow] = []
    start = end = 0
    for window in sorted(set(windows)):
        if group and window.start <= end:
            group.append(window)
            end = max(end, window.end)
            continue
        if len(group) > 1:
            merges.append(Merge(TimeWindow(start, end), group))
        group = [window]
        start, end = window
    if len(group) > 1:
        merges.append(Merge(TimeWindow(start, end), group))
    return merges


class SessionWindows(MergingWindowAssigner[T_contra, TimeWindow]):
    """The base of all sessions: windows of one gap that merge when they overlap or touch.

    A subclass that keeps this :meth:`merge_windows` runs in the faster form for sessions.
    """

    def merge_windows(self, windows: Collection[TimeWindow]) -> list[Merge[TimeWindow]]:
        return merge_time_windows(windows)

    @abstractmethod
    def gap_of(self, element: T_contra) -> int:
        """The gap after ``element``, in milliseconds, greater than zero.

        Args:
            element: The element.
        """


class _FixedGap(SessionWindows[object]):
    def __init__(self, gap: timedelta) -> None:
        self.gap = positive_millis(gap, "the gap of session windows")

    @classmethod
    def with_gap(cls, gap: timedelta) -> Self:
        """Sessions with a fixed gap.

        Args:
            gap: After how long without an element a session ends, at least one millisecond.

        Raises:
            InvalidArgumentError: If ``gap`` is not positive.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import WatermarkStrategy, from_collection
            >>> from windrow.windows import EventTimeSessionWindows
            >>> clicks = from_collection([1_000, 2_000, 9_000]).assign_timestamps_and_watermarks(
            ...     WatermarkStrategy.for_monotonous_timestamps(), lambda click: click
            ... )
            >>> sessions = clicks.window_all(EventTimeSessionWindows.with_gap(timedelta(seconds=5)))
            >>> sessions.count().collect()
            [2, 1]
        """
        return cls(gap)

    def gap_of(self, element: object) -> int:
        return self.gap

    def describe(self) -> str:
        return f"{type(self).__name__}(gap={duration_text(self.gap)})"

    def __repr__(self) -> str:
        return call_text(f"{type(self).__name__}.with_gap", millis_text(self.gap))


class _DynamicGap(SessionWindows[T_contra], Generic[T_contra]):
    def __init__(self, gap: Callable[[T_contra], timedelta]) -> None:
        require_callable(
            gap, "the gap of dynamic sessions", "a callable that gives the timedelta of an element", takes="element"
        )
        self._gap = gap

    def gap_of(self, element: T_contra) -> int:
        """The gap that the user's function returns for ``element``.

        Raises:
            InvalidArgumentError: If the gap is not positive.
        """
        return positive_millis(self._gap(element), "the gap of a session window")

    def describe(self) -> str:
        return f"{type(self).__name__}(gap per element)"

    def __repr__(self) -> str:
        return call_text(f"{type(self).__name__.removeprefix('Dynamic')}.with_dynamic_gap", function_name(self._gap))


class _EventTimeSession(SessionWindows[T_contra], InEventTime[T_contra]):
    def assign_windows(self, element: T_contra, timestamp: int, context: AssignerContext) -> tuple[TimeWindow]:
        return (TimeWindow(timestamp, timestamp + self.gap_of(element)),)


class _ProcessingTimeSession(SessionWindows[T_contra], InProcessingTime[T_contra]):
    def assign_windows(self, element: T_contra, timestamp: int, context: AssignerContext) -> tuple[TimeWindow]:
        now = context.current_processing_time
        return (TimeWindow(now, now + self.gap_of(element)),)


class DynamicEventTimeSessionWindows(_DynamicGap[T_contra], _EventTimeSession[T_contra]):
    """Sessions in event time whose gap is taken from each element.

    Args:
        gap: Gives the gap after an element, at least one millisecond.

    Raises:
        InvalidArgumentError: If ``gap`` cannot be called.
    """


class DynamicProcessingTimeSessionWindows(_DynamicGap[T_contra], _ProcessingTimeSession[T_contra]):
    """Sessions on the clock whose gap is taken from each element.

    Args:
        gap: Gives the gap after an element, at least one millisecond.

    Raises:
        InvalidArgumentError: If ``gap`` cannot be called.
    """


class EventTimeSessionWindows(_FixedGap, _EventTimeSession[object]):
    """Sessions in event time: a session ends when no element came for the gap."""

    @staticmethod
    def with_dynamic_gap(gap: Callable[[D], timedelta]) -> DynamicEventTimeSessionWindows[D]:
        """Sessions whose gap is taken from each element. A gap that is not positive fails the element.

        Args:
            gap: Gives the gap after an element, at least one millisecond.

        Raises:
            InvalidArgumentError: If ``gap`` cannot be called.
        """
        return DynamicEventTimeSessionWindows(gap)


class ProcessingTimeSessionWindows(_FixedGap, _ProcessingTimeSession[object]):
    """Sessions on the clock: a session ends when no element came for the gap."""

    @staticmethod
    def with_dynamic_gap(gap: Callable[[D], timedelta]) -> DynamicProcessingTimeSessionWindows[D]:
        """Sessions whose gap is taken from each element. A gap that is not positive fails the element.

        Args:
            gap: Gives the gap after an element, at least one millisecond.

        Raises:
            InvalidArgumentError: If ``gap`` cannot be called.
        """
        return DynamicProcessingTimeSessionWindows(gap)
