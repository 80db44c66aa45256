"""Tumbling windows: each timestamp is in exactly one window of a fixed size."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from windrow.errors import InvalidArgumentError
from windrow.time import duration_millis, duration_text, positive_millis
from windrow.triggers.call_text import call_text, millis_text
from windrow.windows.assigner import AssignerContext, InEventTime, InProcessingTime, WindowAssigner
from windrow.windows.stagger import WindowStagger
from windrow.windows.window import TimeWindow

_NO_OFFSET = timedelta(0)


class _Tumbling(WindowAssigner[object, TimeWindow]):
    def __init__(
        self, size: timedelta, offset: timedelta = _NO_OFFSET, stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> None:
        self.size = positive_millis(size, "the size of tumbling windows")
        self.offset = duration_millis(offset, "the offset of tumbling windows")
        if abs(self.offset) >= self.size:
            raise InvalidArgumentError(
                "the offset of tumbling windows must be smaller than their size",
                given=f"size={duration_text(self.size)}, offset={duration_text(self.offset)}",
                expected="|offset| < size",
                hint=f"an offset of {duration_text(self.offset % self.size)} gives the windows you mean",
            )
        self.stagger = stagger
        # How far the windows of this instance are shifted, in milliseconds; None until a staggered one has begun.
        self.shift = self.offset if stagger is WindowStagger.ALIGNED else None
        self._latest: tuple[TimeWindow] | None = None

    @classmethod
    def of(
        cls, size: timedelta, offset: timedelta = _NO_OFFSET, stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> Self:
        """Windows ``[n * size + offset, (n + 1) * size + offset)`` for every integer ``n``.

        Args:
            size: The length of a window.
            offset: Shifts all windows; ``|offset| < size``. Windows of a day in UTC+8 have an offset of -8 hours.
            stagger: Shifts the windows of each parallel instance, so that not all fire at once.

        Raises:
            InvalidArgumentError: If ``size`` is not positive or ``|offset| >= size``.

        Example:
            >>> from datetime import timedelta
            >>> from windrow.windows import TumblingEventTimeWindows
            >>> hours = TumblingEventTimeWindows.of(timedelta(hours=1))
            >>> days_in_utc_8 = TumblingEventTimeWindows.of(timedelta(days=1), offset=timedelta(hours=-8))
            >>> hours.describe()
            'TumblingEventTimeWindows(size=1 h)'
        """
        return cls(size, offset, stagger)

    def _windows(self, timestamp: int, clock: int) -> tuple[TimeWindow]:
        size = self.size
        if self.shift is None:
            # Fixed at the first element that this instance sees, as Flink does.
            self.shift = (self.offset + self.stagger.offset(clock, size)) % size
        start = timestamp - (timestamp - self.shift) % size
        windows = self._latest
        # Most elements are in the window of the one before; that of another shift may begin elsewhere.
        if windows is None or windows[0].start != start:
            windows = self._latest = (TimeWindow(start, start + size),)
        return windows

    def describe(self) -> str:
        parts = [f"size={duration_text(self.size)}"]
        if self.offset:
            parts.append(f"offset={duration_text(self.offset)}")
        if self.stagger is not WindowStagger.ALIGNED:
            parts.append(f"stagger={self.stagger.value}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def __repr__(self) -> str:
        offset = millis_text(self.offset) if self.offset else None
        stagger = None if self.stagger is WindowStagger.ALIGNED else str(self.stagger)
        return call_text(f"{type(self).__name__}.of", millis_text(self.size), offset=offset, stagger=stagger)


class TumblingEventTimeWindows(_Tumbling, InEventTime[object]):
    """Windows of a fixed size in event time, one after the other."""

    def assign_windows(self, element: object, timestamp: int, context: AssignerContext) -> tuple[TimeWindow]:
        clock = context.current_processing_time if self.shift is None else 0
        return self._windows(timestamp, clock)


class TumblingProcessingTimeWindows(_Tumbling, InProcessingTime[object]):
    """Windows of a fixed size on the clock, one after the other."""

    def assign_windows(self, element: object, timestamp: int, context: AssignerContext) -> tuple[TimeWindow]:
        clock = context.current_processing_time
        return self._windows(clock, clock)
