"""Functions that raise, and what Spark does not run: one short error, with step, line, key, window and element."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.comparison import Event, Seen, millis
from tests.support.thorough import thorough
from windrow import DataStream, KeyedStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import EngineError, UnsupportedOperationError, UserFunctionError, WindrowError
from windrow.evictors import Evictor, EvictorContext, TimestampedValue
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessWindowContext,
    ProcessWindowFunction,
    RichFunction,
    RuntimeContext,
)
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.triggers import EventTimeTrigger, Trigger, TriggerContext, TriggerResult
from windrow.watermarks import WatermarkGenerator, WatermarkOutput
from windrow.windows import (
    AssignerContext,
    EventTimeSessionWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    Window,
    WindowAssigner,
)
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).name
BAD = 13

# Any in this module: results of every type.


def check(value: int) -> int:
    if value == BAD:
        raise LookupError(f"no {value}")
    return value


class BadAggregate(AggregateFunction[Event, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Event, accumulator: int) -> int:
        return accumulator + check(value.value)

    def get_result(self, accumulator: int) -> int:
        return accumulator


class BadWindowFunction(ProcessWindowFunction[Event, int, str, Any]):
    def process(self, key: str, context: ProcessWindowContext[Any], elements: Sequence[Event]) -> Iterator[int]:
        for element in elements:
            yield check(element.value)


class BadResult(BadAggregate):
    def add(self, value: Event, accumulator: int) -> int:
        return max(value.value, accumulator)

    def get_result(self, accumulator: int) -> int:
        return check(accumulator - 2)


class BadMerge(BadAggregate):
    def add(self, value: Event, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return check(BAD)


class BadEvictor(Evictor[Event, Window]):
    def evict_before(
        self, elements: Sequence[TimestampedValue[Event]], size: int, window: Window, context: EvictorContext
    ) -> Sequence[int]:
        return [place for place, element in enumerate(elements) if check(element.value.value) < 0]

    def evict_after(
        self, elements: Sequence[TimestampedValue[Event]], size: int, window: Window, context: EvictorContext
    ) -> Sequence[int]:
        return ()


class BadAssigner(WindowAssigner[Event, TimeWindow]):
    def assign_windows(self, element: Event, timestamp: int, context: AssignerContext) -> Sequence[TimeWindow]:
        return [TimeWindow(check(element.value), 100)]

    def default_trigger(self) -> Trigger[object, TimeWindow]:
        return EventTimeTrigger()

    @property
    def is_event_time(self) -> bool:
        return True


class BadGenerator(WatermarkGenerator[Event]):
    def on_event(self, element: Event, timestamp: int, output: WatermarkOutput) -> None:
        check(element.value)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class BadOpen(RichFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        check(BAD)

    def __call__(self, event: Event) -> Event:
        return event


class BadElement(KeyedProcessFunction[str, Event, int]):
    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[int]:
        yield check(value.value)


class BadTrigger(Trigger[Event, Window]):
    def on_element(self, element: Event, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        check(element.value)
        return TriggerResult.CONTINUE


class BadTimer(KeyedProcessFunction[str, Event, int]):
    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[int]:
        context.timer_service.register_event_time_timer(value.value)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[int]:
        return [check(timestamp)]


class ClockTimer(KeyedProcessFunction[str, Event, int]):
    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[int]:
        context.timer_service.register_processing_time_timer(2**60)
        return ()


def events() -> DataStream[Event]:
    return from_source(CollectionSource([Event("ab"[number % 2], number, number) for number in range(16)], Event))


def timed(timestamp: Callable[[Event], int | None] = lambda event: event.at) -> DataStream[Event]:
    # Any: a function that may give no timestamp is one of the faults.
    function: Any = timestamp
    return events().assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), timestamp=function)


def keyed() -> KeyedStream[Event, str]:
    return timed().key_by(lambda event: event.key)


def tumbling() -> Any:
    return keyed().window(TumblingEventTimeWindows.of(millis(100)))


def bad_add(a: Event, b: Event) -> Event:
    return Event(a.key, a.at, check(b.value))


def bad_gap(event: Event) -> timedelta:
    return millis(check(event.value) + 1)


def bad_parts(event: Event) -> Iterator[int]:
    yield check(event.value)


def bridging() -> KeyedStream[Event, str]:
    """The last of three events joins the sessions of the other two."""
    bridge = [Event("a", 0, 0), Event("a", 10, 1), Event("a", 5, BAD)]
    stamped = from_source(CollectionSource(bridge, Event)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(millis(20)), timestamp=lambda event: event.at
    )
    return stamped.key_by(lambda event: event.key)


FUNCTIONS: dict[str, Callable[[], DataStream[Any]]] = {
    "map": lambda: events().map(lambda event: check(event.value)),
    "filter": lambda: events().filter(lambda event: check(event.value) > 3),
    "flat_map": lambda: events().flat_map(bad_parts),
    "timestamps": lambda: timed(lambda event: check(event.value)),
    "key_by": lambda: timed().key_by(lambda event: check(event.value)).count_window(2).process(Seen()),
    "reduce": lambda: tumbling().reduce(bad_add),
    "aggregate": lambda: tumbling().aggregate(BadAggregate()),
    "process": lambda: tumbling().process(BadWindowFunction()),
    "trigger": lambda: tumbling().trigger(BadTrigger()).process(Seen()),
    "gap": lambda: keyed().window(EventTimeSessionWindows.with_dynamic_gap(bad_gap)).process(Seen()),
    "assigner": lambda: keyed().window(BadAssigner()).process(Seen()),
    "get_result": lambda: tumbling().aggregate(BadResult()),
    "merge": lambda: bridging().window(EventTimeSessionWindows.with_gap(millis(6))).aggregate(BadMerge()),
    "evictor": lambda: tumbling().evictor(BadEvictor()).process(Seen()),
    "open": lambda: events().map(BadOpen(), name="opened"),
    "generator": lambda: (
        events()
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_generator(BadGenerator), timestamp=lambda event: event.at
        )
        .key_by(lambda event: event.key)
        .count_window(2)
        .process(Seen())
    ),
    "process_element": lambda: keyed().process(BadElement()),
    "on_timer": lambda: keyed().process(BadTimer()),
    "map behind windows": lambda: (
        keyed().count_window(1).reduce(bad_add).map(lambda event: check(event.value), name="behind")
    ),
}


EVENT = "Event(key='b', at=13, value=13)"
KEY = "key 'b'"
WINDOW = "window TimeWindow(start=0, end=100)"
GIVEN = {
    "map": f"element {EVENT}",
    "filter": f"element {EVENT}",
    "flat_map": f"element {EVENT}",
    "timestamps": f"element {EVENT}",
    "key_by": f"element {EVENT}",
    "reduce": f"{KEY}, {WINDOW}, element {EVENT}",
    "aggregate": f"{KEY}, {WINDOW}, element {EVENT}",
    "process": f"{KEY}, {WINDOW}",
    "trigger": f"{KEY}, {WINDOW}, element {EVENT}",
    "gap": f"{KEY}, element {EVENT}",
    "assigner": f"{KEY}, element {EVENT}",
    "get_result": f"{KEY}, {WINDOW}",
    "merge": "key 'a', window TimeWindow(start=0, end=16), element Event(key='a', at=5, value=13)",
    "evictor": f"{KEY}, {WINDOW}",
    "open": "open() of BadOpen",
    "generator": f"element {EVENT}",
    "process_element": f"{KEY}, element {EVENT}",
    "on_timer": f"{KEY}, timer 13 in event_time",
    "map behind windows": f"element {EVENT}",
}


def short(error: WindrowError) -> WindrowError:
    assert len(str(error).splitlines()) <= 5, str(error)
    assert len(str(error)) < 1_000
    where = str(error.where)
    assert where.startswith("faulty."), where
    assert f"{HERE}:" in where
    assert error.hint
    return error


def failure(spark: SparkSession, stream: DataStream[Any]) -> WindrowError:
    pipeline = Pipeline("faulty", stream.sink_to(CollectSink[Any]()))
    with pytest.raises(WindrowError) as caught:
        SparkRunner(spark).run(pipeline)
    return short(caught.value)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_raises_in_the_interpreter(name: str, fast: bool) -> None:
    pipeline = Pipeline("faulty", FUNCTIONS[name]().sink_to(CollectSink[Any]()))
    with pytest.raises(UserFunctionError) as caught:
        LocalRunner(fast=fast).run(pipeline)
    error = short(caught.value)
    assert error.message == "a function of the step raised LookupError: no 13"
    assert error.given == GIVEN[name]
    assert isinstance(error.__cause__, LookupError)


# One of each place where Spark runs functions; the same operators tell of the others, as the test above shows, and
# test_same_errors.py has more of them as batch jobs.
ON_SPARK = ("map", "reduce", "generator", "on_timer", "map behind windows", "key_by", "timestamps", "merge")


@pytest.mark.parametrize(
    "name",
    [
        name if name in ON_SPARK else thorough(name, reason="one of each place runs; batch jobs tell of more")
        for name in FUNCTIONS
    ],
)
def test_a_function_that_raises(spark: SparkSession, name: str) -> None:
    error = failure(spark, FUNCTIONS[name]())
    assert type(error) is UserFunctionError
    assert error.message == "a function of the step raised LookupError: no 13"
    assert error.given == GIVEN[name]
    cause = str(error.__cause__)
    if name == "generator" and not is_connect(spark):
        # Such a generator runs on the driver, which is this process.
        assert isinstance(error.__cause__, LookupError)
    else:
        assert 'raise LookupError(f"no {value}")' in cause
        assert cause.endswith("LookupError: no 13")
    assert "windrow_runtime" not in cause
    assert "windrow_spark" not in cause
    assert len(cause.splitlines()) < 20


def kill_itself(event: Event) -> Event:
    if event.value == BAD:
        os.kill(os.getpid(), signal.SIGKILL)
    return event


@pytest.mark.parametrize("run", [SparkRunner.run, SparkRunner.run_batch])
def test_a_worker_that_dies_each_time(spark: SparkSession, run: Callable[[SparkRunner, Pipeline], object]) -> None:
    pipeline = Pipeline("faulty", events().map(kill_itself).sink_to(CollectSink[Any]()))
    with pytest.raises(EngineError, match="a Python worker died, and again each time") as caught:
        run(SparkRunner(spark), pipeline)
    assert "local[N, 4]" in str(caught.value.hint)
    assert str(caught.value.where).startswith("pipeline 'faulty'")
    assert len(str(caught.value)) < 1_000
    assert "\tat " not in str(caught.value.__cause__)


class Unkind:
    """What cannot even be shown."""

    def __repr__(self) -> str:
        raise ValueError("no repr")


def test_long_and_unkind_values_are_shown_short() -> None:
    def fails(value: object) -> object:
        raise LookupError("x" * 1_000 + "\nmore")

    shown = ((["y" * 300] * 3, f"['{'y' * 198}..."), (Unkind(), "<Unkind, whose repr raised ValueError>"))
    for value, text in shown:
        pipeline = Pipeline("faulty", from_collection([value]).map(fails).sink_to(CollectSink[Any]()))
        with pytest.raises(UserFunctionError) as caught:
            LocalRunner().run(pipeline)
        assert caught.value.given == f"element {text}"
        assert caught.value.message == f"a function of the step raised LookupError: {'x' * 500}..."


def test_a_timer_on_the_clock_that_the_plan_knows_nothing_of(spark: SparkSession) -> None:
    error = failure(spark, keyed().process(ClockTimer()))
    assert type(error) is UnsupportedOperationError
    assert "uses_processing_time = True" in str(error.expected)
