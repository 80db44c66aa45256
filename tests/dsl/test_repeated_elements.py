"""explain() says where panes repeat elements that a step downstream adds up; runs show that they count again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.dsl.plans import IN_ORDER, SECOND, plan
from windrow import DataStream, KeyedStream, OutputTag, from_source
from windrow import aggregates as agg
from windrow.evictors import CountEvictor
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sources import CollectionSource
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeoutTrigger,
    PurgingTrigger,
    Trigger,
    after_count,
    after_watermark,
    repeatedly,
)
from windrow.windows import GlobalWindows, TumblingEventTimeWindows

# Any in this module: stages of every type.
NUMBERS = from_source(CollectionSource([3, 4, 5, 70], batch_size=1)).assign_timestamps_and_watermarks(
    IN_ORDER, timestamp=lambda number: number * 1_000 if number > 9 else 0
)
KEYED: KeyedStream[int, int] = NUMBERS.key_by(lambda number: 0)
MINUTE = TumblingEventTimeWindows.of(timedelta(minutes=1))
late = OutputTag("late", int)


def hour(stream: DataStream[Any]) -> Any:
    return stream.key_by(lambda each: 0).window(TumblingEventTimeWindows.of(timedelta(hours=1)))


def adds(stream: DataStream[Any]) -> DataStream[Any]:
    added: DataStream[Any] = hour(stream).sum(lambda total: total)
    return added


def remarks(stream: DataStream[Any]) -> list[str]:
    """The steps downstream that have a remark, and the steps that it names."""
    lines = plan(stream).explain().splitlines()
    found = []
    for step, line in pairwise(lines):
        if "count again here" in line:
            found.append(f"{step.split()[1]} {line.strip().partition(' hold ')[0]}")
            assert line.endswith("discarding() there counts each once, retracting() leaves the last pane")
    return found


def total(*changes: Callable[[Any], Any], assigner: Any = MINUTE) -> DataStream[int]:
    stage: Any = KEYED.window(assigner)
    for change in changes:
        stage = change(stage)
    made: DataStream[int] = stage.reduce(lambda a, b: a + b, name="total")
    return made


REPEATING: dict[str, DataStream[int]] = {
    "a count without purging": total(lambda w: w.trigger(CountTrigger.of(1))),
    "a count in the global window": total(lambda w: w.trigger(CountTrigger.of(1)), assigner=GlobalWindows.create()),
    "a continuous trigger": total(lambda w: w.trigger(ContinuousEventTimeTrigger.of(SECOND))),
    "allowed lateness": total(lambda w: w.allowed_lateness(SECOND)),
    "late panes": total(lambda w: w.trigger(after_watermark(late=after_count(1))).allowed_lateness(SECOND)),
    "early panes": total(lambda w: w.trigger(after_watermark(early=after_count(1)))),
    "repeatedly": total(lambda w: w.trigger(repeatedly(after_count(1))).accumulating()),
    "accumulating written out": total(lambda w: w.trigger(CountTrigger.of(1)).accumulating()),
    "a timeout that keeps the elements": total(
        lambda w: w.trigger(EventTimeoutTrigger.of(CountTrigger.of(9), SECOND, should_clear_on_timeout=False))
    ),
}


class Own(Trigger[object, Any]):
    """A trigger of a user's, which may purge."""


SINGLE: dict[str, DataStream[int]] = {
    "windows that fire once": total(),
    "windows that fire once, by a trigger that composes": total(lambda w: w.trigger(after_watermark())),
    "late panes without lateness": total(lambda w: w.trigger(after_watermark(late=after_count(1)))),
    "discarding": total(lambda w: w.trigger(CountTrigger.of(1)).discarding()),
    "retracting": total(lambda w: w.trigger(CountTrigger.of(1)).retracting()),
    "purging": total(lambda w: w.trigger(PurgingTrigger.of(CountTrigger.of(1)))),
    "a count window": KEYED.count_window(2).reduce(lambda a, b: a + b, name="total"),
    "a count window that slides": KEYED.count_window(2, 1).reduce(lambda a, b: a + b, name="total"),
    "an evictor": total(lambda w: w.trigger(CountTrigger.of(1)).evictor(CountEvictor.of(1))),
    "a trigger of a user's": total(lambda w: w.trigger(Own())),
    "no windows": NUMBERS,
}


@pytest.mark.parametrize("case", REPEATING)
def test_panes_that_repeat_elements_are_told_where_they_are_added_up(case: str) -> None:
    assert remarks(adds(REPEATING[case])) == ["window panes of step 4"]
    assert remarks(REPEATING[case]) == []


@pytest.mark.parametrize("case", SINGLE)
def test_other_windows_are_added_up_without_a_remark(case: str) -> None:
    assert remarks(adds(SINGLE[case])) == []


EARLY = REPEATING["early panes"]


class Passing(KeyedProcessFunction[int, int, int]):
    def process_element(self, value: int, context: KeyedProcessContext[int]) -> Iterable[int]:
        return [value]


with_late = KEYED.window(MINUTE).trigger(CountTrigger.of(1)).side_output_late_data(late)
DOWNSTREAM: dict[str, tuple[DataStream[Any], bool]] = {
    "functions": (adds(EARLY.map(lambda each: each).filter(lambda each: True).flat_map(lambda each: [each])), True),
    "a union": (adds(NUMBERS.union(EARLY)), True),
    "changes as records": (adds(EARLY.changelog(lambda kind, each: each)), True),
    "other watermarks": (adds(EARLY.assign_timestamps_and_watermarks(IN_ORDER)), True),
    "a process function with state": (adds(EARLY.key_by(lambda each: 0).process(Passing())), False),
    "late elements of the windows": (adds(with_late.reduce(max).get_side_output(late)), False),
    "count": (hour(EARLY).count(), True),
    "mean": (hour(EARLY).aggregate(agg.mean(lambda each: each)), True),
    "reduce": (hour(EARLY).reduce(lambda a, b: a + b), True),
    "apply": (hour(EARLY).apply(lambda key, window, each: [len(each)]), True),
    "a combination with a sum": (hour(EARLY).aggregate(agg.combine(agg.max(abs), agg.sum(abs))), True),
    "a rolling sum": (EARLY.key_by(lambda each: 0).sum(lambda each: each), True),
    "a rolling reduce": (EARLY.key_by(lambda each: 0).reduce(lambda a, b: a + b), True),
    "max": (hour(EARLY).max(lambda each: each), False),
    "the last": (hour(EARLY).aggregate(agg.last()), False),
    "a combination of extremes": (hour(EARLY).aggregate(agg.combine(agg.key(), agg.max(lambda e: e))), False),
    "a rolling max": (EARLY.key_by(lambda each: 0).max(lambda each: each), False),
    "a rolling max_by": (EARLY.key_by(lambda each: 0).max_by(lambda each: each), False),
    "a process function": (EARLY.key_by(lambda each: 0).process(Passing()), False),
}


@pytest.mark.parametrize("case", DOWNSTREAM)
def test_panes_are_followed_to_the_steps_that_add_them_up(case: str) -> None:
    stream, is_told = DOWNSTREAM[case]
    assert bool(remarks(stream)) is is_told


def test_each_window_upstream_is_named_once() -> None:
    one, other = (KEYED.window(MINUTE).trigger(CountTrigger.of(1)).reduce(max) for _ in range(2))
    assert remarks(adds(one.union(one.map(lambda each: each), other))) == ["window panes of step 4 and step 6"]


def test_elements_count_again_and_the_hints_avoid_it() -> None:
    """Panes of the first minute hold 3, 7 and 12 early and 12 on time; those of the second 70 early and 70 on time."""
    early: Any = KEYED.window(MINUTE).trigger(after_watermark(early=after_count(1)))
    assert adds(early.sum(lambda number: number)).collect() == [3 + 7 + 12 + 12 + 70 + 70]
    assert adds(early.discarding().sum(lambda number: number).map(lambda each: each or 0)).collect() == [82]
    assert adds(early.retracting().sum(lambda number: number)).collect() == [82]
