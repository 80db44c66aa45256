"""Elements of a key in event-time order: against a model, behind windows and timers, and over restores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import NamedTuple

import pytest

from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import UnsupportedOperationError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.plan import EventTimeOrderNode
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.ordered.buffer import EventTimeOrderOperator
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.testing import PushSource, StreamHarness


class Reading(NamedTuple):
    sensor: str
    at: int
    number: int  # of arrival


LATE = OutputTag("late", Reading)


def sensor(reading: Reading) -> str:
    return reading.sensor


def at(reading: Reading) -> int:
    return reading.at


class Seen(KeyedProcessFunction[str, Reading, tuple[Reading, int]]):
    """Emits each element with its timestamp."""

    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> Iterator[tuple[Reading, int]]:
        assert context.timestamp is not None
        yield value, context.timestamp


def readings(chance: Random, count: int) -> list[Reading]:
    return [Reading(chance.choice("abc"), 5 * number + chance.randrange(-40, 10), number) for number in range(count)]


def expected(arriving: list[Reading], lag: int) -> tuple[dict[str, list[Reading]], list[Reading]]:
    """The elements of each key in order, and the late ones, where each element is a batch."""
    by_key: defaultdict[str, list[Reading]] = defaultdict(list)
    late: list[Reading] = []
    highest = watermark = -(1 << 63)
    for reading in arriving:
        highest = max(highest, reading.at)
        if reading.at <= watermark:
            late.append(reading)
        else:
            by_key[reading.sensor].append(reading)
        watermark = highest - lag - 1
    return {key: sorted(values, key=at) for key, values in by_key.items()}, late


@pytest.mark.parametrize("seed", range(8))
def test_elements_come_in_order_over_restores(seed: int) -> None:
    chance = Random(seed)
    source = PushSource(Reading)
    ordered = from_source(source).key_by(sensor).in_event_time_order(late=LATE)
    late = ordered.get_side_output(LATE)
    arriving = readings(chance, 120)
    in_order, too_late = expected(arriving, 20)
    found: defaultdict[str, list[Reading]] = defaultdict(list)
    found_late: list[Reading] = []
    highest = -(1 << 60)
    with StreamHarness(ordered.process(Seen()), source, also=(late,)) as harness:
        for reading in arriving:
            harness.process_element(reading, reading.at)
            highest = max(highest, reading.at)
            harness.process_watermark(highest - 21)
            if chance.random() < 0.1:
                harness.snapshot_restore()
            for record in harness.take_output():
                value, timestamp = record.value
                assert timestamp == record.timestamp == value.at <= highest - 21
                found[value.sensor].append(value)
            found_late += [record.value for record in harness.take(late)]
        harness.process_watermark(1 << 40)
        for record in harness.take_output():
            found[record.value[0].sensor].append(record.value[0])
        assert harness.event_timers() == []
    assert found == in_order
    assert found_late == too_late


def test_as_users_run_it() -> None:
    """The twin: a run with its defaults, whose batches and watermarks nobody chose."""
    arriving = readings(Random(3), 200)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=20))
    stamped = from_collection(arriving, batch_size=1).assign_timestamps_and_watermarks(strategy, at)
    ordered = stamped.key_by(sensor).in_event_time_order(late=LATE)
    sink, late = CollectSink[tuple[str, int]](), CollectSink[Reading]()
    latest = ordered.max(at)
    result = LocalRunner().run(Pipeline("p", latest.sink_to(sink), ordered.get_side_output(LATE).sink_to(late)))
    in_order, too_late = expected(arriving, 20)
    found: defaultdict[str, list[int]] = defaultdict(list)
    for key, time in result.collected(sink):
        found[key].append(time)
    assert found == {key: list(map(at, values)) for key, values in in_order.items()}
    assert result.collected(late) == too_late
    assert too_late


def test_without_a_tag_late_elements_are_counted() -> None:
    source = PushSource(Reading)
    stream = from_source(source).key_by(sensor).in_event_time_order().map(at)
    with StreamHarness(stream, source) as harness:
        harness.process_watermark(10)
        harness.process_element(Reading("a", 10, 0), 10)
        harness.process_element(Reading("a", 11, 0), 11)
        harness.process_watermark(11)
        assert [record.value for record in harness.take_output()] == [11]
        assert harness.counter("late_records_dropped") == 1


class Echo(KeyedProcessFunction[str, Reading, int]):
    """Emits the time of an element that it sees, and 7 ms later that time by a timer."""

    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> list[int]:
        context.timer_service.register_event_time_timer(value.at + 7)
        return [value.at]

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> list[int]:
        return [timestamp]


def test_results_of_windows_and_timers_wait_as_others_do() -> None:
    source = PushSource(Reading)
    keyed = from_source(source).key_by(sensor)
    totals = keyed.window(TumblingEventTimeWindows.of(timedelta(milliseconds=10))).count()
    echoes = keyed.process(Echo())
    stream: DataStream[int] = totals.map(lambda count: -count).union(echoes)
    ordered = stream.key_by(lambda number: 0).in_event_time_order().map(lambda number: number)
    with StreamHarness(ordered, source) as harness:
        for time in (1, 4, 12):
            harness.process_element(Reading("a", time, 0), time)
        harness.process_watermark(30)
        found = [(record.value, record.timestamp) for record in harness.take_output()]
    assert found == [(1, 1), (4, 4), (8, 8), (-2, 9), (11, 11), (12, 12), (-1, 19), (19, 19)]


def test_more_elements_than_may_wait_fail_the_run() -> None:
    source = PushSource(Reading)
    stream = from_source(source).key_by(sensor).in_event_time_order(max_buffered=2).map(at)
    with StreamHarness(stream, source) as harness:
        for time in (3, 1):
            harness.process_element(Reading("a", time, 0), time)
            harness.process_element(Reading("b", time, 0), time)
        harness.process_watermark(2)
        harness.process_element(Reading("a", 4, 0), 4)
        with pytest.raises(UnsupportedOperationError, match=r"than max_buffered allows(.|\n)*at most 2 elements"):
            harness.process_element(Reading("a", 5, 7), 5)


class Output:
    def collect(self, value: object, timestamp: int | None) -> None:
        pass

    def side_output(self, tag: str, value: object, timestamp: int | None) -> None:
        pass


def ordering(max_buffered: int | None, state: OperatorState) -> EventTimeOrderOperator:
    """An operator that goes on with a state."""
    stream = from_source(PushSource(Reading)).key_by(sensor).in_event_time_order(max_buffered=max_buffered).map(at)
    steps = Pipeline("p", stream.sink_to(CollectSink())).steps
    step = next(step for step in steps if isinstance(step.node, EventTimeOrderNode))
    assert isinstance(step.node, EventTimeOrderNode)
    operator = EventTimeOrderOperator(step, step.node)
    operator.bind(state, Output())
    return operator


def test_a_limit_counts_what_waited_before_it_was_set() -> None:
    state = OperatorState()
    ordering(None, state).process_batch(["a"] * 3, [Reading("a", 5, 0)] * 3, [5, 5, 7])
    with pytest.raises(UnsupportedOperationError, match="at most 3 elements"):
        ordering(3, state).process_batch(["a"], [Reading("a", 6, 0)], [6])
    raised = ordering(4, state)
    raised.advance_watermark(5)
    raised.process_batch(["a"] * 2, [Reading("a", 8, 0)] * 2, [8, 9])
    with pytest.raises(UnsupportedOperationError, match="at most 4 elements"):
        raised.process_batch(["a"], [Reading("a", 9, 0)], [9])
    without = ordering(None, state)
    without.process_batch(["a"] * 2, [Reading("a", 9, 0)] * 2, [9, 9])
    without.advance_watermark(20)
    assert state.keys == {}


def test_the_plan_shows_the_order() -> None:
    stream = from_collection([Reading("a", 1, 0)]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), at
    )
    ordered = stream.key_by(sensor).in_event_time_order(late=LATE, max_buffered=9, name="sorted").map(at)
    text = Pipeline("p", ordered.sink_to(CollectSink())).explain()
    assert "at most 9 of a key, late to 'late'" in text
    assert "in_event_time_order" in text
