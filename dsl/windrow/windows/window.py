"""Windows: what an element is assigned to."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from windrow.errors import InvalidArgumentError
from windrow.time import MAX_TIMESTAMP, timestamp_millis


class Window(Protocol):
    """The protocol of windows: a last timestamp, and to be hashable and comparable by value.

    A frozen dataclass or a NamedTuple with a :meth:`max_timestamp` is a window. Two windows of one key that are equal
    are the same window.
    """

    def max_timestamp(self) -> int:
        """The last timestamp, in milliseconds, that still belongs to the window. Emitted records carry it."""
        ...

    def __hash__(self) -> int: ...


class TimeWindow(NamedTuple):
    """The half-open interval ``start <= t < end`` of time, in milliseconds.

    Attributes:
        start: The first millisecond of the window.
        end: The first millisecond after it.

    Raises:
        InvalidArgumentError: If a bound is no moment, or the end is below the start.
    """

    start: int
    end: int

    def max_timestamp(self) -> int:
        """``end - 1``: the last millisecond inside the window. No timestamp is above the highest one."""
        last = self.end - 1
        return last if last <= MAX_TIMESTAMP else MAX_TIMESTAMP  # noqa: FURB136  min() takes thrice as long

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the windows overlap or touch. Windows that touch merge, as in Flink's ``TimeWindow.intersects``.

        Args:
            other: The other window.
        """
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that holds both.

        Args:
            other: The other window.
        """
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))


_FARTHEST: Final = 2**64
"""How far bounds may lie from the epoch: a window with a timestamp may begin before all of them, or end after them."""


def _new_time_window(class_: type[TimeWindow], start: int, end: int) -> TimeWindow:
    if type(start) is not int or type(end) is not int or not -_FARTHEST <= start <= end <= _FARTHEST:
        start, end = _bound(start, "start"), _bound(end, "end")
        if start > end:
            raise InvalidArgumentError(
                "a window ends before it starts",
                given=f"TimeWindow({start}, {end})",
                expected="a start, and an end that is not below it, in milliseconds",
            )
    return tuple.__new__(class_, (start, end))


def _bound(bound: int, name: str) -> int:
    is_far = type(bound) is int and -_FARTHEST <= bound <= _FARTHEST
    return bound if is_far else timestamp_millis(bound, f"the {name} of a window")


# The class statement of a named tuple takes no __new__. The module is that of the constructor which namedtuple writes,
# by which codecs know that a tuple of the fields is all that it makes.
_new_time_window.__module__ = TimeWindow.__new__.__module__
TimeWindow.__new__ = _new_time_window  # type: ignore[method-assign, assignment]  # it makes the same tuple


class GlobalWindow(NamedTuple):
    """The one window that holds all elements of a key. Its last timestamp is the highest there is."""

    def max_timestamp(self) -> int:
        """:data:`windrow.time.MAX_TIMESTAMP`."""
        return MAX_TIMESTAMP


def window_start(timestamp: int, offset: int, size: int) -> int:
    """The start of the window of ``size`` that holds ``timestamp``, windows being shifted by ``offset``.

    All in milliseconds. The arithmetic floors, so it holds for timestamps before the epoch too.

    Args:
        timestamp: A timestamp in the window.
        offset: How far windows are shifted from the epoch.
        size: The length of a window, above zero.
    """
    return timestamp - (timestamp - offset) % size
