"""Faults of a plan: each one, and all of them together."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any

import pytest

from tests.counting import Count, MergingCount
from tests.dsl.plans import IN_ORDER, SECOND, SECONDS, fault_of, faults_of, in_time, plan, refusal
from tests.support.records import Reading, sensor
from windrow import DataStream, KeyedStream, OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.errors import Fault, PlanError, WindrowError, WindrowWarning
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.kafka import KafkaSink
from windrow.sinks import (
    CollectSink,
    CsvFileSink,
    DatabaseSink,
    DeltaSink,
    IcebergSink,
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
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
)

# Any in this module: streams and sinks of every type of elements.


class Sensors(ProcessWindowFunction[Reading, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]
    ) -> Iterable[str]:
        return [key]


def colder(a: Reading, b: Reading) -> Reading:
    return a if a.celsius <= b.celsius else b


unstamped = from_collection([Reading("a", 0, 1.0)])
stamped = in_time([Reading("a", 0, 1.0)], lambda reading: reading.at)
keyed = stamped.key_by(sensor)
windows = keyed.window(SECONDS)
clocked = unstamped.key_by(sensor).window(TumblingProcessingTimeWindows.of(SECOND))
# A type that hides the merging.
sessions: WindowAssigner[Reading, TimeWindow] = EventTimeSessionWindows.with_gap(SECOND)
delta: DeltaTrigger[Reading] = DeltaTrigger.of(1.0, lambda a, b: 0.0)
late, other = OutputTag("late", Reading), OutputTag("other", Reading)
with_late = windows.side_output_late_data(late).reduce(colder)
named = unstamped.filter(lambda reading: True, name="clean")

CLOCKED = "TumblingProcessingTimeWindows(size=1 s)"
NO_LATENESS = "leave allowed_lateness out, or use an event-time assigner"
STAMP = "call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) before the windows"
MERGE = "use a trigger that can merge, such as CountTrigger or after_count, or windows that do not merge"
FILL = (
    "a source with on_malformed=tag, a window or a join with late outputs, map_async with timed_out=tag, "
    "a step with on_error=tag, or a process function that outputs to the tag has one"
)
UNSTAMPED = "TumblingEventTimeWindows(size=1 s) needs timestamps, and the stream has none"
DELTA = "DeltaTrigger(1.0)"
MERGES = "cannot merge, but EventTimeSessionWindows(gap=1 s) merges windows"
FAULTS: dict[str, tuple[DataStream[Any], Fault]] = {
    **{
        f"{type(assigner).__name__} without timestamps": (
            unstamped.key_by(sensor).window(assigner).reduce(colder),
            Fault(f"{assigner.describe()} needs timestamps, and the stream has none", "p.3.window", STAMP),
        )
        for assigner in (SECONDS, SlidingEventTimeWindows.of(SECOND, SECOND), sessions)
    },
    "no keys and no timestamps": (unstamped.window_all(SECONDS).reduce(colder), Fault(UNSTAMPED, "p.2.window", STAMP)),
    "a union of which one stream has no timestamps": (
        stamped.union(unstamped).key_by(sensor).window(SECONDS).reduce(colder),
        Fault(UNSTAMPED, "p.6.window", STAMP),
    ),
    "watermarks without timestamps": (
        unstamped.assign_timestamps_and_watermarks(IN_ORDER),
        Fault(
            "the stream has no timestamps to make watermarks from",
            "p.2.timestamps",
            "assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...)",
        ),
    ),
    "ingestion time with a timestamp function": (
        unstamped.assign_timestamps_and_watermarks(WatermarkStrategy.for_ingestion_time(), timestamp=lambda r: r.at),
        Fault(
            "ingestion time takes timestamps from the clock, and a timestamp function was given",
            "p.2.timestamps",
            "leave timestamp out, or use another strategy",
        ),
    ),
    "lateness by the clock": (
        clocked.allowed_lateness(SECOND).reduce(colder),
        Fault(f"{CLOCKED} is not in event time and knows no lateness", "p.3.window", NO_LATENESS),
    ),
    "a lateness of zero outside event time": (
        keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(1)).allowed_lateness(0 * SECOND).reduce(colder),
        Fault("GlobalWindows is not in event time and knows no lateness", "p.4.window", NO_LATENESS),
    ),
    "late elements by the clock": (
        clocked.side_output_late_data(late).reduce(colder),
        Fault(
            f"{CLOCKED} is not in event time and has no late elements",
            "p.3.window",
            "leave side_output_late_data out, or use an event-time assigner",
        ),
    ),
    "a trigger that cannot merge": (
        keyed.window(sessions).trigger(delta).reduce(colder),
        Fault(f"the trigger {DELTA} {MERGES}", "p.4.window", MERGE),
    ),
    "a part of a trigger that cannot merge": (
        keyed.window(sessions).trigger(PurgingTrigger.of(delta)).reduce(colder),
        Fault(f"the part {DELTA} of the trigger PurgingTrigger({DELTA}) {MERGES}", "p.4.window", MERGE),
    ),
    "an aggregate that cannot merge": (
        keyed.window(sessions).aggregate(Count()),
        Fault(
            "Count has no merge, but EventTimeSessionWindows(gap=1 s) merges windows",
            "p.4.window",
            "override AggregateFunction.merge",
        ),
    ),
    "a side output of a step that has none": (
        windows.reduce(colder, name="coldest").get_side_output(other),
        Fault("the step 'coldest' has no side output 'other'", "p.5.side_output", FILL),
    ),
    "a side output of a step that has another": (
        with_late.get_side_output(other),
        Fault("the step 'window' has no side output 'other'", "p.5.side_output", "its side outputs are: 'late'"),
    ),
    "a side output of a step upstream": (
        with_late.map(lambda reading: reading).get_side_output(late),
        Fault("the step 'map' has no side output 'late'", "p.6.side_output", FILL),
    ),
    # The stage has no sink_to; a program that is not type-checked may get there by the node.
    "a keyed stream that goes to a sink": (
        DataStream(keyed.node),
        Fault("a keyed stream cannot go to a sink", "p.4.sink", "use the stream before key_by"),
    ),
}
ACCEPTED: dict[str, list[DataStream[Any]]] = {
    "a union of streams with timestamps": [stamped.union(stamped).key_by(sensor).window(SECONDS).reduce(colder)],
    "timestamps pass through every step": [
        first.key_by(sensor).window(SECONDS).reduce(colder)
        for results in [
            stamped.map(lambda reading: reading)
            .filter(lambda reading: True)
            .flat_map(lambda reading: [reading])
            .returns(Reading)
            .key_by(sensor)
            .window(SECONDS)
            .side_output_late_data(late)
            .reduce(colder)
        ]
        for first in (results, results.get_side_output(late))
    ],
    "watermarks over timestamps that are there": [stamped.assign_timestamps_and_watermarks(IN_ORDER)],
    "an aggregate that can merge": [keyed.window(sessions).aggregate(MergingCount())],
    "side outputs that somebody fills": [
        windows.side_output_late_data(late).reduce(colder).returns(Reading).get_side_output(late),
        windows.process(Sensors()).get_side_output(other),
        windows.reduce(colder, Sensors()).get_side_output(other),
    ],
    "a step with a name that two steps read": [named, named],
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults(case: str) -> None:
    stream, expected = FAULTS[case]
    fault = fault_of(stream)
    step, _, location = fault.where.partition(", ")
    assert replace(fault, where=step) == expected
    assert location.rpartition(":")[0] in {__file__, plan.__code__.co_filename}  # plan makes the sinks


def test_a_name_that_is_given_twice() -> None:
    faults = faults_of(named.filter(lambda reading: True, name="clean"))
    assert [(fault.message, fault.where.split(",")[0]) for fault in faults] == [
        ("the name 'clean' is given to several steps", "p.2.clean"),
        ("the name 'clean' is given to several steps", "p.3.clean"),
    ]


@pytest.mark.parametrize("case", ACCEPTED)
def test_plans_without_faults(case: str) -> None:
    plan(*ACCEPTED[case])


def test_malformed_records_are_a_side_output_of_their_source() -> None:
    tag = OutputTag("malformed", MalformedRecord)
    plan(from_source(JsonFileSource("readings", Reading, on_malformed=tag)).get_side_output(tag))


def test_a_plan_without_sinks() -> None:
    with pytest.raises(PlanError) as caught:
        Pipeline("empty")
    assert str(caught.value) == (
        "the plan has a fault\n1. the pipeline has no sink\n  where:    empty\n  hint:     add stream.sink_to(...)"
    )


class Own(Trigger[Reading, Window]):
    def __init__(self, limit: int) -> None:
        self.limit = limit


class OwnParts(ComposableTrigger[Reading, Window]):
    def is_ready(self, window: Window, context: PartContext) -> bool:
        return False

    def on_fire(self, window: Window, context: PartContext) -> bool:
        return False


@pytest.mark.parametrize(
    ("part", "shown", "hint"),
    [
        (Own(3), "part Own(limit=3)", "derive Own from MergingTrigger, and override on_merge"),
        (OwnParts(), "part OwnParts", "derive OwnParts from MergingComposableTrigger, and override merge"),
        (PurgingTrigger(CountTrigger.of(2)), "part PurgingTrigger(CountTrigger(2))", "use a trigger that can merge, "),
        (after_all(Own(1), after_count(1), Own(2)), "parts Own(limit=1) and Own(limit=2)", "derive Own from "),
    ],
)
def test_the_guilty_parts_of_a_trigger_that_cannot_merge_are_named(part: Any, shown: str, hint: str) -> None:
    trigger = repeatedly(after_any(after_count(9), part))
    fault = fault_of(keyed.window(sessions).trigger(trigger).reduce(colder))
    assert fault.message.startswith(f"the {shown} of the trigger repeatedly(after_any(after_count(9), ")
    assert fault.hint.startswith(hint)


@pytest.mark.parametrize(("sink", "shown"), [(JsonFileSink, "json out"), (ParquetFileSink, "parquet out")])
def test_a_sink_whose_columns_are_unknown(sink: Callable[[str], Sink[Any]], shown: str) -> None:
    celsius = unstamped.map(lambda reading: -float(reading.sensor[1:]))
    fault = fault_of(celsius.sink_to(sink("out")))
    line = sys._getframe().f_lineno - 2
    assert fault == Fault(
        f"the columns of the sink '{shown}' cannot be known: the type of the elements is not",
        f"p.3.sink, {__file__}:{line + 1}",
        f"the type is lost at map, {__file__}:{line}, because the function takes a slice: annotate the function "
        "that makes them, or call returns(Type) before sink_to",
    )
    plan(celsius.returns(float).sink_to(sink("out")))


SINKS_WITH_COLUMNS: list[Sink[Any]] = [
    *(JsonFileSink("out"), CsvFileSink("out"), ParquetFileSink("out"), DeltaSink("out"), KafkaSink("a:1", "out")),
    *(DatabaseSink("sqlite:///out.db", "out"), IcebergSink("db.out"), WriterSink(lambda frame: frame.writeStream)),
]


@pytest.mark.parametrize("sink", SINKS_WITH_COLUMNS, ids=lambda sink: type(sink).__name__)
def test_elements_of_several_types_have_no_columns(sink: Sink[Any]) -> None:
    both = unstamped.union(from_collection(["a"], str), from_collection([None], type(None)))
    fault = fault_of(both.filter(bool).sink_to(sink))
    assert fault == Fault(
        f"the sink {sink.describe()!r} has the columns of one type, and the elements are of several: Reading and str",
        f"p.6.sink, {__file__}:{sys._getframe().f_lineno - 3}",
        "make one record type of all of them first, map(lambda element: Row(...)), or give the streams of each type a "
        "sink of their own",
    )
    plan(both.map(repr).returns(str).sink_to(sink))


def test_a_text_sink_names_the_types_of_a_union() -> None:
    sink: Any = TextFileSink("out")
    both = from_collection([1], int).union(from_collection(["a"], str))
    assert "takes str only, and the elements are int | str" in fault_of(both.sink_to(sink)).message


def test_a_sink_with_columns_takes_one_type_and_none() -> None:
    plan(from_collection([1, None]).returns(Annotated[int, "a number"] | None).sink_to(JsonFileSink("out")))
    plan(unstamped.union(unstamped).sink_to(JsonFileSink("out")))
    plan(unstamped.union(from_collection(["a"], str)))


def hint_of(stream: DataStream[Any]) -> str:
    return fault_of(stream.sink_to(JsonFileSink("out"))).hint


def test_the_step_that_loses_the_type_is_named() -> None:
    def sums(keyed: KeyedStream[Reading, str]) -> DataStream[tuple[str, int]]:
        stage = keyed.window(GlobalWindows.create_with_end_of_stream_trigger())
        return stage.aggregate(agg.combine(agg.key(), agg.sum(lambda reading: reading.at)), name="sums")

    unknown = sums(unstamped.key_by(lambda reading: "".join([*reading.sensor])))
    assert hint_of(unknown.filter(bool)).startswith(f"the type is lost at sums, {__file__}:")
    assert "key_by(..., key_type=...) says that of key()" in hint_of(unknown)
    plan(sums(unstamped.key_by(lambda reading: "".join([*reading.sensor]), str)).sink_to(JsonFileSink("out")))
    in_part = unstamped.apply_transform(lambda part: part.map(lambda reading: [*reading.sensor][-1]), name="part")
    assert hint_of(in_part).startswith(f"the type is lost at part/map, {__file__}:")
    mixed: DataStream[Any] = from_collection([1, "a"])
    assert "the type is lost at source, " in hint_of(mixed)


def test_one_collect_sink_for_two_streams() -> None:
    sink = CollectSink[Reading]()
    fault = fault_of(unstamped.sink_to(sink), unstamped.sink_to(sink))
    assert (fault.message, fault.where.split(",")[0]) == ("one CollectSink takes several streams", "p.3.sink")
    assert fault.hint.startswith("make one for each stream; the first is that of p.2.sink, ")


def test_a_writer_sink_with_company() -> None:
    writer = WriterSink[Reading](lambda frame: frame.writeStream)
    plan(unstamped.sink_to(writer))
    fault = fault_of(unstamped.sink_to(writer), unstamped)
    assert fault.message == "a WriterSink must be the only sink of its pipeline"
    assert fault.hint == "make a pipeline of its own"


def test_all_faults_are_raised_together_in_the_order_of_the_plan() -> None:
    tag = OutputTag("nowhere", Reading)
    total = unstamped.key_by(sensor).window(SECONDS).aggregate(agg.sum(lambda r: r.celsius), name="total")
    numbers = total.map(lambda celsius: sum([*range(int(celsius))])).sink_to(JsonFileSink("out"))
    side = total.get_side_output(tag).sink_to(CollectSink[Reading]())
    total_at, numbers_at, side_at = (f"{__file__}:{sys._getframe().f_lineno - before}" for before in (3, 2, 1))
    with pytest.raises(WindrowError) as caught:
        Pipeline("plan", numbers, side)
    assert str(caught.value) == (
        "the plan has 3 faults\n"
        "1. TumblingEventTimeWindows(size=1 s) needs timestamps, and the stream has none\n"
        f"  where:    plan.3.total, {total_at}\n"
        f"  hint:     {STAMP}\n"
        "2. the columns of the sink 'json out' cannot be known: the type of the elements is not\n"
        f"  where:    plan.5.sink, {numbers_at}\n"
        f"  hint:     the type is lost at map, {numbers_at}, because the function uses sum: annotate "
        "the function that makes them, or call returns(Type) before sink_to\n"
        "3. the step 'total' has no side output 'nowhere'\n"
        f"  where:    plan.6.side_output, {side_at}\n"
        f"  hint:     {FILL}"
    )


def test_global_windows_that_would_never_fire() -> None:
    def messages(trigger: Trigger[object, Window] | None, stream: DataStream[Reading] = stamped) -> list[str]:
        stage = stream.key_by(sensor).window(GlobalWindows.create())
        reduced = (stage if trigger is None else stage.trigger(trigger)).reduce(colder)
        return [fault.message for fault in faults_of(reduced)]

    each = ContinuousEventTimeTrigger.of(SECOND)
    assert messages(None) == ["GlobalWindows has no trigger, so no element would ever come out"]
    assert fault_of(keyed.window(GlobalWindows.create()).reduce(colder)).hint.startswith("call trigger")
    for trigger in (EventTimeTrigger.create(), ProcessingTimeTrigger.create()):
        message = f"{trigger.describe()} fires at the end of a window, and the global window has none"
        assert messages(trigger) == messages(PurgingTrigger.of(trigger)) == [message]
    assert messages(each, unstamped) == [f"{each.describe()} needs timestamps, and the stream has none"]
    assert messages(each) == messages(NeverTrigger.create()) == []


def test_timeouts_in_event_time_need_it() -> None:
    trigger = EventTimeoutTrigger.of(CountTrigger.of(3), SECOND)
    by_clock = TumblingProcessingTimeWindows.of(SECOND)
    for whole in (trigger, PurgingTrigger.of(trigger), repeatedly(after_any(trigger, after_count(9)))):
        plan(keyed.window(GlobalWindows.create()).trigger(whole).reduce(colder))
        without = unstamped.key_by(sensor).window(GlobalWindows.create()).trigger(whole).reduce(colder)
        assert fault_of(without).message == f"{trigger.describe()} needs timestamps, and the stream has none"
        assert fault_of(keyed.window(by_clock).trigger(whole).reduce(colder)).message == (
            f"{trigger.describe()} waits for the watermark, and {by_clock.describe()} is in processing time"
        )


class Sorting(ProcessWindowFunction[Reading, Reading, str, TimeWindow]):
    """Names a tag, which it may put elements out to."""

    ODD = OutputTag("odd", int)

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]
    ) -> list[Reading]:
        context.output(EVEN, "text")
        return []


EVEN = OutputTag("even", str)
sorting = windows.process(Sorting())
OTHER_TYPES: list[tuple[DataStream[Any], list[OutputTag[Any]], str]] = [
    (with_late, [OutputTag("late", int)], "'late' is taken as int, and is of Reading"),
    (with_late, [OutputTag[int]("late")], "'late' is taken as int, and is of Reading"),
    (sorting, [OutputTag("odd", str)], "'odd' is taken as str, and is of int"),
    (sorting, [OutputTag("even", int)], "'even' is taken as int, and is of str"),
    (sorting, [OutputTag("else", str), OutputTag("else", int)], "'else' is taken as int, and is of str"),
]


@pytest.mark.parametrize(("stream", "tags", "message"), OTHER_TYPES, ids=["late", "subscript", "odd", "even", "else"])
def test_a_tag_of_the_same_name_with_another_type(stream: Any, tags: list[OutputTag[Any]], message: str) -> None:
    assert fault_of(*(stream.get_side_output(tag) for tag in tags)).message == f"the side output {message}"


def test_tags_that_say_no_type_or_that_of_another_step() -> None:
    plan(with_late.get_side_output(OutputTag("late")), with_late.get_side_output(late))
    number = OutputTag("late", int)
    numbers = in_time([1], lambda number: number).key_by(lambda number: number).window(SECONDS)
    of_numbers = numbers.side_output_late_data(number).reduce(lambda a, b: a).get_side_output(number)
    plan(with_late.get_side_output(late), of_numbers)


def test_a_sink_that_no_pipeline_was_given() -> None:
    numbers = from_collection([1, 2])
    with pytest.warns(WindrowWarning, match="a sink was given to no pipeline") as caught:
        numbers.sink_to(CollectSink())
    assert (caught[0].filename, caught[0].lineno) == (__file__, sys._getframe().f_lineno - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Pipeline("used", numbers.sink_to(CollectSink()))
        sink = numbers.sink_to(CollectSink())
        Pipeline("twice", sink)
        fault_of(numbers.map(lambda n: [*range(n)]).sink_to(JsonFileSink("out")))
        # Whoever is told of one fault is not told of another that follows from it.
        wrong: Any = Pipeline
        assert "Pipeline(name, *sinks)" in str(refusal(lambda: wrong("in a list", [numbers.sink_to(CollectSink())])))
        assert 'Pipeline("name", ' in str(refusal(lambda: wrong(numbers.sink_to(CollectSink()))))


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
    firing = windows.trigger(PurgingTrigger.of(Firing())).reduce(colder)
    assert [fault.message for fault in faults_of(keyed.process(Kinds()), keyed.process(Types(str)), firing)] == [
        "Kinds has two descriptors of the name 'n': "
        "total is a ValueStateDescriptor of int, and seen is a ListStateDescriptor of int",
        "Types has two descriptors of the name 'n': "
        "total is a ValueStateDescriptor of int, and own is a ValueStateDescriptor of str",
        "Firing has two descriptors of the name 'n': "
        "by_name is a MapStateDescriptor of str and int, and by_number is a MapStateDescriptor of int and int",
    ]
    plan(keyed.process(Types(int)))


@pytest.mark.parametrize("name", ["a\ud800", "a\nb", "a\x1b[2J"])
def test_a_step_whose_name_is_no_text(name: str) -> None:
    fault = fault_of(unstamped.map(lambda reading: reading, name=name))
    assert fault.message == f"the name {name!r} of a step is no line of text"
    assert fault.where == f"{__file__}:{sys._getframe().f_lineno - 2}"
