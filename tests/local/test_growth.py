"""Ten times the elements of a key take some ten times the time, whatever is kept of them: lists, timers, windows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from tests.growth import assert_no_square
from tests.support.records import KeyAt, millis
from tests.waiting_trigger import WaitingTrigger
from windrow import DataStream, KeyedStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.evictors import CountEvictor, DeltaEvictor, TimeEvictor
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.triggers import CountTrigger, TriggerContext, TriggerResult, after_count, repeatedly
from windrow.windows import EventTimeSessionWindows, GlobalWindow, GlobalWindows, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner

# Any in this module: results of every type.


Keyed = KeyedStream[KeyAt, str]


class Timers(KeyedProcessFunction[str, KeyAt, int]):
    """Sets a timer for each element, and takes every other one back."""

    def process_element(self, value: KeyAt, context: KeyedProcessContext[str]) -> None:
        service = context.timer_service
        service.register_event_time_timer(value.at + 5)
        if value.at % 2:
            service.delete_event_time_timer(value.at + 5)

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[int]:
        return [timestamp]


class ManyTimers(WaitingTrigger[KeyAt]):
    """Sets a timer of one window for each element."""

    def on_element(
        self, element: KeyAt, timestamp: int, window: GlobalWindow, context: TriggerContext
    ) -> TriggerResult:
        context.register_event_time_timer(timestamp + 5)
        return TriggerResult.CONTINUE


def all_time(keyed: Keyed, every: int) -> Any:
    return keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(every))


def sizes(windows: Any) -> DataStream[int]:
    stream: DataStream[int] = windows.apply(lambda key, window, elements: [len(list(elements))])
    return stream


PLANS: dict[str, Callable[[Keyed, Keyed], DataStream[Any]]] = {
    "timers of a key": lambda one, _: one.process(Timers()),
    "timers of a window": lambda one, _: sizes(one.window(GlobalWindows.create()).trigger(ManyTimers())),
    "open windows": lambda one, _: sizes(one.window(TumblingEventTimeWindows.of(millis(10)))),
    "open sessions": lambda one, _: sizes(one.window(EventTimeSessionWindows.with_gap(millis(10)))),
    "a session that grows": lambda one, _: sizes(one.window(EventTimeSessionWindows.with_gap(millis(500)))),
    "sessions that fire panes": lambda one, _: (
        one.window(EventTimeSessionWindows.with_gap(millis(10)))
        .trigger(repeatedly(after_count(1)))
        .aggregate(agg.count())
    ),
    "largest of a session": lambda one, _: one.window(EventTimeSessionWindows.with_gap(millis(500))).aggregate(
        agg.top_k(3, lambda reading: reading.at)
    ),
    "time evictor": lambda one, _: sizes(all_time(one, 10).evictor(TimeEvictor.of(millis(50)))),
    "count evictor": lambda one, _: sizes(all_time(one, 10).evictor(CountEvictor.of(10))),
    "delta evictor": lambda one, _: sizes(
        all_time(one, 10).evictor(DeltaEvictor.of(500.0, lambda old, new: abs(new.at - old.at)))
    ),
    "interval join": lambda one, other: (
        one.interval_join(other).between(millis(0), millis(100)).apply(lambda left, right: (left, right))
    ),
    "as-of join": lambda one, other: one.as_of_join(other).apply(lambda left, right: (left, right)),
    "as-of join with a retention": lambda one, other: (
        one.as_of_join(other).retention(millis(100)).apply(lambda left, right: (left, right))
    ),
}


@pytest.mark.parametrize("order", ["oldest first", "newest first"])
@pytest.mark.parametrize("name", PLANS)
def test_time_grows_with_the_elements_and_not_with_their_square(name: str, order: str) -> None:
    def seconds(count: int) -> float:
        readings = [KeyAt("k", 100 * number) for number in range(count)]
        if order == "newest first":
            readings.reverse()
        # Everything stays until the end of the stream.
        stream = from_source(CollectionSource(readings, KeyAt)).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(days=1)), timestamp=lambda reading: reading.at
        )
        one, other = (stream.key_by(lambda reading: reading.key) for _ in range(2))
        pipeline = Pipeline("growth", PLANS[name](one, other).sink_to(CollectSink[Any]()))
        begin = time.process_time()
        LocalRunner().run(pipeline)
        return time.process_time() - begin

    assert_no_square(seconds, few=1_000, times=10)
