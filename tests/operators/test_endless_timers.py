"""Timers that set their successors have to come to an end when the stream does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.operators.stories import collected
from tests.support.records import Event, key_of
from windrow import DataStream, KeyedStream, WatermarkStrategy, from_source
from windrow.errors import UnsupportedOperationError
from windrow.functions import KeyedCoProcessFunction, KeyedProcessContext, KeyedProcessFunction, TimeDomain
from windrow.sources import CollectionSource
from windrow.state import StateTtlConfig, ValueStateDescriptor
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import ContinuousEventTimeTrigger, Trigger, TriggerContext, TriggerResult
from windrow.windows import GlobalWindows, TumblingEventTimeWindows
from windrow_runtime.operators.operator import LONGEST_CHAIN
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: results of every type.

MINUTE = 60_000
START = 10**12


IN_ORDER = WatermarkStrategy[Event].for_monotonous_timestamps()


def keyed(*times: int, strategy: WatermarkStrategy[Event] = IN_ORDER) -> KeyedStream[Event, str]:
    source = CollectionSource([Event("a", at, number) for number, at in enumerate(times)], batch_size=1)
    stream = from_source(source).assign_timestamps_and_watermarks(strategy, timestamp=lambda event: event.at)
    return stream.key_by(lambda event: event.key)


class EachMinute(KeyedProcessFunction[str, Event, int]):
    """Emits the time once a minute, for ever or until a time."""

    def __init__(self, until: int = MAX_TIMESTAMP) -> None:
        self.until = until

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> None:
        context.timer_service.register_event_time_timer(value.at + MINUTE)

    def on_timer(self, timestamp: int, context: KeyedProcessContext[str]) -> Iterator[int]:
        if timestamp < self.until:
            context.timer_service.register_event_time_timer(timestamp + MINUTE)
        yield timestamp


class Both(KeyedCoProcessFunction[str, Event, Event, int]):
    def process_element1(self, value: Event, context: Any) -> None:
        context.timer_service.register_event_time_timer(value.at + MINUTE)

    def process_element2(self, value: Event, context: Any) -> None:
        """Sets no timer."""

    def on_timer(self, timestamp: int, context: Any) -> Iterator[int]:
        context.timer_service.register_event_time_timer(timestamp + MINUTE)
        yield timestamp


class Sloppy(Trigger[Event, Any]):
    """Sets timers behind the end of its window."""

    def on_element(self, element: Event, timestamp: int, window: Any, context: TriggerContext) -> TriggerResult:
        context.register_event_time_timer(timestamp + MINUTE)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, context: TriggerContext) -> TriggerResult:
        context.register_event_time_timer(time + MINUTE)
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, context: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Any, context: TriggerContext) -> None:
        """Leaves its timers behind."""


def _count(key: str, window: Any, elements: Iterable[Event]) -> Sequence[int]:
    return [sum(1 for _ in elements)]


HOURS: Any = TumblingEventTimeWindows.of(timedelta(hours=1))
ALL_TIME: Any = GlobalWindows.create()


@pytest.mark.parametrize(
    "stream",
    [
        keyed(0).process(EachMinute(), name="minutes"),
        keyed(0).connect(keyed(0)).process(Both(), name="minutes"),
        keyed(0).window(ALL_TIME).trigger(Sloppy()).apply(_count, name="minutes"),
        keyed(0).window(HOURS).trigger(Sloppy()).apply(_count, name="minutes"),
    ],
    ids=["process", "connected", "in all time", "in windows"],
)
def test_a_chain_of_timers_without_end_is_an_error(stream: DataStream[Any]) -> None:
    with pytest.raises(UnsupportedOperationError, match="sets its successor without end") as caught:
        collected(stream)
    text = str(caught.value)
    assert "minutes" in str(caught.value.where)
    assert "test_endless_timers.py:" in str(caught.value.where)
    assert "key 'a'" in text
    assert "drain=False" in text
    collected(stream, drain=False)


PUSHED = PushSource(Event)
BY_KEY = from_source(PUSHED).key_by(key_of)


def test_a_chain_without_end_is_an_error_in_a_harness() -> None:
    with StreamHarness(BY_KEY.process(EachMinute()), PUSHED) as harness:
        harness.process_element(Event("a", 0, 0), timestamp=0)
        harness.process_watermark(100 * MINUTE)
        assert len(harness.take_output()) == 100
        with pytest.raises(UnsupportedOperationError, match="without end"):
            harness.process_watermark(MAX_TIMESTAMP)


class AtOnce(KeyedProcessFunction[str, Event, int]):
    """Sets a timer again for its own time, or an earlier one."""

    uses_processing_time = True

    def __init__(self, back: int, *, by_clock: bool = False) -> None:
        self.back = back
        self.by_clock = by_clock

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> None:
        self.register(context, MINUTE)

    def on_timer(self, timestamp: int, context: KeyedProcessContext[str]) -> None:
        self.register(context, timestamp - self.back)

    def register(self, context: KeyedProcessContext[str], time: int) -> None:
        if self.by_clock:
            context.timer_service.register_processing_time_timer(time)
        else:
            context.timer_service.register_event_time_timer(time)


class Again(Sloppy):
    """Sets the timer that fires again."""

    def on_event_time(self, time: int, window: Any, context: TriggerContext) -> TriggerResult:
        context.register_event_time_timer(time)
        return TriggerResult.CONTINUE


@pytest.mark.parametrize("drain", [True, False])
@pytest.mark.parametrize("back", [0, 1])
def test_timers_that_follow_each_other_at_one_time_are_an_error(back: int, drain: bool) -> None:
    with pytest.raises(UnsupportedOperationError, match="due at once, without end") as caught:
        collected(keyed(0, 2 * MINUTE, 3 * MINUTE).process(AtOnce(back)), drain=drain)
    assert "key 'a'" in str(caught.value)
    assert "test_endless_timers.py:" in str(caught.value.where)


@pytest.mark.parametrize("back", [0, 1])
def test_timers_of_the_clock_that_follow_each_other_at_one_time_are_an_error(back: int) -> None:
    with StreamHarness(BY_KEY.process(AtOnce(back, by_clock=True)), PUSHED) as harness:
        harness.set_processing_time(0)
        harness.process_element(Event("a", 0, 0))
        with pytest.raises(UnsupportedOperationError, match="due at once, without end"):
            harness.set_processing_time(2 * MINUTE)


def test_a_trigger_that_sets_its_timer_again_is_an_error() -> None:
    with StreamHarness(BY_KEY.window(HOURS).trigger(Again()).apply(_count), PUSHED) as harness:
        harness.process_element(Event("a", 0, 0), timestamp=0)
        with pytest.raises(UnsupportedOperationError, match="due at once, without end"):
            harness.process_watermark(2 * MINUTE)


def test_many_keys_may_set_timers_for_the_time_that_fires() -> None:
    class Once(AtOnce):
        def on_timer(self, timestamp: int, context: KeyedProcessContext[str]) -> None:
            if timestamp == MINUTE:
                self.register(context, timestamp - 1)

    with StreamHarness(BY_KEY.process(Once(0)), PUSHED) as harness:
        for number in range(LONGEST_CHAIN + 1):
            harness.process_element(Event(str(number), 0, number), timestamp=0)
        harness.process_watermark(2 * MINUTE)


def test_a_continuous_trigger_fires_the_window_of_all_time_once_at_the_end() -> None:
    trigger = ContinuousEventTimeTrigger.of(timedelta(minutes=1))
    assert collected(keyed(0, 1).window(ALL_TIME).trigger(trigger).apply(_count)) == [2]


def test_a_long_chain_before_the_end_is_none() -> None:
    # A watermark that jumps by a month fires all timers on its way; so does one a minute until then.
    minutes = 30 * 24 * 60
    found = collected(keyed(START, START + minutes * MINUTE).process(EachMinute(START + minutes * MINUTE - 1)))
    assert len(found) == minutes + 1 > LONGEST_CHAIN


def test_a_chain_that_ends_with_its_window_is_none() -> None:
    # One pane each second of a window of a day, all of them at the end of the stream.
    windows = keyed(0).window(TumblingEventTimeWindows.of(timedelta(days=1)))
    fired = windows.trigger(ContinuousEventTimeTrigger.of(timedelta(seconds=1))).apply(_count)
    assert len(collected(fired)) == 24 * 60 * 60


class Fan(EachMinute):
    """Sets many timers at once, which have no successors."""

    def on_timer(self, timestamp: int, context: KeyedProcessContext[str]) -> Iterator[int]:
        if timestamp == MINUTE:
            for number in range(2 * LONGEST_CHAIN):
                context.timer_service.register_event_time_timer(MINUTE + 1 + number)
        yield timestamp


def test_many_timers_of_one_callback_are_no_chain() -> None:
    assert len(collected(keyed(0).process(Fan()))) == 2 * LONGEST_CHAIN + 1


class Beat(KeyedProcessFunction[str, Event, int]):
    """Emits the time each second, up to the last element."""

    LAST = ValueStateDescriptor("last", int)

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> None:
        context.get_state(self.LAST).update(value.at)
        context.timer_service.register_event_time_timer(value.at + 1000)

    def on_timer(self, timestamp: int, context: KeyedProcessContext[str]) -> list[int]:
        last = context.get_state(self.LAST).value()
        if last is not None and timestamp < last:
            context.timer_service.register_event_time_timer(timestamp + 1000)
        return [timestamp]


@pytest.mark.parametrize("late", [timedelta(0), timedelta(days=1)])
def test_timers_may_follow_each_other_as_far_as_elements_lie(late: timedelta) -> None:
    seconds = 2 * LONGEST_CHAIN
    strategy = WatermarkStrategy[Event].for_bounded_out_of_orderness(late)
    beats = keyed(0, 1000 * seconds, strategy=strategy).process(Beat())
    assert len(collected(beats)) == seconds + 1


class ForEver(KeyedProcessFunction[str, Event, int]):
    """Counts the elements of a key in state that does not expire in this world."""

    COUNT = ValueStateDescriptor("count", int, ttl=StateTtlConfig(timedelta.max, time_domain=TimeDomain.EVENT_TIME))

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> list[int]:
        count = context.get_state(self.COUNT)
        count.update((count.value() or 0) + 1)
        return [count.value() or 0]


def test_state_that_outlives_the_stream_sets_no_timer_again_and_again() -> None:
    assert collected(keyed(START, START + 1).process(ForEver())) == [1, 2]
