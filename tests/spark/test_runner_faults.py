"""Functions that raise, and what Spark does not run: one short error on both engines, with step, line and element."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from tests.budget import for_a_night
from tests.spark.comparison import Event, Seen, millis
from tests.support.thorough import thorough
from windrow import DataStream, KeyedStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import EngineError, InvalidArgumentError, UnsupportedOperationError, UserFunctionError, WindrowError
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
from windrow.sinks import CollectSink, FunctionSink, JsonFileSink, ParquetFileSink, Sink
from windrow.sources import CollectionSource, JsonFileSource
from windrow.triggers import (
    ComposableTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    Trigger,
    TriggerContext,
    TriggerResult,
    repeatedly,
)
from windrow.watermarks import WatermarkGenerator, WatermarkOutput
from windrow.windows import (
    AssignerContext,
    EventTimeSessionWindows,
    GlobalWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    Window,
    WindowAssigner,
)
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.spark import SparkRunner
from windrow_spark.exchange.packer import Packer
from windrow_spark.exchange.rows import Phase
from windrow_spark.key_groups import KeyGroups
from windrow_spark.keyed.level import Collector, KeyedStep
from windrow_spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).name
BAD = 13
IN_ORDER = WatermarkStrategy[Event].for_monotonous_timestamps()

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


def timed(
    timestamp: Callable[[Event], int] = lambda event: event.at, strategy: WatermarkStrategy[Event] = IN_ORDER
) -> DataStream[Event]:
    return events().assign_timestamps_and_watermarks(strategy, timestamp=timestamp)


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


EVENT = "element Event(key='b', at=13, value=13)"
KEY = "key 'b'"
WINDOW = f"{KEY}, window TimeWindow(start=0, end=100)"
# What fails, and what the error says was given.
FAULTS: dict[str, tuple[Callable[[], DataStream[Any]], str]] = {
    "map": (lambda: events().map(lambda event: check(event.value)), EVENT),
    "filter": (lambda: events().filter(lambda event: check(event.value) > 3), EVENT),
    "flat_map": (lambda: events().flat_map(bad_parts), EVENT),
    "timestamps": (lambda: timed(lambda event: check(event.value)), EVENT),
    "key_by": (lambda: timed().key_by(lambda event: check(event.value)).count_window(2).process(Seen()), EVENT),
    "reduce": (lambda: tumbling().reduce(bad_add), f"{WINDOW}, {EVENT}"),
    "aggregate": (lambda: tumbling().aggregate(BadAggregate()), f"{WINDOW}, {EVENT}"),
    "process": (lambda: tumbling().process(BadWindowFunction()), WINDOW),
    "trigger": (lambda: tumbling().trigger(BadTrigger()).process(Seen()), f"{WINDOW}, {EVENT}"),
    "gap": (
        lambda: keyed().window(EventTimeSessionWindows.with_dynamic_gap(bad_gap)).process(Seen()),
        f"{KEY}, {EVENT}",
    ),
    "assigner": (lambda: keyed().window(BadAssigner()).process(Seen()), f"{KEY}, {EVENT}"),
    "get_result": (lambda: tumbling().aggregate(BadResult()), WINDOW),
    "merge": (
        lambda: bridging().window(EventTimeSessionWindows.with_gap(millis(6))).aggregate(BadMerge()),
        "key 'a', window TimeWindow(start=0, end=16), element Event(key='a', at=5, value=13)",
    ),
    "evictor": (lambda: tumbling().evictor(BadEvictor()).process(Seen()), WINDOW),
    "open": (lambda: events().map(BadOpen(), name="opened"), "open() of BadOpen"),
    "generator": (
        lambda: (
            timed(strategy=WatermarkStrategy.for_generator(BadGenerator))
            .key_by(lambda event: event.key)
            .count_window(2)
            .process(Seen())
        ),
        EVENT,
    ),
    "process_element": (lambda: keyed().process(BadElement()), f"{KEY}, {EVENT}"),
    "on_timer": (lambda: keyed().process(BadTimer()), f"{KEY}, timer 13 in event_time"),
    "map behind windows": (
        lambda: keyed().count_window(1).reduce(bad_add).map(lambda event: check(event.value), name="behind"),
        EVENT,
    ),
}


def short(error: WindrowError) -> WindrowError:
    assert len(str(error).splitlines()) <= 5, str(error)
    assert len(str(error)) < 1_000
    where = str(error.where)
    assert where.startswith("faulty."), where
    assert f"{HERE}:" in where
    assert error.hint
    return error


def failure(run: Callable[[Pipeline], object], stream: DataStream[Any]) -> WindrowError:
    with pytest.raises(WindrowError) as caught:
        run(Pipeline("faulty", stream.sink_to(CollectSink[Any]())))
    return short(caught.value)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("stream", "given"), FAULTS.values(), ids=FAULTS)
def test_a_function_that_raises_in_the_interpreter(
    stream: Callable[[], DataStream[Any]], given: str, fast: bool
) -> None:
    error = failure(LocalRunner(fast=fast).run, stream())
    assert type(error) is UserFunctionError
    assert error.message == "a function of the step raised LookupError: no 13"
    assert error.given == given
    assert isinstance(error.__cause__, LookupError)


# One of each place where Spark runs functions; the same operators tell of the others, as the test above shows, and
# a test below has more of them. What runs as a batch job fails within Spark at the same place as in a stream.
AS_STREAMS = ("map", "reduce", "generator", "map behind windows")
ON_SPARK = ("generator", "map behind windows", "on_timer", "key_by")


@pytest.mark.parametrize(
    "name",
    [
        name if name in ON_SPARK else thorough(name, reason="one of each place runs; batch jobs tell of more")
        for name in FAULTS
    ],
)
def test_a_function_that_raises(spark: SparkSession, name: str) -> None:
    stream, given = FAULTS[name]
    runner = SparkRunner(spark)
    error = failure(runner.run if name in AS_STREAMS else runner.run_batch, stream())
    assert type(error) is UserFunctionError
    assert error.message == "a function of the step raised LookupError: no 13"
    assert error.given == given
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


@pytest.mark.parametrize(
    "run", [SparkRunner.run, thorough(SparkRunner.run_batch, reason="a stream fails within Spark at the same place")]
)
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


@pytest.mark.classic(reason="the setting is changed in the session's own process")
@pytest.mark.parametrize(
    "run", [SparkRunner.run_batch, thorough(SparkRunner.run, reason="a job fails within Spark at the same place")]
)
def test_a_batch_of_more_than_the_driver_may_take(
    spark: SparkSession, run: Callable[[SparkRunner, Pipeline], object]
) -> None:
    texts = from_collection([*"ab"]).flat_map(lambda text: [text + os.urandom(500).hex() for _ in range(500)])
    settings = spark.sparkContext._jsc.sc().conf()
    settings.set("spark.driver.maxResultSize", "100k")
    try:
        with pytest.raises(EngineError, match="a batch has more for the driver than Spark lets it take") as caught:
            run(SparkRunner(spark), Pipeline("large", texts.sink_to(FunctionSink(lambda batch, rows: None))))
    finally:
        settings.remove("spark.driver.maxResultSize")
    assert "is bigger than spark.driver.maxResultSize (100.0 KiB)" in str(caught.value.given)
    assert "on_workers" in str(caught.value.hint)


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
    error = failure(SparkRunner(spark).run, keyed().process(ClockTimer()))
    assert type(error) is UnsupportedOperationError
    assert "uses_processing_time = True" in str(error.expected)


@dataclass
class Row:
    a: int
    b: str


class WrongPositions(Evictor[int, Any]):
    def evict_before(self, elements: Any, size: int, window: Any, context: Any) -> list[int]:
        return [size]

    def evict_after(self, elements: Any, size: int, window: Any, context: Any) -> list[int]:
        return []


class Undecided(ComposableTrigger[int, Any]):
    def is_ready(self, window: Any, context: Any) -> Any:
        return pd.NA

    def on_fire(self, window: Any, context: Any) -> bool:
        return False


def unfit(number: int) -> Row:
    wrong: Any = "x"
    return Row(wrong, "y")


def first_of(a: Any, b: Any) -> Any:
    return a


BY_EVENT_TIME = WatermarkStrategy[int].for_monotonous_timestamps()


def together(numbers: DataStream[int]) -> KeyedStream[int, int]:
    return numbers.key_by(lambda n: 0)


def everything(numbers: DataStream[int]) -> Any:
    return together(numbers).window(GlobalWindows.create())


def clocked(numbers: DataStream[int], timestamp: Any) -> DataStream[int]:
    return numbers.assign_timestamps_and_watermarks(BY_EVENT_TIME, timestamp=timestamp)


# Any: what a function gives is the fault.
def later(numbers: Any) -> Any:
    return (each for each in [numbers])


STREAMS: dict[str, Callable[[Any], DataStream[Any]]] = {
    "a list as key": lambda numbers: numbers.key_by(lambda n: sorted([n], key=abs)).reduce(first_of),
    "a list in a key": lambda numbers: (
        numbers.key_by(lambda n: (n, sorted([n], key=abs))).count_window(2).reduce(first_of)
    ),
    "a record without a hash": lambda numbers: numbers.key_by(lambda n: max([Row(n, "")], key=str)).reduce(first_of),
    "a flat map that gives no sequence": lambda numbers: numbers.flat_map(lambda n: n),
    "a flat map that gives a text": lambda numbers: numbers.flat_map(lambda n: f"{n}b"),
    "windows that give a text": lambda numbers: together(numbers).count_window(2).apply(lambda key, *_: f"{key}b"),
    "a map that exits": lambda numbers: numbers.map(sys.exit),
    "an element without a timestamp": lambda numbers: clocked(numbers, lambda n: n if n < 2 else None),
    "a timestamp that is none": lambda numbers: clocked(numbers, lambda n: "noon"),
    "a map that gives a generator": lambda numbers: numbers.map(lambda n: n if n < 2 else later(n)),
    "a key that is read later": lambda numbers: numbers.key_by(lambda n: map(abs, [n])).reduce(first_of),
    "a reduce that gives a generator": lambda numbers: together(numbers).count_window(2).reduce(lambda a, b: later(a)),
    "a filter by a missing value": lambda numbers: numbers.filter(lambda n: pd.NA if n > 1 else True),
    "a filter by an array": lambda numbers: numbers.filter(lambda n: np.array([n])),
    "a condition of a trigger": lambda numbers: everything(numbers).trigger(repeatedly(Undecided())).reduce(first_of),
    "a distance": lambda numbers: (
        everything(numbers).trigger(DeltaTrigger.of(1.0, lambda a, b: pd.NA)).reduce(first_of)
    ),
    "positions of an evictor": lambda numbers: (
        everything(numbers).trigger(CountTrigger.of(2)).evictor(WrongPositions()).reduce(first_of)
    ),
    "open": lambda numbers: FAULTS["open"][0](),
    "a process function": lambda numbers: FAULTS["process_element"][0](),
}


# One of each place that raises; the others are told by the same code.
TOLD_ON_SPARK = {
    "a list as key",
    "a map that exits",
    "open",
    "an element without a timestamp",
    "an element that does not fit ParquetFileSink",
    "a sink",
}


def told(run: Callable[[Pipeline], object], pipeline: Pipeline) -> str:
    with pytest.raises(WindrowError) as caught:
        run(pipeline)
    return f"{type(caught.value).__name__}: {caught.value}"


def fail(batch: int, values: Sequence[Any]) -> None:
    raise RuntimeError("the sink is gone")


def test_both_engines_tell_faults_alike(spark: SparkSession, tmp_path: Path) -> None:
    pipelines: dict[str, Pipeline] = {
        name: Pipeline("faults", make(from_collection([1, 2, 3])).sink_to(CollectSink[Any]()))
        for name, make in STREAMS.items()
    }
    sinks: list[Sink[Any]] = [JsonFileSink(tmp_path / "a"), ParquetFileSink(tmp_path / "b")]
    for sink in sinks:
        rows = from_collection([1]).map(unfit).sink_to(sink)
        pipelines[f"an element that does not fit {type(sink).__name__}"] = Pipeline("faults", rows)
    pipelines["a sink"] = Pipeline("faults", from_collection([1]).sink_to(FunctionSink(fail)))
    on_spark = for_a_night(pipelines.keys(), TOLD_ON_SPARK)
    assert on_spark <= pipelines.keys()
    for name, pipeline in pipelines.items():
        expected = told(LocalRunner().run, pipeline)
        if name in on_spark:
            assert (name, told(SparkRunner(spark).run_batch, pipeline)) == (name, expected)
        assert __file__ in expected
        assert "hint: " in expected or name == "a timestamp that is none"
    assert told(LocalRunner().run, pipelines["a list as key"]).splitlines()[0].endswith("cannot be hashed")


def test_both_engines_tell_malformed_records_alike(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for line in ('{"a": "one", "b": ""}', '{"a": '):
        (tmp_path / "in" / "rows.json").write_text(f"{line}\n")
        rows = from_source(JsonFileSource(tmp_path / "in", Row)).sink_to(CollectSink[Row]())
        pipeline = Pipeline("faults", rows)
        found = [told(run, pipeline) for run in (LocalRunner().run, SparkRunner(spark).run_batch)]
        assert found[0] == found[1]
        assert re.search(rf"where: .*{re.escape(__file__)}:\d+.*rows\.json:1(\n|$)", found[0])


@dataclass
class Sized:
    a: int
    b: str = None  # type: ignore[assignment]


def as_it_is(stream: DataStream[Any]) -> DataStream[Any]:
    return stream


def quadrupled(stream: DataStream[Any]) -> DataStream[Any]:
    return stream.map(lambda row: Row(row.a * 4, "x"))


@pytest.mark.parametrize(
    ("line", "make", "where"),
    [
        (f'{{"a": {2**62}, "b": ""}}', quadrupled, "faults.2.map, {}, Row.a"),
        ('{"a": 1}', as_it_is, "faults.1.source, {}, Sized.b"),
    ],
)
def test_values_that_fit_no_column_are_told_with_their_step(
    spark: SparkSession, tmp_path: Path, line: str, make: Any, where: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text(f"{line}\n")
    rows = from_source(JsonFileSource(tmp_path / "in", Sized))
    pipeline = Pipeline("faults", make(rows).sink_to(ParquetFileSink(tmp_path / "out")))
    assert "runs as columns" in pipeline.explain(SparkRunner(spark))
    text = told(SparkRunner(spark).run_batch, pipeline)
    assert re.search(where.format(f"{re.escape(__file__)}:[0-9]+"), text)


def test_results_that_fit_no_column_are_told_with_their_step() -> None:
    edge: Any = object()
    step = KeyedStep(0, "sum", "sum", KeyedOperator, None, where="here", targets=(edge,), results=record_type(int))
    collector = Collector(step)
    collector.collect(2**63, 0)
    with pytest.raises(InvalidArgumentError, match="int of 64 bits") as caught:
        collector.drain(Packer(KeyGroups.balanced(1, 1), Phase.AFTER_WATERMARK))
    assert caught.value.where == "here, int"
