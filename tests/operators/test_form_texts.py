"""What explain() says of the operator that runs a keyed step, and why it is the general one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.assigners import ScriptedWindows
from tests.counting import MergingCount
from windrow import DataStream, KeyedStream, Pipeline, from_source
from windrow import aggregates as agg
from windrow.evictors import CountEvictor
from windrow.functions import (
    KeyedProcessContext,
    KeyedProcessFunction,
    ProcessAllWindowFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
)
from windrow.sinks import CollectSink
from windrow.triggers import CountTrigger, EndOfStreamTrigger, PurgingTrigger
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from windrow_runtime.local import LocalRunner
from windrow_runtime.testing import PushSource

# Any in this module: results of every type.

Element = tuple[str, int]
Keyed = KeyedStream[Element, str]
Build = Callable[[Keyed], DataStream[Any]]


class All(ProcessWindowFunction[Element, int, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Element]) -> list[int]:
        return [len(elements)]


class OfAll(ProcessAllWindowFunction[Element, int, TimeWindow]):
    def process(self, context: ProcessWindowContext[TimeWindow], elements: Sequence[Element]) -> list[int]:
        return [len(elements)]


class Clearing(All):
    def clear(self, context: ProcessWindowContext[TimeWindow]) -> None: ...


class ClearingAll(OfAll):
    def clear(self, context: ProcessWindowContext[TimeWindow]) -> None: ...


class Each(KeyedProcessFunction[str, Element, int]):
    def process_element(self, value: Element, context: KeyedProcessContext[str]) -> list[int]:
        return [value[1]]


SECOND = timedelta(seconds=1)
TUMBLING = TumblingEventTimeWindows.of(SECOND)
SLIDING = SlidingEventTimeWindows.of(2 * SECOND, SECOND)
STAGGERED = TumblingEventTimeWindows.of(SECOND, stagger=WindowStagger.NATURAL)
SCRIPTED: Any = ScriptedWindows(event_time=True)  # of elements of its own


def larger(a: Element, b: Element) -> Element:
    return max(a, b)


def every(keyed: Keyed) -> DataStream[Element]:
    """The elements without their keys."""
    return keyed.flat_map(lambda element: [element]).returns(tuple[str, int])


LOOPS: dict[str, tuple[Build, ...]] = {
    "loop of tumbling windows": (
        lambda keyed: keyed.window(TUMBLING).reduce(larger),
        lambda keyed: keyed.window(TUMBLING).allowed_lateness(SECOND).aggregate(MergingCount()),
        lambda keyed: keyed.window(SlidingEventTimeWindows.of(SECOND, SECOND)).reduce(larger),
        lambda keyed: every(keyed).window_all(TUMBLING).allowed_lateness(SECOND).reduce(larger, OfAll()),
        lambda keyed: keyed.window(TUMBLING).reduce(larger, Clearing()),
    ),
    "loop of sliding windows": (lambda keyed: keyed.window(SLIDING).aggregate(agg.count()),),
    "loop of sessions": (
        lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(SECOND)).process(All()),
        lambda keyed: keyed.window(EventTimeSessionWindows.with_dynamic_gap(lambda _: SECOND)).reduce(larger),
    ),
    "element by element": (lambda keyed: keyed.process(Each()),),
}

GENERAL: dict[str, tuple[Build, ...]] = {
    "an evictor sees each element": (
        lambda keyed: keyed.window(TUMBLING).evictor(CountEvictor.of(2)).reduce(larger),
        lambda keyed: keyed.window(SLIDING).trigger(CountTrigger.of(3)).evictor(CountEvictor.of(2)).process(All()),
    ),
    "CountTrigger(3) is asked at each element": (
        lambda keyed: keyed.window(TUMBLING).trigger(CountTrigger.of(3)).aggregate(agg.count()),
    ),
    "PurgingTrigger(CountTrigger(3)) is asked at each element": (
        lambda keyed: (
            keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3))).reduce(larger)
        ),
    ),
    "there is no loop for GlobalWindows": (
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(EndOfStreamTrigger.create()).reduce(larger),
    ),
    "ProcessingTimeTrigger is asked at each element": (
        lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(SECOND)).reduce(larger),
        lambda keyed: keyed.window(SlidingProcessingTimeWindows.of(SECOND, SECOND)).aggregate(MergingCount()),
    ),
    "windows are staggered": (
        lambda keyed: keyed.window(STAGGERED).reduce(larger),
        lambda keyed: keyed.window(STAGGERED).aggregate(agg.count()),
        lambda keyed: keyed.window(STAGGERED).process(All()),
    ),
    "the function takes all elements of a window": (
        lambda keyed: keyed.window(TUMBLING).process(All()),
        lambda keyed: keyed.window(SLIDING).process(All()),
    ),
    "clear of the function runs between the firings of other windows": (
        lambda keyed: keyed.window(TUMBLING).allowed_lateness(SECOND).reduce(larger, Clearing()),
        lambda keyed: every(keyed).window_all(SLIDING).allowed_lateness(SECOND).reduce(larger, ClearingAll()),
        lambda keyed: (
            keyed.window(EventTimeSessionWindows.with_gap(SECOND)).allowed_lateness(SECOND).reduce(larger, Clearing())
        ),
    ),
    "there is no loop for ScriptedWindows": (
        lambda keyed: keyed.window(SCRIPTED).reduce(larger),
        lambda keyed: keyed.window(SCRIPTED).process(All()),
    ),
}


def explained(build: Build) -> str:
    keyed = from_source(PushSource[Element]()).key_by(lambda element: element[0])
    lines = Pipeline("plan", build(keyed).sink_to(CollectSink[Any]())).explain(LocalRunner()).splitlines()
    (told,) = [line.strip() for line in lines if "runs as" in line]
    return told


@pytest.mark.parametrize("told", LOOPS)
def test_which_loop_runs_a_step(told: str) -> None:
    for build in LOOPS[told]:
        assert explained(build) == f"runs as Python, {told}"


@pytest.mark.parametrize("told", GENERAL)
def test_why_the_general_operator_runs_a_step(told: str) -> None:
    for build in GENERAL[told]:
        assert explained(build) == f"runs as Python, general operator: {told}"
