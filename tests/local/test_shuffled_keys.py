"""``shuffles_keys`` has the interpreter process the keys of a batch in another order, as Spark may do."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from windrow import DataStream, OutputTag, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import InvalidArgumentError
from windrow.functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
)
from windrow.sources import CollectionSource
from windrow.state import MapStateDescriptor, ValueStateDescriptor
from windrow.triggers import after_count, repeatedly
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: streams of every type.

SEEDS = range(1, 6)
SECOND = timedelta(seconds=1)


class Event(NamedTuple):
    key: str
    at: int
    number: int = 0


EVENTS = [Event("abcde"[number * 7 % 5], number * 130 - number % 3 * 400, number) for number in range(60)]


def stream_of(events: Iterable[Event], size: int | None = None) -> DataStream[Event]:
    return from_source(CollectionSource(events, Event, batch_size=size)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=300)), timestamp=lambda event: event.at
    )


def run(stream: DataStream[Any], seed: int | None) -> list[Any]:
    return stream.collect(LocalRunner(shuffles_keys=seed))


class Echo(KeyedProcessFunction[str, Event, str]):
    """Emits each element, and a timer's time; counts its calls by key."""

    calls = ValueStateDescriptor("calls", int)

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[str]:
        state = context.get_state(self.calls)
        state.update((state.value() or 0) + 1)
        context.timer_service.register_event_time_timer(value.at + 100)
        yield f"{value.key} {value.number} {state.value()}"

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[str]:
        yield f"{context.key} at {timestamp} {context.get_state(self.calls).value()}"


class Both(KeyedCoProcessFunction[str, Event, Event, str]):
    def process_element1(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[str]:
        yield f"{value.key} 1 {value.number}"

    def process_element2(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[str]:
        yield f"{value.key} 2 {value.number}"


RULES = MapStateDescriptor("rules", str, int)


class Ruled(KeyedBroadcastProcessFunction[str, Event, Event, str]):
    def process_element(self, value: Event, context: Any) -> Iterable[str]:
        context.timer_service.register_event_time_timer(value.at + 50)
        yield f"{value.key} {value.number} {context.get_broadcast_state(RULES).get(value.key)}"

    def process_broadcast_element(self, value: Event, context: Any) -> None:
        context.get_broadcast_state(RULES).put(value.key, value.number)

    def on_timer(self, timestamp: int, context: Any) -> Iterable[str]:
        yield f"{context.key} at {timestamp}"


def streams(size: int | None) -> dict[str, DataStream[Any]]:
    events = stream_of(EVENTS, size)
    others = stream_of(EVENTS[::-1], size)
    keyed, other_keys = (each.key_by(lambda event: event.key, str) for each in (events, others))
    late = OutputTag("late", Event)
    tumbling = keyed.window(TumblingEventTimeWindows.of(SECOND)).side_output_late_data(late)
    counted: Any = agg.combine(agg.key(), agg.count(), agg.sum(lambda event: event.number))
    windows = tumbling.aggregate(counted)
    both: Any = events.join(others).where(lambda e: e.key).equal_to(lambda e: e.key)
    return {
        "windows": windows,
        "late": windows.get_side_output(late),
        "sliding": keyed.window(SlidingEventTimeWindows.of(2 * SECOND, SECOND)).aggregate(counted),
        "sessions": keyed.window(EventTimeSessionWindows.with_gap(SECOND / 4)).aggregate(counted),
        "panes": keyed.window(TumblingEventTimeWindows.of(SECOND))
        .trigger(repeatedly(after_count(2)))
        .aggregate(counted),
        "function": keyed.process(Echo()),
        "rolling": keyed.sum(lambda event: event.number),
        "window join": both.window(TumblingEventTimeWindows.of(SECOND)).apply(lambda a, b: (a.number, b.number)),
        "interval join": keyed.interval_join(other_keys)
        .between(-SECOND, SECOND)
        .apply(lambda a, b: (a.key, a.number, b.number)),
        "as-of join": keyed.left_as_of_join(other_keys).apply(lambda a, b: (a.key, a.number, b and b.number)),
        "connected": keyed.connect(other_keys).process(Both()),
        "broadcast": keyed.connect(others.broadcast(RULES)).process(Ruled()),
        "chain": windows.key_by(lambda row: row[0], str).window(TumblingEventTimeWindows.of(2 * SECOND)).count(),
        "chain of one key": windows.window_all(TumblingEventTimeWindows.of(2 * SECOND)).count(),
    }


def of_key(results: list[Any]) -> dict[str, list[Any]]:
    """The results of each key, in their order."""
    by_key: dict[str, list[Any]] = {}
    for each in results:
        by_key.setdefault(str(each[0]), []).append(each)
    return by_key


@pytest.mark.parametrize("size", [None, 7])
@pytest.mark.parametrize("name", streams(None))
def test_keys_come_in_another_order_and_each_key_in_its_own(name: str, size: int | None) -> None:
    plain = run(streams(size)[name], None)
    orders = []
    for seed in SEEDS:
        shuffled = run(streams(size)[name], seed)
        assert sorted(map(repr, shuffled)) == sorted(map(repr, plain))
        if name not in {"chain", "chain of one key", "late", "window join"}:
            assert of_key(shuffled) == of_key(plain)
            assert shuffled != plain
        orders.append(shuffled)
        assert run(streams(size)[name], seed) == shuffled, "a seed gives one order"
    if name in {"windows", "function", "rolling", "sliding"}:
        assert len({repr(order) for order in orders}) > 1, "seeds give several orders"


@pytest.mark.parametrize("seed", [*SEEDS, 0, -3])
def test_a_test_that_leans_on_the_order_of_two_keys_fails_with_every_seed(seed: int) -> None:
    two = [Event("b", 100, 1), Event("a", 50, 2)]
    keyed = stream_of(two).key_by(lambda event: event.key, str)
    windows = keyed.window(TumblingEventTimeWindows.of(SECOND)).aggregate(agg.combine(agg.key(), agg.count()))
    again = windows.key_by(lambda row: row[0], str).reduce(lambda _, row: row)
    for stream in (windows, again, keyed.process(Echo())):
        assert run(stream, seed) != run(stream, None)
    calls: list[str] = []

    class Watched(Echo):
        def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[str]:
            calls.append(value.key)
            return super().process_element(value, context)

        def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[str]:
            calls.append(f"timer of {context.key}")
            return ()

    run(keyed.process(Watched()), seed)
    assert calls == ["a", "b", "timer of b", "timer of a"]  # unshuffled: b, a, and the timer of a is the earlier one


def test_a_harness_shuffles_each_step_of_the_test() -> None:
    source = PushSource(Event)
    windows = from_source(source).key_by(lambda event: event.key, str).window(TumblingEventTimeWindows.of(SECOND))
    stream = windows.aggregate(agg.combine(agg.key(), agg.count()))
    for explains in (True, False):
        with StreamHarness(stream, source, shuffles_keys=7, explains=explains) as harness:
            for key in "abab":
                harness.process_element(Event(key, 10), 10)
            assert len(harness.open_windows()) == len(harness.event_timers()) == 2
            harness.snapshot_restore()
            harness.process_watermark(998)
            assert harness.take_values() == []
            harness.process_watermark(999)
            assert harness.take_values() == [("b", 2), ("a", 2)]
            assert (harness.open_windows(), harness.event_timers()) == ([], [])


def test_keys_that_are_no_number_are_one_key() -> None:
    rows = [(math.nan, 1), (1.0, 2), (float("nan"), 3), (1.0, 4)]
    keyed = from_source(CollectionSource(rows, tuple[float, int])).key_by(lambda row: row[0], float)
    assert sorted(value for _, value in run(keyed.sum(lambda row: row[1]), 3)) == [1, 2, 4, 6]


@pytest.mark.parametrize("seed", ["7", 1.0, True])
def test_a_seed_is_an_int(seed: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="shuffles_keys=1, or another int"):
        LocalRunner(shuffles_keys=seed)
    source = PushSource(Event)
    with pytest.raises(InvalidArgumentError, match="the order of keys comes from a seed"):
        StreamHarness(from_source(source), source, shuffles_keys=seed)
    assert repr(LocalRunner(shuffles_keys=7)) == "LocalRunner(shuffles_keys=7)"
