"""Which plans may go on from a checkpoint, and what is said of those that may not. No Spark is needed to know."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, NotRequired

import pytest
from typing_extensions import TypedDict

from tests.spark.checkpoints.archives import archives, unpack
from tests.spark.checkpoints.kept import READINGS
from tests.spark.checkpoints.kept import pipeline as kept_pipeline
from tests.spark.streams import stamped
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.errors import CheckpointError, IncompatibleStateError
from windrow.evictors import CountEvictor
from windrow.functions import AggregateFunction, KeyedProcessContext, KeyedProcessFunction
from windrow.panes import ClosingBehavior, OnTimeBehavior, TimestampCombiner
from windrow.sinks import CollectSink
from windrow.sources import JsonFileSource, ParquetFileSource
from windrow.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from windrow.triggers import CountTrigger, DeltaTrigger, EventTimeTrigger, PurgingTrigger, after_count, repeatedly
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows, WindowAssigner
from windrow_runtime.operators.topology import Topology
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_plan import Parallelism, StoredPlan, resume
from windrow_spark.lowering import physical_plan
from windrow_spark.physical.plan import PhysicalPlan

# Any in this module: streams of every type.
Change = Callable[[DataStream[Any]], DataStream[Any]]
SESSION = Parallelism(None, None, 3)


@dataclass(frozen=True)
class Place:
    room: str


@dataclass(frozen=True)
class Reading:
    sensor: str
    celsius: float
    place: Place


def grown(*fields: tuple[str, Any, Any], without: str = "", place: Any = Place) -> type:
    """A class with the name of `Reading`, as another version of a program has it: fields are (name, type, default)."""
    space: dict[str, Any] = {"__annotations__": {"sensor": str, "celsius": float, "place": place}}
    space["__annotations__"].pop(without, None)
    for name, kind, default in fields:
        space["__annotations__"][name] = kind
        if default is not ...:
            space[name] = default
    return dataclass(frozen=True)(type("Reading", (), space))


class V1(TypedDict):
    sensor: str


class V2(TypedDict):
    sensor: str
    unit: NotRequired[str]


V2.__qualname__ = V1.__qualname__
V2.__name__ = V1.__name__


class Stay(NamedTuple):
    sensor: str
    times: int
    span: timedelta


class Mean(AggregateFunction[Any, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return (0.0, 0)

    def add(self, value: Any, accumulator: tuple[float, int]) -> tuple[float, int]:
        return (accumulator[0] + value.celsius, accumulator[1] + 1)

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]


class Median(AggregateFunction[Any, list[float], float]):
    def create_accumulator(self) -> list[float]:
        return []

    def add(self, value: Any, accumulator: list[float]) -> list[float]:
        return [*accumulator, value.celsius]

    def get_result(self, accumulator: list[float]) -> float:
        return sorted(accumulator)[len(accumulator) // 2]


class Alarm(KeyedProcessFunction[str, Any, str]):
    last: Any = ValueStateDescriptor("last", float)
    seen: Any = MapStateDescriptor("seen", str, Place)

    def __init__(self, threshold: float = 1.0) -> None:
        self.threshold = threshold

    def process_element(self, value: Any, context: KeyedProcessContext[str]) -> Iterable[str]:
        return ()


TUMBLING: WindowAssigner[Any, Any] = TumblingEventTimeWindows.of(timedelta(seconds=5))
ANY = PurgingTrigger.of(CountTrigger.of(3))


def windows(
    *changes: Callable[[Any], Any],
    assigner: WindowAssigner[Any, Any] = TUMBLING,
    function: Any = None,
    key: Any = str,
    name: Any = None,
) -> Change:
    """Windows over a stream, with the given calls between window(...) and the function."""

    def build(stream: DataStream[Any]) -> DataStream[Any]:
        stage: Any = stream.key_by(lambda reading: reading.sensor, key).window(assigner)
        for change in changes:
            stage = change(stage)
        if function is None:
            return stage.reduce(lambda a, b: a, name=name)  # type: ignore[no-any-return]  # the stage is of any type
        return stage.aggregate(function, name=name)  # type: ignore[no-any-return]  # as above

    return build


def process(function: Any) -> Change:
    return lambda stream: stream.key_by(lambda reading: str(reading.sensor), str).process(function)


def pipeline(change: Change, kind: Any = Reading, *, name: str = "plan", behind: Change | None = None) -> Topology:
    in_order: WatermarkStrategy[Any] = WatermarkStrategy.for_monotonous_timestamps()
    empty: DataStream[Any] = from_collection([]).returns(kind)
    stream = empty.assign_timestamps_and_watermarks(in_order, timestamp=lambda _: 0)
    built = change(stream)
    sinks = [built.sink_to(CollectSink())]
    if behind is not None:
        sinks.append(behind(stream).sink_to(CollectSink()))
    return Topology(Pipeline(name, *sinks).steps)


def on_objects(folder: Path, topology: Topology, parallelism: Parallelism = SESSION) -> StoredPlan:
    return resume(Checkpoint(folder), PhysicalPlan(topology), "event time", parallelism)


def on_columns(folder: Path, topology: Topology) -> StoredPlan:
    return resume(Checkpoint(folder), physical_plan(topology), "event time", SESSION)


def again(folder: Path, first: Topology, second: Topology, *times: str) -> StoredPlan:
    """What the second plan takes over from the checkpoint of the first one."""
    before, now = times or ("event time", "event time")
    began = resume(Checkpoint(folder), PhysicalPlan(first), before, SESSION)
    resumed = resume(Checkpoint(folder), PhysicalPlan(second), now, SESSION)
    assert resumed.fingerprint == began.fingerprint
    assert list(PhysicalPlan(second).state_ids.values()) == list(PhysicalPlan(first).state_ids.values())
    assert list(resumed.folders.values()) == list(began.folders.values())
    return resumed


def each(stage: Any) -> Any:
    return stage.trigger(repeatedly(after_count(1)))


def any_three(stage: Any) -> Any:
    return stage.trigger(ANY)


def as_it_is(stage: Any) -> Any:
    return stage


def with_windows(change: Callable[[Any], Any]) -> Topology:
    return pipeline(windows(change))


def with_function(function: Any, kind: Any = Reading) -> Topology:
    return pipeline(windows(function=function), kind)


def with_record(*fields: tuple[str, Any, Any], **changes: Any) -> Topology:
    """The plan over another version of its record."""
    return pipeline(plain, grown(*fields, **changes))


def with_state(name: str = "Alarm", **space: Any) -> Topology:
    """The plan with another version of its function."""
    return pipeline(process(type(name, (Alarm,), space)()))


late = OutputTag("late", Reading)
plain = windows()
SECOND = timedelta(seconds=1)
SCOPED = pipeline(lambda s: s.pipe(plain))
PLAIN, EACH, ALARM = pipeline(plain), with_windows(each), pipeline(process(Alarm()))
UNIT = ("unit", str, "C")

ACCEPTED: dict[str, tuple[Topology, Topology]] = {
    "a stateless step in front": (PLAIN, pipeline(lambda s: plain(s.filter(lambda r: True)))),
    "another name of the pipeline": (PLAIN, pipeline(plain, name="renamed")),
    "another sink": (PLAIN, pipeline(plain, behind=lambda s: s.map(lambda r: r.sensor))),
    "late data kept": (PLAIN, with_windows(lambda w: w.side_output_late_data(late))),
    "the default trigger written out": (PLAIN, with_windows(lambda w: w.trigger(EventTimeTrigger.create()))),
    "a mode of windows that fire once": (PLAIN, with_windows(lambda w: w.discarding())),
    "accumulating written out": (EACH, with_windows(lambda w: each(w).accumulating())),
    "another limit of an evictor": (
        with_windows(lambda w: w.evictor(CountEvictor.of(3))),
        with_windows(lambda w: w.evictor(CountEvictor.of(4))),
    ),
    "another parameter of a function": (ALARM, pipeline(process(Alarm(2.0)))),
    "state that is new, and state that is gone": (ALARM, with_state(last=None, more=ListStateDescriptor("more", int))),
    "another result of the same state, and other names of variables": (
        with_function(agg.combine(agg.sum(lambda s: s.span), agg.stddev(lambda s: s.times)), Stay),
        with_function(agg.combine(agg.sum(lambda r: r.span), agg.variance(lambda r: r.times)), Stay),
    ),
    "a type that becomes known": (pipeline(windows(key=None)), PLAIN),
    "a new last field": (PLAIN, with_record(UNIT)),
    "a new field with a factory": (PLAIN, with_record(("tags", list[str], field(default_factory=list)))),
    "a new key that may be absent": (pipeline(plain, V1), pipeline(plain, V2)),
    "steps with other scopes around": (
        pipeline(lambda s: windows()(s).union(s.pipe(windows()))),
        pipeline(lambda s: windows()(s.map(lambda r: r).returns(Reading)).union(s.pipe(windows()))),
    ),
    "a name between named ones": (
        pipeline(windows(name="a")),
        pipeline(lambda s: windows(name="a")(s.map(lambda r: r).returns(Reading))),
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_plan_that_can_read_what_is_stored_goes_on(tmp_path: Path, case: str) -> None:
    again(tmp_path, *ACCEPTED[case])


# What is called between window(...) and the function, before and now.
WINDOWS: list[tuple[Callable[[Any], Any], Callable[[Any], Any], str]] = [
    (
        lambda w: w.trigger(ANY),
        lambda w: w.trigger(PurgingTrigger.of(CountTrigger.of(4))),
        r"trigger was PurgingTrigger\(CountTrigger\(3\)\) and is PurgingTrigger\(CountTrigger\(4\)\)",
    ),
    (as_it_is, lambda w: w.evictor(CountEvictor.of(3)), "evictor was none and is one"),
    (as_it_is, lambda w: w.allowed_lateness(SECOND), "allowed lateness was 0 ms and is 1 s"),
    (each, lambda w: each(w).discarding(), "panes was accumulating and is discarding"),
    (any_three, lambda w: any_three(w).accumulating(), "panes was not counted and is accumulating"),
    (lambda w: any_three(w).discarding(), any_three, "panes was discarding and is not counted"),
    (
        lambda w: w.allowed_lateness(SECOND).accumulating(),
        lambda w: w.allowed_lateness(SECOND).discarding(),
        "panes was not counted and is discarding, not counted",
    ),
    (
        each,
        lambda w: each(w).on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY),
        "panes was accumulating and is on-time pane if non-empty",
    ),
    (
        each,
        lambda w: each(w).closing_behavior(ClosingBehavior.FIRE_ALWAYS),
        "panes was accumulating and is closing pane always",
    ),
    (
        as_it_is,
        lambda w: w.timestamp_combiner(TimestampCombiner.EARLIEST),
        "panes was not counted and is timestamp earliest",
    ),
]
COUNT: Any = agg.count()
HIGHEST: Any = agg.max(lambda r: r.celsius)
TIMES: Any = agg.sum(lambda s: s.times)
SPAN: Any = agg.sum(lambda s: s.span)
FUNCTIONS: list[tuple[Any, Any, type, str]] = [
    (None, Mean(), Reading, "function was reduce and is aggregate Mean"),
    (
        Mean(),
        Median(),
        Reading,
        r"function was aggregate Mean and is aggregate Median(.|\n)*"
        r"accumulator type was tuple\[float, int\] and is list\[float\]",
    ),
    (agg.min(lambda r: r.celsius), HIGHEST, Reading, r"aggregates was min\(\) and is max\(\)"),
    (
        agg.combine(COUNT, HIGHEST),
        agg.combine(HIGHEST, COUNT),
        Reading,
        r"aggregates was combine\(count\(\), max\(\)\) and is combine\(max\(\), count\(\)\)",
    ),
    (
        agg.combine(TIMES, SPAN),
        agg.combine(SPAN, TIMES),
        Stay,
        r"result of aggregate 1 was int \| None and is datetime.timedelta \| None",
    ),
]
RECORDS: list[tuple[type, str]] = [
    (grown(("unit", str, ...)), "Reading.unit is new and has no default, and no factory such as list"),
    (grown(without="celsius"), "Reading.celsius was float and is gone"),
    (grown(("celsius", int, ...)), "Reading.celsius was float and is int"),
    (grown(place=NamedTuple("Place", [("room", int)])), "Reading.place.room was str and is int"),
]
LAST, SEEN = ListStateDescriptor("last", float), MapStateDescriptor("seen", str, int)
REFUSED: list[tuple[Topology, Topology, str]] = [
    *((with_windows(first), with_windows(second), told) for first, second, told in WINDOWS),
    *((with_function(first, kind), with_function(second, kind), told) for first, second, kind, told in FUNCTIONS),
    *((PLAIN, pipeline(plain, kind), f"record type: {told}") for kind, told in RECORDS),
    (PLAIN, pipeline(plain, Place), "record type was Reading and is Place"),
    (
        PLAIN,
        pipeline(windows(assigner=TumblingEventTimeWindows.of(6 * SECOND))),
        r"assigner was TumblingEventTimeWindows\(size=5 s\) and is TumblingEventTimeWindows\(size=6 s\)",
    ),
    (
        PLAIN,
        pipeline(windows(assigner=EventTimeSessionWindows.with_gap(5 * SECOND))),
        r"and is EventTimeSessionWindows\(gap=5 s\)",
    ),
    (
        pipeline(lambda stream: windows(lambda w: each(w).retracting())(stream).changelog()),
        EACH,
        "panes was retracting and is accumulating",
    ),
    (
        pipeline(lambda stream: plain(plain(stream))),
        pipeline(lambda stream: plain(windows(lambda w: w.retracting())(stream)).changelog()),
        "elements was records and is changes",
    ),
    (PLAIN, pipeline(windows(key=int)), "key type was str and is int"),
    (
        pipeline(windows(key=Reading)),
        pipeline(windows(key=grown(UNIT))),
        "key type: Reading.unit is new, and keys with another field are other keys",
    ),
    (ALARM, with_state(last=LAST), "state 'last' was value state and is list state"),
    (ALARM, with_state(seen=SEEN), "value of state 'seen' was Place and is int"),
    (ALARM, with_state("Other"), "Alarm and is Other"),
    (
        pipeline(lambda s: s.key_by(lambda r: 0).min(lambda r: r.celsius)),
        pipeline(lambda s: s.key_by(lambda r: 0).max(lambda r: r.celsius)),
        "function was rolling min and is rolling max",
    ),
    (PLAIN, pipeline(plain, behind=plain), r"plan\.\d+\.window, .*test_stored_plan.py:\d+ is new"),
    (SCOPED, pipeline(plain, behind=lambda s: s.pipe(plain)), r"plan\.\d+\.window, .* is new" + "\n"),
    (pipeline(windows(name="mine"), behind=plain), PLAIN, r"mine \(TumblingEventTimeWindows\(size=5 s\)\) is gone"),
]


@pytest.mark.parametrize(("first", "second", "told"), REFUSED, ids=[told for *_, told in REFUSED])
def test_a_changed_plan_is_refused_with_what_changed(
    tmp_path: Path, first: Topology, second: Topology, told: str
) -> None:
    with pytest.raises(IncompatibleStateError, match=f"another plan\n.*{told}") as caught:
        again(tmp_path, first, second)
    assert str(tmp_path) in str(caught.value.where)
    if not told.startswith("mine"):
        assert "test_stored_plan.py:" in str(caught.value.given)
    # What is stored stands as it was.
    again(tmp_path, first, first)


def test_time_and_sources_cannot_change(tmp_path: Path) -> None:
    with pytest.raises(IncompatibleStateError, match="ran by event time and would run by processing time"):
        again(tmp_path, PLAIN, PLAIN, "event time", "processing time")
    files = from_source(JsonFileSource(tmp_path, Reading)).key_by(lambda r: r.sensor, str)
    other_source = Topology(Pipeline("plan", files.count_window(2).reduce(lambda a, b: a).sink_to(CollectSink())).steps)
    with pytest.raises(IncompatibleStateError, match="sources were CollectionSource and are JsonFileSource"):
        again(tmp_path, PLAIN, other_source)


def test_what_a_run_added_is_remembered(tmp_path: Path) -> None:
    # State that was stored with the new field cannot be read by the old program.
    old, new = PLAIN, with_record(UNIT)
    again(tmp_path, old, new)
    with pytest.raises(IncompatibleStateError, match=r"Reading\.unit was str and is gone"):
        again(tmp_path, new, old)
    # Nor is a type forgotten when a program no longer tells it.
    again(tmp_path, new, pipeline(windows(key=None), grown(UNIT)))
    with pytest.raises(IncompatibleStateError, match="key type was str and is int"):
        again(tmp_path, new, pipeline(windows(key=int), grown(UNIT)))


def test_sources_keep_their_folders(tmp_path: Path) -> None:
    union = pipeline(lambda s: plain(s.filter(lambda r: True)), behind=lambda s: s.map(lambda r: r))
    resumed = again(tmp_path, PLAIN, union)
    step = union.sources[0]
    assert Checkpoint(tmp_path, resumed.folders).folder_of(step) == Checkpoint(tmp_path).folder_of(PLAIN.sources[0])


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Parallelism(4, None, 3), r"partitions=4(.|\n)*partitions=3, as in the first run(.|\n)*leave partitions out"),
        (Parallelism(None, 5, 3), r"key_groups_per_partition=5(.|\n)*key_groups_per_partition=2"),
    ],
)
def test_another_parallelism_is_refused(tmp_path: Path, wanted: Parallelism, told: str) -> None:
    on_objects(tmp_path, PLAIN)
    with pytest.raises(IncompatibleStateError, match=told):
        on_objects(tmp_path, PLAIN, wanted)
    # What was given at first, and whatever the session has now, goes on with what is stored.
    for fitting in (Parallelism(3, 2, 8), Parallelism(None, None, 8)):
        groups = on_objects(tmp_path, PLAIN, fitting).groups
        assert (groups.partitions, groups.count) == (3, 6)


def test_an_unknown_version_and_a_damaged_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan"
    file.write_text("windrow v3 0a\n{}")
    with pytest.raises(IncompatibleStateError, match=r"another version(.|\n)*given: +3(.|\n)*version 1"):
        on_objects(tmp_path, PLAIN)
    for damaged in ("{", "[" * 100_000, "windrow v1 0a\n{}", "windrow v1"):
        file.write_text(damaged)
        with pytest.raises(CheckpointError, match=r"damaged(.|\n)*plan"):
            on_objects(tmp_path, PLAIN)


@pytest.mark.parametrize("threshold", [math.inf, 2**100])
def test_a_number_that_json_does_not_have_is_noted(tmp_path: Path, threshold: float) -> None:
    never = with_windows(lambda w: w.trigger(DeltaTrigger.of(threshold, lambda a, b: 1.0)))
    again(tmp_path, never, never)


class Entry(NamedTuple):
    room: str
    at: int


def columnar() -> Topology:
    """A plan whose one step runs on columns."""
    counted = (
        stamped(from_source(ParquetFileSource("never read", Entry))).key_by(lambda entry: entry.room).window(TUMBLING)
    )
    return Topology(Pipeline("plan", counted.aggregate(agg.count()).sink_to(CollectSink())).steps)


def test_a_plan_on_columns_does_not_go_on_without(tmp_path: Path) -> None:
    plan = columnar()
    (step,) = plan.keyed
    for _ in range(2):
        assert on_columns(tmp_path, plan).columnar == {step.id}
    with pytest.raises(IncompatibleStateError, match="its state lies in columns"):
        on_objects(tmp_path, plan)


def test_a_plan_on_objects_goes_on_as_it_began(tmp_path: Path) -> None:
    plan = columnar()
    file = Checkpoint(tmp_path).plan
    assert on_objects(tmp_path, plan).columnar == set()
    stored = file.read()
    assert on_columns(tmp_path, plan).columnar == set()
    assert file.read() == stored is not None


def test_the_plan_of_a_kept_checkpoint_stays_as_it_is(tmp_path: Path) -> None:
    unpack(next(archive for archive in archives() if archive.name.startswith("kept-")), tmp_path)
    file = Checkpoint(tmp_path).plan
    before = file.read()
    assert before is not None
    kept, _ = kept_pipeline(READINGS)
    resumed = resume(Checkpoint(tmp_path), PhysicalPlan(Topology(kept.steps)), before.time, SESSION)
    assert resumed.fingerprint.hex() == before.fingerprint
    assert file.read() == before


def checking(*names: str) -> type:
    """A `Reading` whose constructor does more than set fields."""
    fields = {"sensor": str, "celsius": float} | dict.fromkeys(names, str)
    defaults: dict[str, Any] = dict.fromkeys(names, "C")
    space = {"__annotations__": fields, "__post_init__": lambda self: None, **defaults}
    return dataclass(frozen=True)(type("Reading", (), space))


def test_a_record_that_is_stored_as_a_whole_cannot_grow(tmp_path: Path) -> None:
    whole, simple = pipeline(plain, checking()), with_record(without="place")
    again(tmp_path, whole, pipeline(plain, checking()))
    with pytest.raises(IncompatibleStateError, match=r"Reading\.unit is new, and the class is stored as a whole"):
        again(tmp_path, whole, pipeline(plain, checking("unit")))
    (tmp_path / "simple").mkdir()
    again(tmp_path / "simple", simple, simple)
    with pytest.raises(IncompatibleStateError, match="Reading was stored by field"):
        again(tmp_path / "simple", simple, whole)
