"""Cumulative windows: windows that begin together and grow by a step, up to a largest size."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Self

from windrow.errors import InvalidArgumentError
from windrow.time import duration_millis, duration_text, positive_millis
from windrow.triggers.call_text import call_text, millis_text
from windrow.windows.assigner import AssignerContext, InEventTime
from windrow.windows.window import TimeWindow

_NO_OFFSET: Final = timedelta(0)
_MOST_WINDOWS: Final = 100_000


class CumulativeEventTimeWindows(InEventTime[object]):
    """Windows in event time that begin together and grow by a step, such as the day so far at each full hour.

    They are those of ``CUMULATE`` in SQL of Flink.
    """

    def __init__(self, max_size: timedelta, step: timedelta, offset: timedelta = _NO_OFFSET) -> None:
        self.max_size = positive_millis(max_size, "the largest size of cumulative windows")
        self.step = positive_millis(step, "the step of cumulative windows")
        self.offset = duration_millis(offset, "the offset of cumulative windows")
        text = f"max_size={duration_text(self.max_size)}, step={duration_text(self.step)}"
        if self.max_size % self.step:
            raise InvalidArgumentError(
                "the step does not divide the largest size of cumulative windows",
                given=text,
                expected="a largest size that is a whole number of steps",
                hint="max_size comes first, and then the step" if self.max_size < self.step else None,
            )
        if self.max_size // self.step > _MOST_WINDOWS:
            raise InvalidArgumentError(
                "each element would be in too many cumulative windows",
                given=f"{text}: {self.max_size // self.step:,} windows",
                expected=f"at most {_MOST_WINDOWS:,} windows for each element",
                hint="use a longer step",
            )
        if abs(self.offset) >= self.max_size:
            raise InvalidArgumentError(
                "the offset of cumulative windows must be smaller than their largest size",
                given=f"{text}, offset={duration_text(self.offset)}",
                expected="|offset| < max_size",
                hint=f"an offset of {duration_text(self.offset % self.max_size)} gives the windows you mean",
            )

    @classmethod
    def of(cls, max_size: timedelta, step: timedelta, offset: timedelta = _NO_OFFSET) -> Self:
        """Windows ``[start, start + n * step)`` for each ``n`` up to ``max_size / step``.

        Starts are ``max_size`` apart. An element is in all windows of its start that end after it.

        Args:
            max_size: The length of the longest window, a multiple of the step.
            step: How much longer each window is than the one before, and the length of the first one.
            offset: Shifts all windows; ``|offset| < max_size``.

        Raises:
            InvalidArgumentError: If a duration is not positive, the step does not divide ``max_size``,
                ``|offset| >= max_size``, or an element would be in more than 100,000 windows.

        Example:
            >>> from datetime import timedelta
            >>> from windrow.windows import CumulativeEventTimeWindows
            >>> so_far = CumulativeEventTimeWindows.of(max_size=timedelta(days=1), step=timedelta(hours=1))
            >>> so_far.describe()
            'CumulativeEventTimeWindows(max_size=1 d, step=1 h)'
        """
        return cls(max_size, step, offset)

    def assign_windows(self, element: object, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        start = timestamp - (timestamp - self.offset) % self.max_size
        return [TimeWindow(start, end) for end in range(start + self.max_size, timestamp, -self.step)]

    def describe(self) -> str:
        offset = f", offset={duration_text(self.offset)}" if self.offset else ""
        step = f"step={duration_text(self.step)}"
        return f"{type(self).__name__}(max_size={duration_text(self.max_size)}, {step}{offset})"

    def __repr__(self) -> str:
        offset = millis_text(self.offset) if self.offset else None
        sizes = {"max_size": millis_text(self.max_size), "step": millis_text(self.step)}
        return call_text(f"{type(self).__name__}.of", **sizes, offset=offset)
