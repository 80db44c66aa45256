"""Sliding windows: windows of a fixed size that start every slide, so that they overlap."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from windrow.errors import InvalidArgumentError
from windrow.time import duration_millis, duration_text, positive_millis
from windrow.triggers.call_text import call_text, millis_text
from windrow.windows.assigner import AssignerContext, InEventTime, InProcessingTime, WindowAssigner
from windrow.windows.window import TimeWindow

_NO_OFFSET = timedelta(0)
_MOST_WINDOWS = 1_000_000


class _Sliding(WindowAssigner[object, TimeWindow]):
    def __init__(self, size: timedelta, slide: timedelta, offset: timedelta = _NO_OFFSET) -> None:
        self.size = positive_millis(size, "the size of sliding windows")
        self.slide = positive_millis(slide, "the slide of sliding windows")
        self.offset = duration_millis(offset, "the offset of sliding windows")
        if self.size > self.slide * _MOST_WINDOWS:
            raise InvalidArgumentError(
                "each element would be in too many sliding windows",
                given=f"size={duration_text(self.size)}, slide={duration_text(self.slide)}: "
                f"{self.size // self.slide:,} windows",
                expected=f"at most {_MOST_WINDOWS:,} windows for each element",
                hint="use a longer slide, or a global window with an evictor",
            )
        if abs(self.offset) >= self.slide:
            raise InvalidArgumentError(
                "the offset of sliding windows must be smaller than their slide",
                given=f"slide={duration_text(self.slide)}, offset={duration_text(self.offset)}",
                expected="|offset| < slide",
                hint=f"an offset of {duration_text(self.offset % self.slide)} gives the windows you mean",
            )

        self._latest: list[TimeWindow] = []

    @classmethod
    def of(cls, size: timedelta, slide: timedelta, offset: timedelta = _NO_OFFSET) -> Self:
        """Windows ``[n * slide + offset, n * slide + offset + size)`` for every integer ``n``.

        An element is in ``ceil(size / slide)`` windows, or one fewer where the slide does not divide the size. With a
        slide larger than the size there are gaps between windows, and elements that fall into one are in no window:
        they are left out of the results, on purpose, as in Flink.

        Args:
            size: The length of a window, at least one millisecond.
            slide: How long after one window the next one starts, at least one millisecond.
            offset: Shifts all windows; ``|offset| < slide``.

        Raises:
            InvalidArgumentError: If ``size`` or ``slide`` is not positive, ``|offset| >= slide``, or an element
                would be in more than a million windows.
        """
        return cls(size, slide, offset)

    def _windows(self, timestamp: int) -> list[TimeWindow]:
        size = self.size
        slide = self.slide
        start = timestamp - (timestamp - self.offset) % slide
        latest = self._latest
        # Most elements are in the windows of the one before, which are the same for all elements of a slide.
        if not latest or latest[0].start != start or not 0 < latest[-1].end - timestamp <= slide:
            starts = range(start, timestamp - size, -slide)
            latest = self._latest = [TimeWindow(first, first + size) for first in starts]
        return latest.copy()

    def describe(self) -> str:
        offset = f", offset={duration_text(self.offset)}" if self.offset else ""
        return f"{type(self).__name__}(size={duration_text(self.size)}, slide={duration_text(self.slide)}{offset})"

    def __repr__(self) -> str:
        offset = millis_text(self.offset) if self.offset else None
        return call_text(f"{type(self).__name__}.of", millis_text(self.size), millis_text(self.slide), offset=offset)


class SlidingEventTimeWindows(_Sliding, InEventTime[object]):
    """Windows of a fixed size in event time that start every slide."""

    def assign_windows(self, element: object, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return self._windows(timestamp)


class SlidingProcessingTimeWindows(_Sliding, InProcessingTime[object]):
    """Windows of a fixed size on the clock that start every slide."""

    def assign_windows(self, element: object, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return self._windows(context.current_processing_time)
