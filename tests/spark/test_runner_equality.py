"""Spark gives what the interpreter gives: one plan with a keyed step of every kind, over several batches."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tests.spark.comparison import Event, Outputs, Seen, millis
from windrow import DataStream, KeyedStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.evictors import CountEvictor, DeltaEvictor, TimeEvictor
from windrow.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    OnTimerContext,
    ProcessAllWindowFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
    RichFunction,
    RuntimeContext,
)
from windrow.sources import CollectionSource
from windrow.state import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from windrow.triggers import ContinuousEventTimeTrigger, CountTrigger, DeltaTrigger, EndOfStreamTrigger, PurgingTrigger
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from windrow_runtime.spark import PipelineProgress, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

late = OutputTag("late", Event)
big = OutputTag("big", tuple[str, int])
odd = OutputTag("odd", tuple[str, int])


class Colour(Enum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True)
class Place:
    name: str
    floor: int | None


def events(seed: int, count: int, start: int) -> list[Event]:
    """Some 20 ms apart, up to 60 ms out of order, now and then much too late; from before 1970 on."""
    rng = random.Random(seed)
    found: list[Event] = []
    for number in range(count):
        behind = rng.randrange(60) if rng.random() < 0.9 else rng.randrange(400)
        found.append(Event(rng.choice("abcde"), start + number * 20 - behind, number))
    return found


def add(a: Event, b: Event) -> Event:
    return Event(a.key, max(a.at, b.at), a.value + b.value)


class Values(AggregateFunction[Event, list[int], tuple[str, ...]]):
    """Shows every element and the order in which they were added."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Event, accumulator: list[int]) -> list[int]:
        accumulator.append(value.value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[str, ...]:
        return tuple(map(str, accumulator))

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return a + b


class Counted(ProcessWindowFunction[Event, tuple[str, int, int, int], str, TimeWindow]):
    """Counts the firings of a window and those of its key, and puts big windows out besides."""

    fired = ValueStateDescriptor("fired", type_=int)

    def __init__(self) -> None:
        self.name = ""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.name = runtime_context.step_name
        self.firings = runtime_context.metrics.counter("firings")

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Event]
    ) -> Iterator[tuple[str, int, int, int]]:
        assert self.name == "counted"
        self.firings.inc()
        of_window, of_key = (store.get_state(self.fired) for store in (context.window_state, context.global_state))
        of_window.update((of_window.value() or 0) + 1)
        of_key.update((of_key.value() or 0) + 1)
        if len(elements) > 2:
            context.output(big, (key, len(elements)))
        yield key, context.window.start, of_window.value() or 0, of_key.value() or 0

    def clear(self, context: ProcessWindowContext[TimeWindow]) -> None:
        state = context.global_state.get_state(ReducingStateDescriptor[int]("cleared", max))
        state.add(context.window.start)


class AllSeen(ProcessAllWindowFunction[Event, tuple[str, TimeWindow, int, list[Event]], TimeWindow]):
    def process(
        self, context: ProcessWindowContext[TimeWindow], elements: Sequence[Event]
    ) -> list[tuple[str, TimeWindow, int, list[Event]]]:
        return [("all", context.window, context.current_watermark, list(elements))]


class Alarms(KeyedProcessFunction[str, Event, tuple[str, str, int, int, int]]):
    """Sets, moves and chains timers, and keeps state of several kinds."""

    total = ReducingStateDescriptor[int]("total", lambda a, b: a + b)
    pending = ListStateDescriptor("pending", type_=int)
    by_value = MapStateDescriptor("by-value", key_type=int, value_type=int)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.timers = runtime_context.metrics.counter("timers")

    def process_element(
        self, value: Event, context: KeyedProcessContext[str]
    ) -> Iterable[tuple[str, str, int, int, int]]:
        timers = context.timer_service
        context.get_state(self.total).add(value.value)
        by_value = context.get_state(self.by_value)
        by_value.put(value.value % 3, (by_value.get(value.value % 3) or 0) + 1)
        if value.value % 7 == 0:
            for time in context.get_state(self.pending).get():
                timers.delete_event_time_timer(time)
            context.get_state(self.pending).clear()
        timers.register_event_time_timer(value.at + 70)
        context.get_state(self.pending).add(value.at + 70)
        if value.value % 2:
            context.output(odd, (context.key, value.value))
        assert context.timestamp == value.at
        yield context.key, "element", value.at, timers.current_watermark, by_value.get(value.value % 3) or 0

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[tuple[str, str, int, int, int]]:
        self.timers.inc()
        total = context.get_state(self.total)
        if timestamp % 5 == 0:
            # One ahead, and one behind the watermark, which fires at the next advance.
            context.timer_service.register_event_time_timer(timestamp + 93)
            context.timer_service.register_event_time_timer(timestamp - 1)
        yield context.key, "timer", timestamp, context.timer_service.current_watermark, total.get() or 0


class Doubled(MapFunction[Event, Event]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.mapped = runtime_context.metrics.counter("mapped")
        self.factor = 2

    def map(self, value: Event) -> Event:
        self.mapped.inc()
        return Event(value.key, value.at, value.value * self.factor)


class Split(FlatMapFunction[Event, Event]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.made = runtime_context.metrics.counter("made")

    def flat_map(self, value: Event) -> Iterator[Event]:
        for part in range(value.value % 3):
            self.made.inc(2)
            yield Event(value.key, value.at + part, value.value)


class NotTheFifth(FilterFunction[Event]):
    def filter(self, value: Event) -> bool:
        return value.value % 5 != 0


class KeyAndParity(KeySelector[Event, tuple[str, int]]):
    def get_key(self, value: Event) -> tuple[str, int]:
        return value.key, value.value % 2


class RichSum(RichFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.sums = runtime_context.metrics.counter("sums")

    def __call__(self, a: Event, b: Event) -> Event:
        self.sums.inc()
        return add(a, b)


BOUNDED = WatermarkStrategy[Event].for_bounded_out_of_orderness(millis(50))


def timed(
    stream: DataStream[Event], name: str | None = None, strategy: WatermarkStrategy[Event] = BOUNDED
) -> DataStream[Event]:
    return stream.assign_timestamps_and_watermarks(strategy, timestamp=lambda event: event.at, name=name)


def windows(outputs: Outputs, keyed: KeyedStream[Event, str]) -> None:
    tumbling = keyed.window(TumblingEventTimeWindows.of(millis(100), millis(30)))
    sliding = keyed.window(SlidingEventTimeWindows.of(millis(100), millis(40)))
    sessions = keyed.window(EventTimeSessionWindows.with_gap(millis(45)))
    dynamic = keyed.window(EventTimeSessionWindows.with_dynamic_gap(lambda event: millis(20 + event.value % 60)))
    outputs.add("tumbling reduce", tumbling.reduce(add))
    outputs.add("tumbling rich reduce", tumbling.reduce(RichSum()))
    outputs.add("tumbling aggregate", tumbling.aggregate(Values(), Seen()))
    outputs.add("tumbling process", tumbling.process(Seen()))
    outputs.add("tumbling apply", tumbling.apply(lambda key, window, found: [(key, window, e.value) for e in found]))
    outputs.add("sliding reduce and process", sliding.reduce(add, Seen()))
    outputs.add("sliding process", sliding.process(Seen()))
    outputs.add("sessions", sessions.aggregate(Values(), Seen()))
    outputs.add("dynamic sessions", dynamic.process(Seen()))
    patient = sessions.allowed_lateness(millis(80)).side_output_late_data(late).reduce(add, Seen())
    outputs.add("patient sessions", patient)
    outputs.add("late for sessions", patient.get_side_output(late))
    counted = tumbling.allowed_lateness(millis(120)).side_output_late_data(late).process(Counted(), name="counted")
    outputs.add("counted", counted)
    outputs.add("late for counted", counted.get_side_output(late))
    outputs.add("big", counted.get_side_output(big))
    dropping = tumbling.trigger(CountTrigger.of(2)).aggregate(Values(), Seen())
    outputs.add("by count", dropping)
    outputs.add("by delta", sliding.trigger(DeltaTrigger.of(30.0, lambda a, b: float(b.at - a.at))).process(Seen()))
    outputs.add("continuous", tumbling.trigger(ContinuousEventTimeTrigger.of(millis(25))).aggregate(Values(), Seen()))
    outputs.add(
        "continuous sessions",
        sessions.trigger(ContinuousEventTimeTrigger.of(millis(25))).allowed_lateness(millis(30)).process(Seen()),
    )
    outputs.add("last two", tumbling.evictor(CountEvictor.of(2)).reduce(add, Seen()))
    outputs.add("youngest", sliding.evictor(TimeEvictor.of(millis(30), do_evict_after=True)).process(Seen()))
    outputs.add(
        "near",
        tumbling.evictor(DeltaEvictor.of(10.0, lambda a, b: float(b.value - a.value)))
        .trigger(CountTrigger.of(2))
        .process(Seen()),
    )
    outputs.add("at the end", keyed.window(GlobalWindows.create()).trigger(EndOfStreamTrigger.create()).process(Seen()))
    outputs.add(
        "purged", keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3))).process(Seen())
    )
    outputs.add("count windows", keyed.count_window(4).process(Seen()))
    outputs.add("sliding count windows", keyed.count_window(5, 2).process(Seen()))


def keys(outputs: Outputs, stream: DataStream[Event]) -> None:
    tumbling = TumblingEventTimeWindows.of(millis(200))
    outputs.add("int key", stream.key_by(lambda event: event.value % 7 - 3).window(tumbling).process(Seen()))
    outputs.add("tuple key", stream.key_by(KeyAndParity()).window(tumbling).process(Seen()))
    outputs.add("no key", stream.key_by(lambda event: None).window(tumbling).process(Seen()))
    outputs.add(
        "enum key",
        stream.key_by(lambda event: Colour.RED if event.value % 3 else Colour.GREEN).window(tumbling).process(Seen()),
    )
    outputs.add(
        "record key",
        stream.key_by(lambda event: Place(event.key, event.value % 2 or None)).window(tumbling).process(Seen()),
    )
    outputs.add("all", stream.window_all(tumbling).process(AllSeen()))
    outputs.add("all in sessions", stream.window_all(EventTimeSessionWindows.with_gap(millis(15))).process(AllSeen()))


def chains(outputs: Outputs, keyed: KeyedStream[Event, str]) -> None:
    # What the first windows emit as timers fire precedes the watermark, so it is never late; only late firings are.
    first = keyed.window(TumblingEventTimeWindows.of(millis(50))).allowed_lateness(millis(300)).reduce(add)
    second = (
        first.filter(lambda event: event.value > 3)
        .key_by(lambda event: event.key)
        .window(TumblingEventTimeWindows.of(millis(150)))
        .side_output_late_data(late)
        .process(Seen())
    )
    outputs.add("first of three", first)
    outputs.add("second of three", second)
    outputs.add("late for the second", second.get_side_output(late))
    third = (
        second.map(lambda seen: (seen[0], len(seen[3])))
        .key_by(lambda pair: pair[0])
        .window(SlidingEventTimeWindows.of(millis(600), millis(300)))
        .process(Seen())
    )
    outputs.add("third of three", third)


def rolling(outputs: Outputs, keyed: KeyedStream[Event, str]) -> None:
    outputs.add("rolling sum", keyed.sum(lambda event: event.value))
    outputs.add("rolling min_by", keyed.min_by(lambda event: event.value % 10))
    outputs.add("rolling reduce", keyed.reduce(add))
    alarms = keyed.process(Alarms(), name="alarms")
    outputs.add("alarms", alarms)
    outputs.add("odd", alarms.get_side_output(odd))
    outputs.add(
        "windows of alarms",
        alarms.key_by(lambda alarm: alarm[0]).window(TumblingEventTimeWindows.of(millis(100))).process(Seen()),
    )


class CountsByName(MapFunction[Event, Event]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.metrics.counter(f"seen by {runtime_context.step_name}")

    def map(self, value: Event) -> Event:
        self.seen.inc()
        return value


def scoped(stream: DataStream[Event], least: int = 0) -> DataStream[Event]:
    counted = stream.map(CountsByName(), name="count").filter(lambda event: event.value >= least)
    return counted.key_by(lambda event: event.key).reduce(add, name="sums")


def functions(outputs: Outputs, stream: DataStream[Event]) -> None:
    for least in (0, 2):
        outputs.add(f"scoped {least}", stream.pipe(scoped, least=least))
    changed = stream.map(Doubled()).flat_map(Split()).filter(NotTheFifth()).map(lambda event: event)
    outputs.add("changed", changed)
    outputs.add(
        "changed windows", changed.key_by(lambda e: e.key).window(TumblingEventTimeWindows.of(millis(100))).reduce(add)
    )


def everything(
    first_batch: int | None, second_batch: int | None, strategy: WatermarkStrategy[Event] = BOUNDED
) -> tuple[Outputs, Pipeline]:
    """A plan with steps of every kind, over two sources with so many elements in a batch."""
    outputs = Outputs()
    first = from_source(CollectionSource(events(1, 140, -1_400), Event, batch_size=first_batch))
    second = from_source(CollectionSource(events(2, 60, -1_100), Event, batch_size=second_batch))
    # One timestamp step for both sources: their watermark is the highest of either.
    stream = timed(first.union(second), strategy=strategy)
    keyed = stream.key_by(lambda event: event.key)
    outputs.add("as it came", stream)
    windows(outputs, keyed)
    keys(outputs, stream)
    chains(outputs, keyed)
    rolling(outputs, keyed)
    functions(outputs, stream)
    return outputs, outputs.pipeline("everything")


def test_every_kind_of_step(spark: SparkSession) -> None:
    outputs, pipeline = everything(70, 30)
    expected, counters = outputs.expected(pipeline)
    reports: list[PipelineProgress] = []
    result = SparkRunner(spark, on_progress=reports.append).run(pipeline)
    assert {"scoped/sums", "scoped#2/sums"} <= {name.split(".", 2)[2] for name in reports[0].steps}
    found = outputs.of(result)
    for name, elements in expected.items():
        assert (name, found[name]) == (name, elements)
    assert result.counters == counters
    assert {name for of_step in counters.values() for name in of_step} == {
        "firings",
        "late_records_dropped",
        "unfired_window_records_dropped",
        "made",
        "mapped",
        "sums",
        "timers",
        "seen by scoped/count",
        "seen by scoped#2/count",
    }
