"""A harness gives each source a watermark of its own, and lets it fall silent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TypeAlias

import pytest

from windrow import DataStream, OutputTag, from_source
from windrow.functions import KeyedCoProcessFunction, KeyedProcessContext, OnTimerContext
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.testing import PushSource, StreamHarness

Build: TypeAlias = Callable[[PushSource[int], PushSource[int]], DataStream[str]]
ALARM = OutputTag("alarm", str)


class Both(KeyedCoProcessFunction[str, int, int, str]):
    """Sets a timer by the clock at each element of the first stream, and one in event time at each of the second."""

    uses_processing_time = True

    def process_element1(self, value: int, context: KeyedProcessContext[str]) -> Iterator[str]:
        context.timer_service.register_processing_time_timer(value)
        yield f"first {value}"

    def process_element2(self, value: int, context: KeyedProcessContext[str]) -> Iterator[str]:
        context.timer_service.register_event_time_timer(value)
        yield f"second {value} under {context.timer_service.current_watermark}"

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterator[str]:
        context.output(ALARM, f"{context.time_domain.value} {timestamp}")
        yield f"timer {timestamp} under {context.timer_service.current_watermark}"


def key(number: int) -> str:
    return "a"


def connected(first: PushSource[int], second: PushSource[int]) -> DataStream[str]:
    return from_source(first).connect(from_source(second)).key_by(key, key).process(Both())


def flat(first: PushSource[int], second: PushSource[int]) -> DataStream[str]:
    """Connected without keys, in front of a step that has some."""
    both = from_source(first).connect(from_source(second)).map(str, str)
    return both.key_by(lambda text: text).reduce(lambda a, b: a)


def joined(first: PushSource[int], second: PushSource[int]) -> DataStream[str]:
    left, right = from_source(first).key_by(key), from_source(second).key_by(key)
    return left.interval_join(right).between(timedelta(0), timedelta(0)).apply(lambda a, b: f"{a} {b}")


def united(first: PushSource[int], second: PushSource[int]) -> DataStream[str]:
    return from_source(first).union(from_source(second)).key_by(key).reduce(max).map(str)


def test_a_step_has_the_lowest_watermark_of_its_sources() -> None:
    first, second = PushSource(int), PushSource(int)
    with StreamHarness(connected(first, second), first) as harness:
        harness.process_element(5, 0, source=second)
        harness.process_watermark(9, source=first)
        assert harness.current_watermark == MIN_TIMESTAMP
        assert harness.take_values() == [f"second 5 under {MIN_TIMESTAMP}"]
        harness.process_watermark(6, source=second)
        harness.process_watermark(4, source=second)
        assert harness.take_values() == ["timer 5 under 6"]
        assert harness.current_watermark == 6
        # The whole stream goes on, whatever its sources have said.
        harness.process_watermark(20)
        harness.process_watermark(19, source=second)
        harness.process_element(30, 0, source=second)
        assert harness.take_values() == ["second 30 under 20"]


# What first comes back with is behind what second has said meanwhile. Two inputs wait for it, a union does not.
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (connected, [5, 20, 20, 20, 25, 30]),
        (flat, [5, 20, 20, 20, 25, 30]),
        (joined, [5, 20, 20, 20, 25, 30]),
        (united, [5, 20, 20, 30, 30, 30]),
    ],
)
def test_a_source_that_is_idle_holds_nothing_back(build: Build, expected: list[int]) -> None:
    first, second = PushSource(int), PushSource(int)
    found: list[int] = []
    with StreamHarness(build(first, second), first) as harness:
        steps: list[Callable[[], object]] = [
            lambda: harness.process_watermark(5, source=first),
            lambda: harness.set_idle(first),
            lambda: harness.set_idle(first, idle=False),
            lambda: harness.process_watermark(30, source=second),
            lambda: harness.process_watermark(25, source=first),
        ]
        harness.process_watermark(20, source=second)
        for step in steps:
            step()
            found.append(harness.current_watermark)
        harness.set_idle(first)
        harness.set_idle(second)
        found.append(harness.current_watermark)
    assert found == expected


def test_when_all_are_idle_the_highest_counts() -> None:
    first, second = PushSource(int), PushSource(int)
    with StreamHarness(united(first, second), first) as harness:
        harness.process_watermark(5, source=first)
        harness.set_idle(second)
        assert harness.current_watermark == 5
        harness.set_idle(first)
        harness.process_watermark(7, source=second)
        assert harness.current_watermark == 7


def test_what_is_behind_a_step_does_not_overtake_it() -> None:
    """A union behind a join would leave out an input that lags; the join waits for it, and what is behind waits too."""
    first, second, third = PushSource(int), PushSource(int), PushSource(str)
    behind = connected(first, second).union(from_source(third)).key_by(lambda _: 0).reduce(lambda a, b: a + b)
    with StreamHarness(behind, first) as harness:
        harness.process_watermark(100, source=third)
        harness.process_watermark(5, source=first)
        harness.process_watermark(20, source=second)
        harness.set_idle(first)
        assert harness.current_watermark == 20
        harness.set_idle(first, idle=False)
        harness.process_watermark(40, source=second)
        assert harness.current_watermark == 20
        harness.process_watermark(30, source=first)
        assert harness.current_watermark == 30


def test_sources_may_begin_anew_at_a_restore() -> None:
    first, second = PushSource(int), PushSource(int)
    with StreamHarness(connected(first, second), first) as harness:
        harness.process_watermark(5, source=first)
        harness.process_watermark(6, source=second)
        harness.snapshot_restore()
        harness.process_watermark(7, source=first)
        assert harness.current_watermark == 6
        harness.snapshot_restore(keeps_source_watermarks=False)
        harness.process_watermark(8, source=first)
        assert harness.current_watermark == 6
        harness.process_watermark(8, source=second)
        assert harness.current_watermark == 8


def test_a_timer_that_is_set_behind_the_clock_fires_behind_the_element() -> None:
    first, second = PushSource(int), PushSource(int)
    with StreamHarness(connected(first, second), first) as harness:
        harness.set_processing_time(100)
        harness.process_element(99, 1)
        assert [(each.value.split()[0], each.timestamp) for each in harness.take_output()] == [
            ("first", 1),
            ("timer", None),
        ]
        # Side outputs of both kinds of timers carry their time.
        assert [(each.value, each.timestamp) for each in harness.take_side_output(ALARM)] == [
            ("processing_time 99", 99)
        ]
        harness.process_element(100, 2)
        assert harness.take_values() == ["first 100"]
        harness.set_processing_time(101)
        assert [value.split()[0] for value in harness.take_values()] == ["timer"]
        assert [each.timestamp for each in harness.take_side_output(ALARM)] == [100]
