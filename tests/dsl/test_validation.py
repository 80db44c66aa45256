"""Faults of a plan: each one, and all of them together."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any

import pytest

from tests.support.records import Reading, sensor
from windrow import (
    DataStream,
    DataStreamSink,
    KeyedStream,
    OutputTag,
    Pipeline,
    WatermarkStrategy,
    WindowedStream,
    from_collection,
    from_source,
)
from windrow import aggregates as agg
from windrow.connectors import CustomSink
from windrow.errors import Fault, InvalidArgumentError, Location, PlanError, WindrowError, WindrowWarning
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
)
from windrow.kafka import KafkaSink
from windrow.sinks import (
    CollectSink,
    CsvFileSink,
    DatabaseSink,
    DeltaSink,
    FunctionSink,
    JsonFileSink,
    ParquetFileSink,
    Sink,
    TextFileSink,
    WriterSink,
)
from windrow.sources import JsonFileSource, MalformedRecord
from windrow.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from windrow.triggers import (
    ComposableTrigger,
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeoutTrigger,
    EventTimeTrigger,
    MergingTrigger,
    NeverTrigger,
    PartContext,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    after_all,
    after_any,
    after_count,
    repeatedly,
)
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
)

SECOND = timedelta(seconds=1)


class Total(AggregateFunction[Reading, float, float]):
    def create_accumulator(self) -> float:
        return 0.0

    def add(self, value: Reading, accumulator: float) -> float:
        return accumulator + value.celsius

    def get_result(self, accumulator: float) -> float:
        return accumulator


class MergingTotal(Total):
    def merge(self, a: float, b: float) -> float:
        return a + b


class Sensors(ProcessWindowFunction[Reading, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]
    ) -> Iterable[str]:
        return [key]


def line() -> int:
    """The line of the caller."""
    return sys._getframe(1).f_lineno


def here(number: int) -> str:
    return str(Location(__file__, number))


def unstamped() -> DataStream[Reading]:
    return from_collection([Reading("a", 0, 1.0)])


def stamped() -> DataStream[Reading]:
    return unstamped().assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda reading: reading.at
    )


def colder(a: Reading, b: Reading) -> Reading:
    return a if a.celsius <= b.celsius else b


# A stream of any element type: the plan sees nodes only.
def faults_of(*streams: DataStream[Reading], name: str = "plan") -> list[Fault]:
    with pytest.raises(PlanError) as caught:
        Pipeline(name, *(stream.sink_to(CollectSink[Reading]()) for stream in streams))
    return list(caught.value.faults)


# Any: streams of several types.
def any_faults_of(*streams: DataStream[Any]) -> list[Fault]:
    """The faults of a plan, which may have none."""
    try:
        Pipeline("plan", *(stream.sink_to(CollectSink[Any]()) for stream in streams))
    except PlanError as error:
        return list(error.faults)
    return []


def test_a_plan_without_sinks() -> None:
    with pytest.raises(PlanError) as caught:
        Pipeline("empty")
    assert str(caught.value) == (
        "the plan has a fault\n1. the pipeline has no sink\n  where:    empty\n  hint:     add stream.sink_to(...)"
    )


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(SECOND),
        SlidingEventTimeWindows.of(SECOND, SECOND),
        EventTimeSessionWindows.with_gap(SECOND),
    ],
    ids=lambda assigner: type(assigner).__name__,
)
def test_an_event_time_window_without_timestamps(assigner: WindowAssigner[Reading, TimeWindow]) -> None:
    reduced = unstamped().key_by(sensor).window(assigner).reduce(colder)
    at = here(line() - 1)
    assert faults_of(reduced) == [
        Fault(
            f"{assigner.describe()} needs timestamps, and the stream has none",
            f"plan.3.window, {at}",
            "call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) before the windows",
        )
    ]


def test_an_event_time_window_without_keys_and_timestamps() -> None:
    reduced = unstamped().window_all(TumblingEventTimeWindows.of(SECOND)).reduce(colder)
    assert [fault.message for fault in faults_of(reduced)] == [
        "TumblingEventTimeWindows(size=1 s) needs timestamps, and the stream has none"
    ]


def test_a_union_has_timestamps_only_if_all_its_streams_have() -> None:
    windows = TumblingEventTimeWindows.of(SECOND)
    mixed = stamped().union(unstamped()).key_by(sensor).window(windows).reduce(colder)
    assert [fault.message for fault in faults_of(mixed)] == [
        "TumblingEventTimeWindows(size=1 s) needs timestamps, and the stream has none"
    ]
    good = stamped().union(stamped()).key_by(sensor).window(windows).reduce(colder)
    Pipeline("plan", good.sink_to(CollectSink[Reading]()))


def test_timestamps_pass_through_every_step() -> None:
    windows = TumblingEventTimeWindows.of(SECOND)
    late = OutputTag[Reading]("late")
    first = (
        stamped()
        .map(lambda reading: reading)
        .filter(lambda reading: True)
        .flat_map(lambda reading: [reading])
        .returns(Reading)
        .key_by(sensor)
        .window(windows)
        .side_output_late_data(late)
        .reduce(colder)
    )
    second = first.key_by(sensor).window(windows).reduce(colder)
    third = first.get_side_output(late).key_by(sensor).window(windows).reduce(colder)
    Pipeline("plan", second.sink_to(CollectSink[Reading]()), third.sink_to(CollectSink[Reading]()))


def test_watermarks_without_timestamps() -> None:
    bare = unstamped().assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps())
    at = here(line() - 1)
    assert faults_of(bare) == [
        Fault(
            "the stream has no timestamps to make watermarks from",
            f"plan.2.timestamps, {at}",
            "assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...)",
        )
    ]


def test_watermarks_over_timestamps_that_are_there() -> None:
    again = stamped().assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps())
    Pipeline("plan", again.sink_to(CollectSink[Reading]()))


def test_lateness_outside_event_time() -> None:
    late = OutputTag[Reading]("late")
    windows = unstamped().key_by(sensor).window(TumblingProcessingTimeWindows.of(SECOND))
    reduced = windows.allowed_lateness(SECOND).side_output_late_data(late).reduce(colder)
    at = here(line() - 1)
    assert faults_of(reduced) == [
        Fault(
            "TumblingProcessingTimeWindows(size=1 s) is not in event time and knows no lateness",
            f"plan.3.window, {at}",
            "leave allowed_lateness out, or use an event-time assigner",
        ),
        Fault(
            "TumblingProcessingTimeWindows(size=1 s) is not in event time and has no late elements",
            f"plan.3.window, {at}",
            "leave side_output_late_data out, or use an event-time assigner",
        ),
    ]


def test_even_a_lateness_of_zero_is_refused_outside_event_time() -> None:
    reduced = (
        stamped()
        .key_by(sensor)
        .window(GlobalWindows.create())
        .trigger(CountTrigger.of(1))
        .allowed_lateness(timedelta(0))
        .reduce(colder)
    )
    assert [fault.message for fault in faults_of(reduced)] == [
        "GlobalWindows is not in event time and knows no lateness"
    ]


@pytest.mark.parametrize("purging", [False, True], ids=["plain", "purging"])
def test_a_trigger_that_cannot_merge_behind_a_type_that_hides_the_merging(purging: bool) -> None:
    hidden: WindowAssigner[Reading, TimeWindow] = EventTimeSessionWindows.with_gap(SECOND)
    delta: DeltaTrigger[Reading] = DeltaTrigger.of(1.0, lambda a, b: 0.0)
    trigger = PurgingTrigger.of(delta) if purging else delta
    reduced = stamped().key_by(sensor).window(hidden).trigger(trigger).reduce(colder)
    at = here(line() - 1)
    shown = "part DeltaTrigger(1.0) of the trigger PurgingTrigger(DeltaTrigger(1.0))"
    shown = shown if purging else "trigger DeltaTrigger(1.0)"
    assert faults_of(reduced) == [
        Fault(
            f"the {shown} cannot merge, but EventTimeSessionWindows(gap=1 s) merges windows",
            f"plan.4.window, {at}",
            "use a trigger that can merge, such as CountTrigger or after_count, or windows that do not merge",
        )
    ]


class Own(Trigger[Reading, Window]):
    def __init__(self, limit: int) -> None:
        self.limit = limit


class OwnComposable(ComposableTrigger[Reading, Window]):
    def is_ready(self, window: Window, context: PartContext) -> bool:
        return False

    def on_fire(self, window: Window, context: PartContext) -> bool:
        return False


def test_the_guilty_parts_of_a_trigger_that_cannot_merge_are_named() -> None:
    hidden: WindowAssigner[Reading, TimeWindow] = EventTimeSessionWindows.with_gap(SECOND)
    for part, shown, hint in (
        (Own(3), "part Own(limit=3)", "derive Own from MergingTrigger, and override on_merge"),
        (
            OwnComposable(),
            "part OwnComposable",
            "derive OwnComposable from MergingComposableTrigger, and override merge",
        ),
        (PurgingTrigger(CountTrigger.of(2)), "part PurgingTrigger(CountTrigger(2))", "use a trigger that can merge, "),
        (after_all(Own(1), after_count(1), Own(2)), "parts Own(limit=1) and Own(limit=2)", "derive Own from "),
    ):
        trigger = repeatedly(after_any(after_count(9), part))
        (fault,) = faults_of(stamped().key_by(sensor).window(hidden).trigger(trigger).reduce(colder))
        assert fault.message.startswith(f"the {shown} of the trigger repeatedly(after_any(after_count(9), ")
        assert fault.hint.startswith(hint)


def aggregated(function: AggregateFunction[Reading, float, float]) -> DataStream[float]:
    return stamped().key_by(sensor).window(EventTimeSessionWindows.with_gap(SECOND)).aggregate(function)


def test_an_aggregate_without_merge_on_merging_windows() -> None:
    with pytest.raises(PlanError) as caught:
        Pipeline("plan", aggregated(Total()).sink_to(CollectSink[float]()))
    assert [(fault.message, fault.hint) for fault in caught.value.faults] == [
        ("Total has no merge, but EventTimeSessionWindows(gap=1 s) merges windows", "override AggregateFunction.merge")
    ]


def test_an_aggregate_with_merge_on_merging_windows() -> None:
    Pipeline("plan", aggregated(MergingTotal()).sink_to(CollectSink[float]()))


def test_a_side_output_that_nobody_fills() -> None:
    late = OutputTag("late", Reading)
    other = OutputTag("other", Reading)
    windows = stamped().key_by(sensor).window(TumblingEventTimeWindows.of(SECOND))
    nothing = windows.reduce(colder, name="coldest").get_side_output(other)
    at = here(line() - 1)
    assert faults_of(nothing) == [
        Fault(
            "the step 'coldest' has no side output 'other'",
            f"plan.5.side_output, {at}",
            "a source with on_malformed=tag, a window or a join with late outputs, map_async with timed_out=tag, or a "
            "process function that outputs to the tag has one",
        )
    ]
    only_late = windows.side_output_late_data(late).reduce(colder).get_side_output(other)
    assert [(fault.message, fault.hint) for fault in faults_of(only_late)] == [
        ("the step 'window' has no side output 'other'", "its side outputs are: 'late'")
    ]
    mapped = windows.side_output_late_data(late).reduce(colder).map(lambda reading: reading)
    assert [fault.message for fault in faults_of(mapped.get_side_output(late))] == [
        "the step 'map' has no side output 'late'"
    ]


def test_side_outputs_that_somebody_fills() -> None:
    late = OutputTag("late", Reading)
    malformed = OutputTag("malformed", MalformedRecord)
    anything = OutputTag("anything", Reading)
    windows = stamped().key_by(sensor).window(TumblingEventTimeWindows.of(SECOND))
    Pipeline(
        "plan",
        windows.side_output_late_data(late)
        .reduce(colder)
        .returns(Reading)
        .get_side_output(late)
        .sink_to(CollectSink[Reading]()),
        windows.process(Sensors()).get_side_output(anything).sink_to(CollectSink[Reading]()),
        windows.reduce(colder, Sensors()).get_side_output(anything).sink_to(CollectSink[Reading]()),
        from_source(JsonFileSource("readings", Reading, on_malformed=malformed))
        .get_side_output(malformed)
        .sink_to(CollectSink[MalformedRecord]()),
    )


@pytest.mark.parametrize(
    ("sink", "shown"),
    [(JsonFileSink[float], "json out"), (ParquetFileSink[float], "parquet out")],
    ids=["json", "parquet"],
)
def test_a_sink_whose_columns_are_unknown(
    sink: Callable[[str], JsonFileSink[float] | ParquetFileSink[float]], shown: str
) -> None:
    celsius = unstamped().map(lambda reading: -float(reading.sensor[1:]))
    map_at = here(line() - 1)
    end = celsius.sink_to(sink("out"))
    at = here(line() - 1)
    with pytest.raises(PlanError) as caught:
        Pipeline("plan", end)
    assert list(caught.value.faults) == [
        Fault(
            f"the columns of the sink '{shown}' cannot be known: the type of the elements is not",
            f"plan.3.sink, {at}",
            f"the type is lost at map, {map_at}, because the function takes a slice: annotate the function "
            "that makes them, or call returns(Type) before sink_to",
        )
    ]
    Pipeline("plan", celsius.returns(float).sink_to(sink("out")))


# Any: sinks of every type of elements.
SINKS_WITH_COLUMNS: list[Callable[[], Sink[Any]]] = [
    lambda: JsonFileSink("out"),
    lambda: CsvFileSink("out"),
    lambda: ParquetFileSink("out"),
    lambda: DatabaseSink("sqlite:///out.db", "out"),
    lambda: DeltaSink("out"),
    lambda: KafkaSink("host:9092", "out"),
    lambda: WriterSink(lambda frame: frame.writeStream),
]


@pytest.mark.parametrize("sink", SINKS_WITH_COLUMNS, ids=lambda sink: type(sink()).__name__)
def test_elements_of_several_types_have_no_columns(sink: Callable[[], Sink[Any]]) -> None:
    made = sink()
    both = unstamped().union(from_collection(["a"], str), from_collection([None], type(None)))
    end = both.filter(bool).sink_to(made)
    at = here(line() - 1)
    with pytest.raises(PlanError) as caught:
        Pipeline("plan", end)
    (fault,) = caught.value.faults
    assert (fault.message, fault.where) == (
        f"the sink {made.describe()!r} has the columns of one type, and the elements are of several: Reading and str",
        f"plan.6.sink, {at}",
    )
    assert fault.hint == (
        "make one record type of all of them first, map(lambda element: Row(...)), or give the streams of each type a "
        "sink of their own"
    )
    Pipeline("plan", both.map(repr).returns(str).sink_to(sink()))


def test_a_text_sink_names_the_types_of_a_union() -> None:
    sink: Any = TextFileSink("out")
    with pytest.raises(PlanError, match=r"takes str only, and the elements are int \| str"):
        Pipeline("plan", from_collection([1], int).union(from_collection(["a"], str)).sink_to(sink))


def test_a_sink_with_columns_takes_one_type_and_none() -> None:
    either = from_collection([1, None]).returns(Annotated[int, "a number"] | None)
    Pipeline("plan", either.sink_to(JsonFileSink("out")))
    Pipeline("plan", unstamped().union(unstamped()).sink_to(JsonFileSink("out")))
    Pipeline("plan", unstamped().union(from_collection(["a"], str)).sink_to(CollectSink[Reading | str]()))


def hint_of(stream: DataStream[Any]) -> str:
    with pytest.raises(PlanError) as caught:
        Pipeline("plan", stream.sink_to(JsonFileSink("out")))
    (fault,) = caught.value.faults
    return str(fault.hint)


def test_the_step_that_loses_the_type_is_named() -> None:
    windows = GlobalWindows.create_with_end_of_stream_trigger()

    def sums(keyed: KeyedStream[Reading, str]) -> DataStream[tuple[str, int]]:
        stage = keyed.window(windows)
        return stage.aggregate(agg.combine(agg.key(), agg.sum(lambda reading: reading.at)), name="sums")

    unknown = sums(unstamped().key_by(lambda reading: "".join([*reading.sensor])))
    assert hint_of(unknown.filter(bool)).startswith(f"the type is lost at sums, {__file__}:")
    assert "key_by(..., key_type=...) says that of key()" in hint_of(unknown)
    Pipeline(
        "plan", sums(unstamped().key_by(lambda reading: "".join([*reading.sensor]), str)).sink_to(JsonFileSink("out"))
    )
    in_part = unstamped().apply_transform(lambda part: part.map(lambda reading: [*reading.sensor][-1]), name="part")
    assert hint_of(in_part).startswith(f"the type is lost at part/map, {__file__}:")
    mixed: DataStream[Any] = from_collection([1, "a"])
    assert "the type is lost at source, " in hint_of(mixed)


def test_a_keyed_stream_that_goes_to_a_sink() -> None:
    # The stage has no sink_to; a program that is not type-checked may get there by the node.
    smuggled: DataStream[Reading] = DataStream(unstamped().key_by(sensor).node)
    assert [(fault.message, fault.hint) for fault in faults_of(smuggled)] == [
        ("a keyed stream cannot go to a sink", "use the stream before key_by")
    ]


def test_a_name_that_is_given_twice() -> None:
    named = unstamped().filter(lambda reading: True, name="clean").filter(lambda reading: True, name="clean")
    assert [(fault.message, fault.where.split(",")[0]) for fault in faults_of(named)] == [
        ("the name 'clean' is given to several steps", "plan.2.clean"),
        ("the name 'clean' is given to several steps", "plan.3.clean"),
    ]


def test_a_step_with_a_name_may_be_used_twice() -> None:
    named = unstamped().filter(lambda reading: True, name="clean")
    Pipeline("plan", named.sink_to(CollectSink[Reading]()), named.sink_to(CollectSink[Reading]()))


def test_one_collect_sink_for_two_streams() -> None:
    sink = CollectSink[Reading]()
    with pytest.raises(PlanError) as caught:
        Pipeline("plan", unstamped().sink_to(sink), unstamped().sink_to(sink))
    (fault,) = caught.value.faults
    assert (fault.message, fault.where.split(",")[0]) == ("one CollectSink takes several streams", "plan.4.sink")
    assert fault.hint is not None
    assert fault.hint.startswith("make one for each stream; the first is that of plan.2.sink, ")


class ClearsWithYield(ProcessWindowFunction[Reading, float, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]
    ) -> Iterable[float]:
        yield elements[0].celsius

    def clear(self, context: ProcessWindowContext[TimeWindow]) -> Iterator[float]:  # type: ignore[override]  # the fault
        yield 1.0


class OpensLater(KeyedProcessFunction[str, Reading, float]):
    async def open(self, runtime_context: object) -> None:  # type: ignore[override]  # the fault
        """Never runs."""

    def process_element(self, value: Reading, context: object) -> Iterable[float]:
        return [value.celsius]


class ClosesWithYield(Total):
    def close(self) -> Iterator[None]:  # type: ignore[override]  # the fault
        yield


class MergesWithYield(MergingTrigger[object, Window]):
    def on_merge(self, window: Window, context: object) -> Iterator[None]:  # type: ignore[override]  # the fault
        yield

    def clear(self, window: Window, context: object) -> None:
        """Has no state."""


class WritesWithYield(CustomSink[Reading]):
    def write(self, batch: int, rows: Sequence[Reading]) -> Iterator[Reading]:  # type: ignore[override]  # the fault
        yield from rows


class Writer:
    def __call__(self, batch: int, rows: Sequence[Reading]) -> Iterator[Reading]:
        yield from rows


def written_later(batch: int, rows: Sequence[Reading]) -> Iterator[Reading]:
    yield from rows


UNRUN: dict[str, Callable[[], DataStreamSink]] = {
    "ClearsWithYield.clear is a generator": lambda: in_windows().process(ClearsWithYield()).sink_to(CollectSink()),
    "OpensLater.open is a coroutine": lambda: keyed().process(OpensLater()).sink_to(CollectSink()),
    "ClosesWithYield.close is a generator": lambda: in_windows().aggregate(ClosesWithYield()).sink_to(CollectSink()),
    "MergesWithYield.on_merge is a generator": lambda: (
        keyed()
        .window(EventTimeSessionWindows.with_gap(SECOND))
        .trigger(PurgingTrigger.of(MergesWithYield()))
        .reduce(lambda a, b: b)
        .sink_to(CollectSink())
    ),
    "WritesWithYield.write is a generator": lambda: stamped().sink_to(WritesWithYield()),
    "written_later is a generator": lambda: stamped().sink_to(FunctionSink(written_later)),
    "Writer is a generator": lambda: stamped().sink_to(FunctionSink(Writer())),
}


def keyed() -> KeyedStream[Reading, str]:
    return stamped().key_by(lambda reading: reading.sensor)


def in_windows() -> WindowedStream[Reading, str, TimeWindow]:
    return keyed().window(TumblingEventTimeWindows.of(SECOND))


@pytest.mark.parametrize("method", UNRUN)
def test_methods_that_python_would_not_run(method: str) -> None:
    with pytest.raises(PlanError) as caught:
        Pipeline("plan", UNRUN[method]())
    (fault,) = caught.value.faults
    assert fault.message == f"{method}, so none of its code would run when it is called"
    assert fault.hint == "write it without yield and async; nobody takes what it gives"


class AddsLater(AggregateFunction[Reading, int, int]):
    """Has methods that nobody awaits."""

    def create_accumulator(self) -> int:
        return 0

    async def add(self, value: Reading, accumulator: int) -> int:  # type: ignore[override]  # the fault
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class ProcessesLater(KeyedProcessFunction[str, Reading, Reading]):
    async def process_element(  # type: ignore[override]  # the fault
        self, value: Reading, context: KeyedProcessContext[str]
    ) -> AsyncIterator[Reading]:
        yield value


@pytest.mark.parametrize(
    ("method", "make"),
    [
        ("AddsLater.add", lambda: in_windows().aggregate(AddsLater()).sink_to(CollectSink())),
        ("ProcessesLater.process_element", lambda: keyed().process(ProcessesLater()).sink_to(CollectSink())),
    ],
)
def test_methods_that_nobody_awaits(method: str, make: Callable[[], DataStreamSink]) -> None:
    with pytest.raises(PlanError) as caught:
        Pipeline("plan", make())
    (fault,) = caught.value.faults
    assert fault.message == f"{method} is a coroutine function, and nobody awaits what it gives"


def test_a_writer_sink_with_company() -> None:
    writer = WriterSink[Reading](lambda frame: frame.writeStream)
    Pipeline("plan", unstamped().sink_to(writer))
    with pytest.raises(PlanError) as caught:
        Pipeline("plan", unstamped().sink_to(writer), unstamped().sink_to(CollectSink[Reading]()))
    assert [(fault.message, fault.hint) for fault in caught.value.faults] == [
        ("a WriterSink must be the only sink of its pipeline", "make a pipeline of its own")
    ]


def test_ingestion_time_with_a_timestamp_function() -> None:
    both = unstamped().assign_timestamps_and_watermarks(
        WatermarkStrategy.for_ingestion_time(), timestamp=lambda reading: reading.at
    )
    assert [(fault.message, fault.hint) for fault in faults_of(both)] == [
        (
            "ingestion time takes timestamps from the clock, and a timestamp function was given",
            "leave timestamp out, or use another strategy",
        )
    ]


def test_all_faults_are_raised_together_in_the_order_of_the_plan() -> None:
    tag = OutputTag("nowhere", Reading)
    windows = TumblingEventTimeWindows.of(SECOND)
    total = unstamped().key_by(sensor).window(windows).aggregate(Total(), name="total")
    total_at = here(line() - 1)
    numbers = total.map(lambda celsius: sum([*range(int(celsius))])).sink_to(JsonFileSink("out"))
    numbers_at = here(line() - 1)
    side = total.get_side_output(tag).sink_to(CollectSink[Reading]())
    side_at = here(line() - 1)
    with pytest.raises(WindrowError) as caught:
        Pipeline("plan", numbers, side)
    assert str(caught.value) == (
        "the plan has 3 faults\n"
        "1. TumblingEventTimeWindows(size=1 s) needs timestamps, and the stream has none\n"
        f"  where:    plan.3.total, {total_at}\n"
        "  hint:     call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) before the "
        "windows\n"
        "2. the columns of the sink 'json out' cannot be known: the type of the elements is not\n"
        f"  where:    plan.5.sink, {numbers_at}\n"
        f"  hint:     the type is lost at map, {numbers_at}, because the function uses sum: annotate "
        "the function that makes them, or call returns(Type) before sink_to\n"
        "3. the step 'total' has no side output 'nowhere'\n"
        f"  where:    plan.6.side_output, {side_at}\n"
        "  hint:     a source with on_malformed=tag, a window or a join with late outputs, map_async with "
        "timed_out=tag, or a process function that outputs to the tag has one"
    )


def test_global_windows_that_would_never_fire() -> None:
    def found(trigger: Trigger[object, Window] | None, stream: DataStream[Reading]) -> list[str]:
        windows = stream.key_by(sensor).window(GlobalWindows.create())
        reduced = (windows if trigger is None else windows.trigger(trigger)).reduce(colder)
        return [fault.message for fault in any_faults_of(reduced)]

    each = ContinuousEventTimeTrigger.of(SECOND)
    assert found(None, stamped()) == ["GlobalWindows has no trigger, so no element would ever come out"]
    for trigger in (EventTimeTrigger.create(), ProcessingTimeTrigger.create()):
        message = f"{trigger.describe()} fires at the end of a window, and the global window has none"
        assert found(trigger, stamped()) == [message]
        assert found(PurgingTrigger.of(trigger), stamped()) == [message]
    assert found(each, unstamped()) == [f"{each.describe()} needs timestamps, and the stream has none"]
    assert found(each, stamped()) == found(NeverTrigger.create(), stamped()) == []


def test_timeouts_in_event_time_need_it() -> None:
    trigger = EventTimeoutTrigger.of(CountTrigger.of(3), SECOND)
    clocked = TumblingProcessingTimeWindows.of(SECOND)

    def found(windows: WindowedStream[Reading, str, Any]) -> list[str]:
        return [fault.message for fault in any_faults_of(windows.reduce(colder))]

    for whole in (trigger, PurgingTrigger.of(trigger), repeatedly(after_any(trigger, after_count(9)))):
        assert found(stamped().key_by(sensor).window(GlobalWindows.create()).trigger(whole)) == []
        assert found(unstamped().key_by(sensor).window(GlobalWindows.create()).trigger(whole)) == [
            f"{trigger.describe()} needs timestamps, and the stream has none"
        ]
        assert found(stamped().key_by(sensor).window(clocked).trigger(whole)) == [
            f"{trigger.describe()} waits for the watermark, and {clocked.describe()} is in processing time"
        ]


class Sorting(ProcessWindowFunction[Reading, Reading, str, TimeWindow]):
    """Names a tag, which it may put elements out to."""

    ODD = OutputTag("odd", int)

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]
    ) -> list[Reading]:
        context.output(EVEN, "text")
        return []


EVEN = OutputTag("even", str)


def test_a_tag_of_the_same_name_with_another_type() -> None:
    windows = stamped().key_by(sensor).window(TumblingEventTimeWindows.of(SECOND))
    late = windows.side_output_late_data(OutputTag("late", Reading)).reduce(colder)
    processed = windows.process(Sorting())
    unknown: DataStream[Any] = late.get_side_output(OutputTag("late"))
    assert any_faults_of(unknown, late.get_side_output(OutputTag("late", Reading))) == []
    cases: list[tuple[DataStream[Any], OutputTag[Any], str]] = [
        (late, OutputTag("late", int), "the side output 'late' is taken as int, and is of Reading"),
        (late, OutputTag[int]("late"), "the side output 'late' is taken as int, and is of Reading"),
        (processed, OutputTag("odd", str), "the side output 'odd' is taken as str, and is of int"),
        (processed, OutputTag("even", int), "the side output 'even' is taken as int, and is of str"),
    ]
    for stream, tag, message in cases:
        (fault,) = any_faults_of(stream.get_side_output(tag))
        assert fault.message == message
    (fault,) = any_faults_of(
        processed.get_side_output(OutputTag("else", str)), processed.get_side_output(OutputTag("else", int))
    )
    assert fault.message == "the side output 'else' is taken as int, and is of str"
    # Another step may have an output of the same name.
    assert any_faults_of(late.get_side_output(OutputTag("late", Reading)), other_late()) == []


def other_late() -> DataStream[int]:
    tag = OutputTag("late", int)
    numbers = from_collection([1]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda number: number
    )
    windows = numbers.key_by(lambda number: number).window(TumblingEventTimeWindows.of(SECOND))
    return windows.side_output_late_data(tag).reduce(lambda a, b: a).get_side_output(tag)


def test_a_sink_that_no_pipeline_was_given() -> None:
    numbers = from_collection([1, 2])
    with pytest.warns(WindrowWarning, match="a sink was given to no pipeline") as caught:
        numbers.sink_to(CollectSink())
    assert (caught[0].filename, caught[0].lineno) == (__file__, line() - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Pipeline("used", numbers.sink_to(CollectSink()))
        sink = numbers.sink_to(CollectSink())
        Pipeline("twice", sink)
        with pytest.raises(PlanError):
            Pipeline("refused", numbers.map(lambda n: [*range(n)]).sink_to(JsonFileSink("out")))
        # Whoever is told of one fault is not told of another that follows from it.
        wrong: Any = Pipeline
        with pytest.raises(InvalidArgumentError, match=r"Pipeline\(name, \*sinks\)"):
            wrong("in a list", [numbers.sink_to(CollectSink())])
        with pytest.raises(InvalidArgumentError, match=r'Pipeline\("name", '):
            wrong(numbers.sink_to(CollectSink()))


def test_a_sink_that_no_pipeline_was_given_is_told_when_the_program_ends() -> None:
    program = """
from windrow import Pipeline, from_collection
from windrow.sinks import CollectSink
numbers = from_collection([1, 2])
kept = numbers.sink_to(CollectSink("kept"))
pipeline = Pipeline("numbers", numbers.sink_to(CollectSink("used")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.count("WindrowWarning") == 1
    assert "<string>:5: WindrowWarning: a sink was given to no pipeline" in done.stderr


class Kinds(KeyedProcessFunction[str, Reading, int]):
    """Two kinds of state of one name."""

    total = ValueStateDescriptor[int]("n", int)
    seen: Any = ListStateDescriptor("n", int)

    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> Iterable[int]:
        return []


class Types(Kinds):
    """The subclass replaces an attribute, and its objects have another."""

    seen = ValueStateDescriptor("n")  # says no type, so may be the same

    def __init__(self, kind: type) -> None:
        self.own: Any = ValueStateDescriptor("n", kind)


class Firing(EventTimeTrigger):
    by_name = MapStateDescriptor("n", str, int)
    by_number = MapStateDescriptor("n", int, int)


def test_two_states_of_one_name_are_refused() -> None:
    keyed = unstamped().key_by(sensor)
    windows = stamped().key_by(sensor).window(TumblingEventTimeWindows.of(SECOND))
    faults = any_faults_of(
        keyed.process(Kinds()), keyed.process(Types(str)), windows.trigger(PurgingTrigger.of(Firing())).reduce(colder)
    )
    assert [fault.message for fault in faults] == [
        "Kinds has two descriptors of the name 'n': "
        "total is a ValueStateDescriptor of int, and seen is a ListStateDescriptor of int",
        "Types has two descriptors of the name 'n': "
        "total is a ValueStateDescriptor of int, and own is a ValueStateDescriptor of str",
        "Firing has two descriptors of the name 'n': "
        "by_name is a MapStateDescriptor of str and int, and by_number is a MapStateDescriptor of int and int",
    ]
    assert any_faults_of(keyed.process(Types(int))) == []


@pytest.mark.parametrize("name", ["a\ud800", "a\nb", "a\x1b[2J"])
def test_a_step_whose_name_is_no_text(name: str) -> None:
    (fault,) = faults_of(unstamped().map(lambda reading: reading, name=name))
    assert fault.message == f"the name {name!r} of a step is no line of text"
    assert fault.where == here(line() - 2)
