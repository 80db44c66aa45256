"""Functions that raise, and what Spark does not run: one short error, with step, line, key and element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.comparison import Event, Seen, millis
from windrow import DataStream, KeyedStream, Pipeline, WatermarkStrategy, from_source
from windrow.errors import (
    InvalidArgumentError,
    MissingTimestampError,
    UnsupportedOperationError,
    UserFunctionError,
    WindrowError,
)
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessWindowContext,
    ProcessWindowFunction,
)
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.triggers import (
    Trigger,
    TriggerContext,
    TriggerResult,
)
from windrow.windows import (
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
    Window,
)
from windrow_runtime.spark import SparkRunner

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
    def process(
        self, key: str, context: ProcessWindowContext[Any], elements: Sequence[Event]
    ) -> Iterator[int]:
        for element in elements:
            yield check(element.value)


class BadTrigger(Trigger[Event, Window]):
    def on_element(
        self, element: Event, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        check(element.value)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Window, context: TriggerContext) -> None:
        pass


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
    return from_source(
        CollectionSource([Event("ab"[number % 2], number, number) for number in range(16)], Event)
    )


def timed(timestamp: Callable[[Event], int | None] = lambda event: event.at) -> DataStream[Event]:
    # Any: a function that may give no timestamp is one of the faults.
    function: Any = timestamp
    return events().assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=function
    )


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
    "on_timer": lambda: keyed().process(BadTimer()),
    "map behind windows": lambda: (
        keyed().count_window(1).reduce(bad_add).map(lambda event: check(event.value), name="behind")
    ),
}


def failure(spark: SparkSession, stream: DataStream[Any]) -> WindrowError:
    pipeline = Pipeline("faulty", stream.sink_to(CollectSink[Any]()))
    with pytest.raises(WindrowError) as caught:
        SparkRunner(spark).run(pipeline)
    error = caught.value
    assert len(str(error).splitlines()) <= 5, str(error)
    assert len(str(error)) < 1_000
    where = str(error.where)
    assert where.startswith("faulty."), where
    assert f"{HERE}:" in where
    assert error.hint
    return error


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_raises(spark: SparkSession, name: str) -> None:
    error = failure(spark, FUNCTIONS[name]())
    assert type(error) is UserFunctionError
    assert "raised LookupError: no 13" in error.message
    given = str(error.given)
    if name == "process":
        assert "key 'b', window TimeWindow(start=0, end=100)" in given
    elif name == "on_timer":
        assert "key 'b'" in given
        assert "13" in given
    else:
        assert "Event(key='b', at=13, value=13)" in given
        keyed_steps = {"reduce", "aggregate", "trigger", "gap"}
        assert ("key 'b'" in given) == (name in keyed_steps)
    cause = str(error.__cause__)
    assert 'raise LookupError(f"no {value}")' in cause
    assert cause.endswith("LookupError: no 13")
    assert "windrow_runtime" not in cause
    assert len(cause.splitlines()) < 20


def test_an_element_without_timestamp(spark: SparkSession) -> None:
    error = failure(spark, timed(lambda event: None if event.value == BAD else event.at))
    assert type(error) is MissingTimestampError
    assert error.given == "Event(key='b', at=13, value=13)"


def unhashable(event: Event) -> list[int]:
    return [event.value]


class Odd:
    def __init__(self, event: Event) -> None:
        self.event = event


@pytest.mark.parametrize(("selector", "given"), [(unhashable, "[0]"), (Odd, "Odd object")])
def test_keys_that_are_none(spark: SparkSession, selector: Callable[[Event], Any], given: str) -> None:
    error = failure(spark, timed().key_by(selector).count_window(2).process(Seen()))
    assert type(error) is InvalidArgumentError
    assert given in str(error.given)
    assert ".key_by, " in str(error.where)


def test_a_timer_on_the_clock_that_the_plan_knows_nothing_of(spark: SparkSession) -> None:
    error = failure(spark, keyed().process(ClockTimer()))
    assert type(error) is UnsupportedOperationError
    assert "uses_processing_time = True" in str(error.expected)
