"""What an operator tells its observer, in which order, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from operator import add
from random import Random
from typing import Any

import pytest

from tests.support.records import millis
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_collection
from windrow.builder.stream import DataStream, KeyedStream
from windrow.sinks import CollectSink
from windrow.triggers import TriggerResult, after_count, repeatedly
from windrow.windows import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.observer import Observer
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.operators.topology import topology_of
from windrow_runtime.operators.windows.general import ONLY_PANE

# Any in this module: an observer is told of elements and windows of every type.

LATE = OutputTag("late", int)
EVENTS = [name for name in vars(Observer) if not name.startswith("_")]


class Log(Observer):
    """Writes down each event with its arguments, but not the words about triggers."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        for name in EVENTS:
            setattr(self, name, self._writing(name))

    def _writing(self, name: str) -> Callable[..., None]:
        def write(*given: Any, **named: Any) -> None:
            self.events.append((name, *given[:2], *named.items()))

        return write


class Emitted:
    """Keeps what an operator emits."""

    def __init__(self) -> None:
        self.results: list[tuple[str | None, Any, int | None]] = []

    def collect(self, value: Any, timestamp: int | None) -> None:
        self.results.append((None, value, timestamp))

    def side_output(self, tag: str, value: Any, timestamp: int | None) -> None:
        self.results.append((tag, value, timestamp))


Build = Callable[[KeyedStream[int, int]], DataStream[Any]]


def sessions(keyed: KeyedStream[int, int]) -> DataStream[Any]:
    return keyed.window(EventTimeSessionWindows.with_gap(millis(10))).side_output_late_data(LATE).reduce(add)


def retracting(keyed: KeyedStream[int, int]) -> DataStream[Any]:
    windows = keyed.window(TumblingEventTimeWindows.of(millis(10))).allowed_lateness(millis(5))
    return windows.trigger(repeatedly(after_count(2))).retracting().reduce(add).changelog()


def rolling(keyed: KeyedStream[int, int]) -> DataStream[Any]:
    return keyed.reduce(add)


def operator_of(build: Build) -> KeyedOperator:
    numbers = from_collection([1]).assign_timestamps_and_watermarks(
        WatermarkStrategy[int].for_monotonous_timestamps(), timestamp=lambda number: number
    )
    stream = build(numbers.key_by(lambda number: number % 2))
    (step,) = topology_of(Pipeline("numbers", stream.sink_to(CollectSink()))).keyed
    return operator_for(step, fast=False)


def test_events_come_in_order() -> None:
    operator, log = operator_of(sessions), Log()
    operator.observer = log
    operator.bind(OperatorState(), Emitted())
    operator.process_observed(["k", "k"], [1, 2], [0, 8])
    operator.advance_watermark(17)
    operator.process_observed(["k"], [4], [3])
    first, own, both, late = (TimeWindow(*ends) for ends in ((0, 10), (8, 18), (0, 18), (3, 13)))
    assert log.events == [
        ("arrived", "k", 1),
        ("assigned", first),
        ("became", first),
        ("placed", ("refused", False)),
        ("asked", "k", first),
        ("processed",),
        ("arrived", "k", 2),
        ("assigned", own),
        ("merged", "k", [first]),
        ("became", both),
        ("placed", ("refused", False)),
        ("asked", "k", both),
        ("processed",),
        ("time_passed", 17, ("event_time", True)),
        ("timer_due", 17, "k", ("event_time", True)),
        ("asked", "k", both),
        ("fired", ONLY_PANE),
        ("emitted", 3),
        ("answered", TriggerResult.FIRE, ("held", True), ("purged", False)),
        ("cleaned", "k", both),
        ("arrived", "k", 4),
        ("assigned", late),
        ("became", late),
        ("dropped", "late"),
        ("processed",),
    ]


@pytest.mark.parametrize("build", [sessions, retracting, rolling])
@pytest.mark.parametrize("seed", range(5))
def test_an_observer_changes_no_result(build: Build, seed: int) -> None:
    outputs = []
    for observer in (None, Log(), Observer()):
        random, operator, output = Random(seed), operator_of(build), Emitted()
        operator.observer = observer
        operator.bind(OperatorState(), output)
        take = operator.process_batch if observer is None else operator.process_observed
        for _ in range(20):
            numbers = [random.randrange(60) for _ in range(4)]
            take([number % 2 for number in numbers], numbers, [*numbers])
            operator.advance_watermark(random.randrange(50))
        outputs.append(output.results)
        if isinstance(observer, Log):
            emitted = [event[1] for event in observer.events if event[0] == "emitted"]
            assert emitted == [value for tag, value, _ in output.results if tag is None]
    assert outputs[0]
    assert outputs == [outputs[0]] * 3
