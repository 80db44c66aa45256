"""State that expires: each entry of a map and each element of a list by itself, by the clock or by timestamps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from operator import add
from typing import Any, NamedTuple

import pytest

from tests.operators.stories import collected
from windrow import Pipeline, from_collection, from_source
from windrow.errors import InvalidArgumentError, MissingTimestampError, PlanError, UnsupportedOperationError
from windrow.functions import (
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessWindowContext,
    ProcessWindowFunction,
    TimeDomain,
)
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from windrow.watermarks import WatermarkStrategy
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.testing import PushSource, StreamHarness

MINUTE = timedelta(seconds=60)
BY_CLOCK = StateTtlConfig(MINUTE)
BY_READS = StateTtlConfig(MINUTE, refresh_on_read=True)
BY_EVENTS = StateTtlConfig(MINUTE, time_domain=TimeDomain.EVENT_TIME)
BY_EVENT_READS = StateTtlConfig(MINUTE, refresh_on_read=True, time_domain=TimeDomain.EVENT_TIME)

Call = Callable[[Any], Any]
"""What a function does with its state; Any: handles on state of every kind."""


class Calls(KeyedProcessFunction[int, Call, Any]):
    """Does with its state what the element says, and emits what comes of it."""

    def __init__(self, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor

    def process_element(self, value: Call, context: KeyedProcessContext[int]) -> Iterable[Any]:
        state: Any = context.get_state(self.descriptor)  # type: ignore[call-overload]  # of every kind
        yield value(state)


def harness_of(descriptor: StateDescriptor) -> StreamHarness[Call, Any]:
    return StreamHarness(from_source(PushSource[Call]()).key_by(lambda _: 0).process(Calls(descriptor)), explains=False)


def stored(harness: StreamHarness[Any, Any]) -> list[dict[str, Any]]:
    (operator,) = harness._execution.operators.values()
    return [dict(key_state.state) for key_state in operator.state.keys.values()]


@pytest.fixture(params=[BY_CLOCK, BY_EVENTS], ids=["clock", "events"])
def ttl(request: pytest.FixtureRequest) -> StateTtlConfig:
    config: StateTtlConfig = request.param
    return config


class Driver:
    """Calls state at times in one domain, which it alone moves."""

    def __init__(self, descriptor: StateDescriptor) -> None:
        self.harness = harness_of(descriptor)
        assert descriptor.ttl is not None
        self.by_clock = descriptor.ttl.time_domain is TimeDomain.PROCESSING_TIME

    def at(self, seconds: float, call: Call) -> Any:
        millis = int(seconds * 1000)
        if self.by_clock:
            self.harness.set_processing_time(millis)
        self.harness.process_element(call, None if self.by_clock else millis)
        (answer,) = self.harness.take_values()
        return answer

    def advance(self, seconds: float) -> None:
        millis = int(seconds * 1000)
        if self.by_clock:
            self.harness.set_processing_time(millis)
        else:
            self.harness.process_watermark(millis)


def test_each_entry_of_a_map_expires_by_itself(ttl: StateTtlConfig) -> None:
    drive = Driver(MapStateDescriptor("m", str, int, ttl=ttl))
    drive.at(0, lambda m: m.put("a", 1))
    drive.at(40, lambda m: m.put("b", 2))
    assert drive.at(59.999, lambda m: dict(m.items())) == {"a": 1, "b": 2}
    assert drive.at(60, lambda m: dict(m.items())) == {"b": 2}
    assert drive.at(60, lambda m: (m.get("a"), m.contains("a"), list(m.keys()), list(m.values()))) == (
        *(None, False),
        *(["b"], [2]),
    )
    drive.at(70, lambda m: m.put("a", 3))
    assert drive.at(99, lambda m: list(m.keys())) == ["b", "a"]
    assert drive.at(100, lambda m: (list(m.items()), m.is_empty())) == ([("a", 3)], False)
    assert drive.at(130, lambda m: (list(m.items()), m.is_empty())) == ([], True)


def test_each_element_of_a_list_expires_by_itself(ttl: StateTtlConfig) -> None:
    drive = Driver(ListStateDescriptor("l", int, ttl=ttl))
    drive.at(0, lambda state: state.add(1))
    drive.at(30, lambda state: state.add_all([2, 3]))
    assert drive.at(59, lambda state: state.get()) == [1, 2, 3]
    assert drive.at(60, lambda state: state.get()) == [2, 3]
    drive.at(80, lambda state: state.update([*state.get(), 4]))
    assert drive.at(139, lambda state: state.get()) == [2, 3, 4]
    assert drive.at(140, lambda state: state.get()) == []


def test_a_value_expires_as_a_whole(ttl: StateTtlConfig) -> None:
    drive = Driver(ReducingStateDescriptor("r", add, ttl=ttl))
    drive.at(0, lambda state: state.add(1))
    drive.at(59, lambda state: state.add(1))
    assert drive.at(118, lambda state: state.get()) == 2
    assert drive.at(119, lambda state: state.get()) is None
    drive.at(120, lambda state: state.add(5))
    assert drive.at(121, lambda state: state.get()) == 5


def test_a_read_refreshes_the_entries_that_it_reads() -> None:
    for ttl in (BY_READS, BY_EVENT_READS):
        drive = Driver(MapStateDescriptor("m", str, int, ttl=ttl))
        drive.at(0, lambda m: [m.put(name, 1) for name in "abc"])
        drive.at(40, lambda m: (m.get("a"), m.contains("b")))
        assert drive.at(60, lambda m: m.contains("c")) is False
        assert drive.at(90, lambda m: list(m.keys())) == ["a", "b"]
        assert drive.at(149, lambda m: m.get("a")) == 1
        assert drive.at(150, lambda m: list(m.keys())) == ["a"]
        numbers = Driver(ListStateDescriptor("l", int, ttl=ttl))
        numbers.at(0, lambda state: state.add(1))
        assert [numbers.at(time, lambda state: state.get()) for time in (59, 118, 178)] == [[1], [1], []]


@pytest.mark.parametrize("kind", [MapStateDescriptor, ListStateDescriptor, ValueStateDescriptor])
def test_keys_that_never_come_again_leave_nothing(kind: Any, ttl: StateTtlConfig) -> None:
    write = {
        MapStateDescriptor: lambda state: state.put(1, 1),
        ListStateDescriptor: lambda state: state.add(1),
        ValueStateDescriptor: lambda state: state.update(1),
    }[kind]
    drive = Driver(kind("s", ttl=ttl))
    for time in (0, 30, 31, 45):
        drive.at(time, write)
    drive.advance(104.999)
    assert len(stored(drive.harness)) == 1
    drive.advance(105)
    assert stored(drive.harness) == []
    (operator,) = drive.harness._execution.operators.values()
    assert not len(operator.state.processing_timers)
    assert not len(operator.state.event_timers)


def put(key: int, state: Any) -> None:
    state.put(key, 1)


def test_clean_up_frees_entries_of_a_busy_key(ttl: StateTtlConfig) -> None:
    drive = Driver(MapStateDescriptor("m", int, int, ttl=ttl))
    for second in range(600):
        drive.at(second, partial(put, second))
        drive.advance(second)
    ((held,),) = [cells.values() for cells in stored(drive.harness)]
    assert len(held) <= 66


def test_a_snapshot_keeps_the_times(ttl: StateTtlConfig) -> None:
    drive = Driver(MapStateDescriptor("m", str, int, ttl=ttl))
    drive.at(0, lambda m: m.put("a", 1))
    drive.at(30, lambda m: m.put("b", 1))
    drive.harness.snapshot_restore()
    assert drive.at(60, lambda m: list(m.keys())) == ["b"]
    drive.advance(90)
    assert stored(drive.harness) == []


def test_event_time_goes_by_timestamps_out_of_order_too() -> None:
    drive = Driver(MapStateDescriptor("m", str, int, ttl=BY_EVENTS))
    drive.at(100, lambda m: m.put("a", 1))
    assert drive.at(50, lambda m: m.get("a")) == 1
    drive.at(50, lambda m: m.put("a", 2))  # the later write counts
    assert drive.at(159, lambda m: m.get("a")) == 2
    drive.at(20, lambda m: m.put("b", 1))
    assert [drive.at(time, lambda m: m.contains("b")) for time in (79, 80)] == [True, False]
    # What is late reads at the watermark.
    drive.advance(159.999)
    assert drive.at(0, lambda m: list(m.keys())) == ["a"]
    drive.advance(160)
    assert drive.at(0, lambda m: list(m.keys())) == []


class Row(NamedTuple):
    id: str
    time: int


class Distinct(KeyedProcessFunction[int, Row, Row]):
    """Passes on the first row of an id in a minute of event time."""

    seen = MapStateDescriptor("seen", str, bool, ttl=BY_EVENTS)

    def process_element(self, value: Row, context: KeyedProcessContext[int]) -> Iterator[Row]:
        seen = context.get_state(self.seen)
        if not seen.contains(value.id):
            yield value
            seen.put(value.id, True)


def test_a_replay_in_one_batch_gives_what_many_batches_give() -> None:
    rows = [Row("a", 0), Row("a", 30_000), Row("b", 40_000), Row("a", 60_000), Row("b", 99_999), Row("b", 100_000)]
    for size in (1, 2, 6):
        stream = from_source(CollectionSource(rows, Row, batch_size=size)).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda row: row.time
        )
        keyed = stream.key_by(lambda row: 0).process(Distinct())
        found = collected(keyed)
        assert [(row.id, row.time) for row in found] == [("a", 0), ("b", 40_000), ("a", 60_000), ("b", 100_000)]


class Later(KeyedProcessFunction[int, int, bool]):
    """Looks at its state again after some seconds of event time."""

    seen = MapStateDescriptor("seen", int, bool, ttl=BY_EVENTS)

    def process_element(self, value: int, context: KeyedProcessContext[int]) -> None:
        assert context.timestamp is not None
        context.get_state(self.seen).put(value, True)
        for seconds in (59, 60):
            context.timer_service.register_event_time_timer(context.timestamp + seconds * 1000)

    def on_timer(self, timestamp: int, context: OnTimerContext[int]) -> Iterable[bool]:
        return [context.get_state(self.seen).contains(1)]


def test_timers_see_what_there_was_at_their_time() -> None:
    with StreamHarness(from_source(PushSource[int]()).key_by(lambda _: 0).process(Later())) as harness:
        harness.process_element(1, 0)
        harness.process_watermark(1_000_000)
        assert harness.take_values() == [True, False]


def test_event_time_needs_timestamps() -> None:
    rows = from_collection([Row("a", 0)]).key_by(lambda row: 0)
    with pytest.raises(PlanError, match="state of Distinct expires in event time, and the stream has no timestamps"):
        Pipeline("p", rows.process(Distinct()).sink_to(CollectSink[Row]()))
    with harness_of(ValueStateDescriptor("v", int, ttl=BY_EVENTS)) as harness, pytest.raises(MissingTimestampError):
        harness.process_element(lambda state: state.value())
    with pytest.raises(InvalidArgumentError, match="in processing time or in event time"):
        StateTtlConfig(MINUTE, time_domain="event")  # type: ignore[arg-type]  # it is refused


@pytest.mark.parametrize("config", [BY_CLOCK, BY_EVENTS], ids=["clock", "events"])
def test_clean_ups_of_a_former_program_follow_the_time_to_live_of_the_new_one(config: StateTtlConfig) -> None:
    lives = {"longer": replace(config, time_to_live=10 * MINUTE), "none": None}
    for name, ttl in lives.items():
        driver = Driver(ValueStateDescriptor("v", int, ttl=config))
        driver.at(0, lambda state: state.update(1))
        with harness_of(ValueStateDescriptor("v", int, ttl=ttl)) as harness:
            harness._execution.restore(driver.harness._execution.snapshot())
            for advance in (harness.set_processing_time, harness.process_watermark):
                advance(120_000)
            harness.process_element(lambda state: state.value(), 120_000)
            assert harness.take_values() == [1], name
            for advance in (harness.set_processing_time, harness.process_watermark):
                advance(1_000_000)
            assert len(stored(harness)) == (0 if ttl else 1), name


class Counting(ProcessWindowFunction[int, int, int, TimeWindow]):
    """Counts windows of a key in state that expires, which windows do not have."""

    count = ReducingStateDescriptor("count", add, ttl=BY_CLOCK)

    def process(self, key: int, context: ProcessWindowContext[TimeWindow], elements: object) -> Iterable[int]:
        context.global_state.get_state(self.count).add(1)
        return []


def test_state_of_windows_is_refused_a_time_to_live() -> None:
    source = PushSource[int]()
    windows = from_source(source).key_by(lambda _: 0).window(TumblingEventTimeWindows.of(MINUTE))
    with pytest.raises(PlanError, match="Counting gives the state 'count' a time to live"):
        Pipeline("p", windows.process(Counting()).sink_to(CollectSink[int]()))

    # The code of builtins is not read, so that the plan cannot see this.
    hidden = partial(ValueStateDescriptor[int], "count", ttl=BY_CLOCK)

    class Hidden(ProcessWindowFunction[int, int, int, TimeWindow]):
        def process(self, key: int, context: ProcessWindowContext[TimeWindow], elements: object) -> Iterable[int]:
            store = context.window_state if key else context.global_state
            store.get_state(hidden()).update(1)
            return []

    with StreamHarness(windows.process(Hidden())) as harness:
        harness.process_element(1, 0)
        with pytest.raises(UnsupportedOperationError, match="does not expire"):
            harness.process_watermark(60_000)


@pytest.mark.parametrize("after", [None, BY_EVENTS, BY_CLOCK])
@pytest.mark.parametrize("before", [None, BY_EVENTS, BY_CLOCK])
def test_state_is_kept_where_its_time_to_live_changes(
    before: StateTtlConfig | None, after: StateTtlConfig | None
) -> None:
    class Changing(KeyedProcessFunction[int, int, Any]):
        def process_element(self, value: int, context: KeyedProcessContext[int]) -> Iterable[Any]:
            ttl = before if value == 0 else after
            names = context.get_state(MapStateDescriptor("m", str, int, ttl=ttl))
            numbers = context.get_state(ListStateDescriptor("l", int, ttl=ttl))
            total = context.get_state(ReducingStateDescriptor("r", add, ttl=ttl))
            if value == 0:
                names.put("a", 1)
                numbers.add(2)
                total.add(3)
            yield dict(names.items()), numbers.get(), total.get()

    with StreamHarness(from_source(PushSource[int]()).key_by(lambda _: 0).process(Changing())) as harness:
        harness.set_processing_time(0)
        harness.process_element(0, 0)
        harness.process_element(1, 1000)
        assert harness.take_values() == [({"a": 1}, [2], 3)] * 2
