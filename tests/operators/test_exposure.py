"""Which parts of a window step get copies of elements: those that may change them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windrow.evictors import DeltaEvictor, Evictor
from windrow.triggers import DeltaTrigger, Trigger
from windrow.windows import WindowAssigner

# Any in this module: classes of every kind.


def own_classes(base: type[Any]) -> Iterator[str]:
    """The public classes of windrow that are derived from a class."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith("windrow.") and not kind.__name__.startswith("_"):
            yield kind.__name__
        yield from own_classes(kind)


def test_a_part_of_windrow_that_hands_elements_to_functions_is_named_where_copies_are_chosen() -> None:
    """A class that is new here is looked at in `windows/contents.py`: does it keep elements, or hand them on?"""
    assert set(own_classes(Trigger)) == {
        *("ContinuousEventTimeTrigger", "ContinuousProcessingTimeTrigger", "CountTrigger"),
        *("CountOrEndOfStreamTrigger", "EndOfStreamTrigger"),
        *("EventTimeTrigger", "MergingTrigger", "NeverTrigger", "ProcessingTimeTrigger", "StateCleaningCountTrigger"),
        # These ask another trigger.
        *("EventTimeoutTrigger", "MergingEventTimeoutTrigger"),
        *("MergingProcessingTimeoutTrigger", "MergingPurgingTrigger", "ProcessingTimeoutTrigger", "PurgingTrigger"),
        *("AfterAll", "AfterAny", "AfterEach", "AfterWatermark", "FiringTrigger", "OrFinally", "PartsTrigger"),
        *("MergingAfterAll", "MergingAfterAny", "MergingAfterEach", "MergingAfterWatermark", "MergingFiringTrigger"),
        *("MergingOrFinally", "MergingRepeatedly", "Repeatedly"),
        # These look at no element.
        *("AfterCount", "AfterEndOfWindow", "AfterProcessingTime", "Always", "DefaultTrigger", "Never"),
        *("ComposableTrigger", "MergingComposableTrigger"),
        DeltaTrigger.__name__,
    }
    assert set(own_classes(Evictor)) == {"CountEvictor", "TimeEvictor", DeltaEvictor.__name__}
    assert set(own_classes(WindowAssigner)) == {
        *("EventTimeSessionWindows", "GlobalWindows", "MergingWindowAssigner", "ProcessingTimeSessionWindows"),
        *("SessionWindows", "TumblingEventTimeWindows", "TumblingProcessingTimeWindows"),
        *("InEventTime", "InProcessingTime"),
        # An element is in several windows.
        *("SlidingEventTimeWindows", "SlidingProcessingTimeWindows"),
        *("CalendarProcessingTimeWindows", "CalendarWindows", "CumulativeEventTimeWindows"),
        # A function gets each element.
        *("DynamicEventTimeSessionWindows", "DynamicProcessingTimeSessionWindows"),
    }
