"""Windows and the assigners that put elements into them."""

from typing import TYPE_CHECKING

from windrow.calls.other_names import unknown_name
from windrow.windows.assigner import AssignerContext, Merge, MergingWindowAssigner, WindowAssigner
from windrow.windows.calendar import CalendarProcessingTimeWindows, CalendarWindows, Weekday
from windrow.windows.cumulative import CumulativeEventTimeWindows
from windrow.windows.global_windows import GlobalWindows
from windrow.windows.sessions import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindows,
    merge_time_windows,
)
from windrow.windows.sliding import SlidingEventTimeWindows, SlidingProcessingTimeWindows
from windrow.windows.stagger import WindowStagger
from windrow.windows.tumbling import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from windrow.windows.window import GlobalWindow, TimeWindow, Window, window_start

__all__ = [
    "AssignerContext",
    "CalendarProcessingTimeWindows",
    "CalendarWindows",
    "CumulativeEventTimeWindows",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "GlobalWindow",
    "GlobalWindows",
    "Merge",
    "MergingWindowAssigner",
    "ProcessingTimeSessionWindows",
    "SessionWindows",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeWindow",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Weekday",
    "Window",
    "WindowAssigner",
    "WindowStagger",
    "merge_time_windows",
    "window_start",
]

if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

    def __getattr__(name):
        """Says what to write instead of a name of another module, or of other systems."""
        raise unknown_name(__name__, name)
