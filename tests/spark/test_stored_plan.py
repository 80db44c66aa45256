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

    def merge(self, a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
        return (a[0] + b[0], a[1] + b[1])


class Median(AggregateFunction[Any, list[float], float]):
    def create_accumulator(self) -> list[float]:
        return []

    def add(self, value: Any, accumulator: list[float]) -> list[float]:
        return [*accumulator, value.celsius]

    def get_result(self, accumulator: list[float]) -> float:
        return sorted(accumulator)[len(accumulator) // 2]

    def merge(self, a: list[float], b: list[float]) -> list[float]:
        return a + b


def other(name: str, base: type = Mean, **space: Any) -> Any:
    """A class of another version of a program."""
    return type(name, (base,), space)


class Alarm(KeyedProcessFunction[str, Any, str]):
    last: Any = ValueStateDescriptor("last", float)
    seen: Any = MapStateDescriptor("seen", str, Place)

    def __init__(self, threshold: float = 1.0) -> None:
        self.threshold = threshold

    def process_element(self, value: Any, context: KeyedProcessContext[str]) -> Iterable[str]:
        return ()


class ByClock(Alarm):
    uses_processing_time = True


ByClock.__qualname__ = Alarm.__qualname__

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
    stream: DataStream[Any] = (
        from_collection([])
        .returns(kind)
        .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda _: 0)
    )
    built = change(stream)
    sinks = [built.sink_to(CollectSink())]
    if behind is not None:
        sinks.append(behind(stream).sink_to(CollectSink()))
    return Topology(Pipeline(name, *sinks).steps)


def again(folder: Path, first: Topology, second: Topology, *times: str) -> StoredPlan:
    """What the second plan takes over from the checkpoint of the first one."""
    before, now = times or ("event time", "event time")
    began = resume(Checkpoint(folder), PhysicalPlan(first), before, SESSION)
    resumed = resume(Checkpoint(folder), PhysicalPlan(second), now, SESSION)
    assert resumed.fingerprint == began.fingerprint
    assert list(PhysicalPlan(second).state_ids.values()) == list(PhysicalPlan(first).state_ids.values())
    assert list(resumed.folders.values()) == list(began.folders.values())
    return resumed


late = OutputTag("late", Reading)
plain = windows()


def each(stage: Any) -> Any:
    return stage.trigger(repeatedly(after_count(1)))


ACCEPTED: dict[str, tuple[Topology, Topology]] = {
    "a stateless step in front": (pipeline(plain), pipeline(lambda s: plain(s.filter(lambda r: True)))),
    "another name of the pipeline": (pipeline(plain), pipeline(plain, name="renamed")),
    "another sink": (pipeline(plain), pipeline(plain, behind=lambda s: s.map(lambda r: r.sensor))),
    "late data kept": (pipeline(plain), pipeline(windows(lambda w: w.side_output_late_data(late)))),
    "the default trigger written out": (
        pipeline(plain),
        pipeline(windows(lambda w: w.trigger(EventTimeTrigger.create()))),
    ),
    "a mode of windows that fire once": (pipeline(plain), pipeline(windows(lambda w: w.discarding()))),
    "accumulating written out": (pipeline(windows(each)), pipeline(windows(lambda w: each(w).accumulating()))),
    "another limit of an evictor": (
        pipeline(windows(lambda w: w.evictor(CountEvictor.of(3)))),
        pipeline(windows(lambda w: w.evictor(CountEvictor.of(4)))),
    ),
    "another parameter of a function": (pipeline(process(Alarm(1.0))), pipeline(process(Alarm(2.0)))),
    "state that is new, and state that is gone": (
        pipeline(process(Alarm())),
        pipeline(process(other("Alarm", Alarm, last=None, more=ListStateDescriptor("more", int))())),
    ),
    "another result of the same state, and other names of variables": (
        pipeline(windows(function=agg.combine(agg.sum(lambda s: s.span), agg.stddev(lambda s: s.times))), Stay),
        pipeline(windows(function=agg.combine(agg.sum(lambda r: r.span), agg.variance(lambda r: r.times))), Stay),
    ),
    "a type that becomes known": (pipeline(windows(key=None)), pipeline(windows())),
    "a new last field": (pipeline(plain), pipeline(plain, grown(("unit", str, "C")))),
    "a new field with a factory": (
        pipeline(plain),
        pipeline(plain, grown(("tags", list[str], field(default_factory=list)))),
    ),
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


SESSIONS: WindowAssigner[Any, Any] = EventTimeSessionWindows.with_gap(timedelta(seconds=5))

REFUSED: dict[str, tuple[Topology, Topology, str]] = {
    "size": (
        pipeline(plain),
        pipeline(windows(assigner=TumblingEventTimeWindows.of(timedelta(seconds=6)))),
        r"assigner was TumblingEventTimeWindows\(size=5 s\) and is TumblingEventTimeWindows\(size=6 s\)",
    ),
    "assigner": (pipeline(plain), pipeline(windows(assigner=SESSIONS)), r"and is EventTimeSessionWindows\(gap=5 s\)"),
    "trigger": (
        pipeline(windows(lambda w: w.trigger(ANY))),
        pipeline(windows(lambda w: w.trigger(PurgingTrigger.of(CountTrigger.of(4))))),
        r"trigger was PurgingTrigger\(CountTrigger\(3\)\) and is PurgingTrigger\(CountTrigger\(4\)\)",
    ),
    "evictor": (
        pipeline(plain),
        pipeline(windows(lambda w: w.evictor(CountEvictor.of(3)))),
        "evictor was none and is one",
    ),
    "lateness": (
        pipeline(plain),
        pipeline(windows(lambda w: w.allowed_lateness(timedelta(seconds=1)))),
        "allowed lateness was 0 ms and is 1 s",
    ),
    "accumulation mode": (
        pipeline(windows(each)),
        pipeline(windows(lambda w: each(w).discarding())),
        "panes was accumulating and is discarding",
    ),
    "no more withdrawals": (
        pipeline(lambda stream: windows(lambda w: each(w).retracting())(stream).changelog()),
        pipeline(windows(each)),
        "panes was retracting and is accumulating",
    ),
    "panes that are counted": (
        pipeline(windows(lambda w: w.trigger(ANY))),
        pipeline(windows(lambda w: w.trigger(ANY).accumulating())),
        "panes was not counted and is accumulating",
    ),
    "panes that are no longer counted": (
        pipeline(windows(lambda w: w.trigger(CountTrigger.of(3)).discarding())),
        pipeline(windows(lambda w: w.trigger(CountTrigger.of(3)))),
        "panes was discarding and is not counted",
    ),
    "contents that go with late results": (
        pipeline(windows(lambda w: w.allowed_lateness(timedelta(seconds=1)).accumulating())),
        pipeline(windows(lambda w: w.allowed_lateness(timedelta(seconds=1)).discarding())),
        "panes was not counted and is discarding, not counted",
    ),
    "windows behind withdrawals": (
        pipeline(lambda stream: windows()(windows()(stream))),
        pipeline(lambda stream: windows()(windows(lambda w: w.retracting())(stream)).changelog()),
        "elements was records and is changes",
    ),
    "the pane on time": (
        pipeline(windows(each)),
        pipeline(windows(lambda w: each(w).on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY))),
        "panes was accumulating and is on-time pane if non-empty",
    ),
    "the closing pane": (
        pipeline(windows(each)),
        pipeline(windows(lambda w: each(w).closing_behavior(ClosingBehavior.FIRE_ALWAYS))),
        "panes was accumulating and is closing pane always",
    ),
    "the timestamps of results": (
        pipeline(plain),
        pipeline(windows(lambda w: w.timestamp_combiner(TimestampCombiner.EARLIEST))),
        "panes was not counted and is timestamp earliest",
    ),
    "function kind": (pipeline(plain), pipeline(windows(function=Mean())), "function was reduce and is aggregate Mean"),
    "function class": (
        pipeline(windows(function=Mean())),
        pipeline(windows(function=Median())),
        r"function was aggregate Mean and is aggregate Median(.|\n)*"
        r"accumulator type was tuple\[float, int\] and is list\[float\]",
    ),
    "declared aggregate": (
        pipeline(windows(function=agg.min(lambda r: r.celsius))),
        pipeline(windows(function=agg.max(lambda r: r.celsius))),
        r"aggregates was min\(\) and is max\(\)",
    ),
    "order of declared aggregates": (
        pipeline(windows(function=agg.combine(agg.count(), agg.max(lambda r: r.celsius)))),
        pipeline(windows(function=agg.combine(agg.max(lambda r: r.celsius), agg.count()))),
        r"aggregates was combine\(count\(\), max\(\)\) and is combine\(max\(\), count\(\)\)",
    ),
    "types of aggregates": (
        pipeline(windows(function=agg.combine(agg.sum(lambda s: s.times), agg.sum(lambda s: s.span))), Stay),
        pipeline(windows(function=agg.combine(agg.sum(lambda s: s.span), agg.sum(lambda s: s.times))), Stay),
        r"result of aggregate 1 was int \| None and is datetime.timedelta \| None",
    ),
    "key type": (pipeline(plain), pipeline(windows(key=int)), "key type was str and is int"),
    "a field of a key": (
        pipeline(windows(key=Reading)),
        pipeline(windows(key=grown(("unit", str, "C")))),
        "key type: Reading.unit is new, and keys with another field are other keys",
    ),
    "no default": (
        pipeline(plain),
        pipeline(plain, grown(("unit", str, ...))),
        "record type: Reading.unit is new and has no default, and no factory such as list",
    ),
    "a field that is gone": (
        pipeline(plain),
        pipeline(plain, grown(without="celsius")),
        "record type: Reading.celsius was float and is gone",
    ),
    "the type of a field": (
        pipeline(plain),
        pipeline(plain, grown(("celsius", int, ...))),
        "record type: Reading.celsius was float and is int",
    ),
    "a record in a record": (
        pipeline(plain),
        pipeline(plain, grown(place=NamedTuple("Place", [("room", int)]))),
        "record type: Reading.place.room was str and is int",
    ),
    "another record": (pipeline(plain), pipeline(plain, Place), "record type was Reading and is Place"),
    "the kind of state": (
        pipeline(process(Alarm())),
        pipeline(process(other("Alarm", Alarm, last=ListStateDescriptor("last", float))())),
        "state 'last' was value state and is list state",
    ),
    "the type of state": (
        pipeline(process(Alarm())),
        pipeline(process(other("Alarm", Alarm, seen=MapStateDescriptor("seen", str, int))())),
        "value of state 'seen' was Place and is int",
    ),
    "a process function": (
        pipeline(process(Alarm())),
        pipeline(process(other("Other", Alarm)())),
        "Alarm and is Other",
    ),
    "a rolling function": (
        pipeline(lambda s: s.key_by(lambda r: 0).min(lambda r: r.celsius)),
        pipeline(lambda s: s.key_by(lambda r: 0).max(lambda r: r.celsius)),
        "function was rolling min and is rolling max",
    ),
    "a step more": (
        pipeline(plain),
        pipeline(plain, behind=plain),
        r"plan\.\d+\.window, .*test_stored_plan.py:\d+ is new",
    ),
    "a step less": (
        pipeline(windows(name="mine"), behind=plain),
        pipeline(plain),
        r"mine \(TumblingEventTimeWindows\(size=5 s\)\) is gone",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_changed_plan_is_refused_with_what_changed(tmp_path: Path, case: str) -> None:
    first, second, told = REFUSED[case]
    with pytest.raises(IncompatibleStateError, match=f"another plan\n.*{told}") as caught:
        again(tmp_path, first, second)
    assert str(tmp_path) in str(caught.value.where)
    if "less" not in case:
        assert "test_stored_plan.py:" in str(caught.value.given)
    # What is stored stands as it was.
    again(tmp_path, first, first)


def test_time_and_sources_cannot_change(tmp_path: Path) -> None:
    plan = pipeline(plain)
    with pytest.raises(IncompatibleStateError, match="ran by event time and would run by processing time"):
        again(tmp_path, plan, plan, "event time", "processing time")
    files = from_source(JsonFileSource(tmp_path, Reading)).key_by(lambda r: r.sensor, str)
    other_source = Topology(Pipeline("plan", files.count_window(2).reduce(lambda a, b: a).sink_to(CollectSink())).steps)
    with pytest.raises(IncompatibleStateError, match="sources were CollectionSource and are JsonFileSource"):
        again(tmp_path, plan, other_source)


def test_what_a_run_added_is_remembered(tmp_path: Path) -> None:
    # State that was stored with the new field cannot be read by the old program.
    old, new = pipeline(plain), pipeline(plain, grown(("unit", str, "C")))
    again(tmp_path, old, new)
    with pytest.raises(IncompatibleStateError, match=r"Reading\.unit was str and is gone"):
        again(tmp_path, new, old)
    # Nor is a type forgotten when a program no longer tells it.
    again(tmp_path, new, pipeline(windows(key=None), grown(("unit", str, "C"))))
    with pytest.raises(IncompatibleStateError, match="key type was str and is int"):
        again(tmp_path, new, pipeline(windows(key=int), grown(("unit", str, "C"))))


def test_sources_keep_their_folders(tmp_path: Path) -> None:
    first = pipeline(plain)
    union = pipeline(lambda s: plain(s.filter(lambda r: True)), behind=lambda s: s.map(lambda r: r))
    resumed = again(tmp_path, first, union)
    step = union.sources[0]
    assert Checkpoint(tmp_path, resumed.folders).folder_of(step) == Checkpoint(tmp_path).folder_of(first.sources[0])


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Parallelism(4, None, 3), r"partitions=4(.|\n)*partitions=3, as in the first run(.|\n)*leave partitions out"),
        (Parallelism(None, 5, 3), r"key_groups_per_partition=5(.|\n)*key_groups_per_partition=2"),
    ],
)
def test_another_parallelism_is_refused(tmp_path: Path, wanted: Parallelism, told: str) -> None:
    plan = pipeline(plain)
    resume(Checkpoint(tmp_path), PhysicalPlan(plan), "event time", SESSION)
    with pytest.raises(IncompatibleStateError, match=told):
        resume(Checkpoint(tmp_path), PhysicalPlan(plan), "event time", wanted)
    # What was given at first, and whatever the session has now, goes on with what is stored.
    for fitting in (Parallelism(3, 2, 8), Parallelism(None, None, 8)):
        groups = resume(Checkpoint(tmp_path), PhysicalPlan(plan), "event time", fitting).groups
        assert (groups.partitions, groups.count) == (3, 6)


def test_an_unknown_version_and_a_damaged_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan"
    file.write_text("windrow v3 0a\n{}")
    with pytest.raises(IncompatibleStateError, match=r"another version(.|\n)*given: +3(.|\n)*version 1"):
        resume(Checkpoint(tmp_path), PhysicalPlan(pipeline(plain)), "event time", SESSION)
    for damaged in ("{", "[" * 100_000, "windrow v1 0a\n{}", "windrow v1"):
        file.write_text(damaged)
        with pytest.raises(CheckpointError, match=r"damaged(.|\n)*plan"):
            resume(Checkpoint(tmp_path), PhysicalPlan(pipeline(plain)), "event time", SESSION)


@pytest.mark.parametrize("threshold", [math.inf, 2**100])
def test_a_number_that_json_does_not_have_is_noted(tmp_path: Path, threshold: float) -> None:
    never = windows(lambda w: w.trigger(DeltaTrigger.of(threshold, lambda a, b: 1.0)))
    again(tmp_path, pipeline(never), pipeline(never))


class Entry(NamedTuple):
    room: str
    at: int


def columnar() -> Topology:
    """A plan whose one step runs on columns."""
    stream = from_source(ParquetFileSource("never read", Entry)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda entry: entry.at
    )
    counted = stream.key_by(lambda entry: entry.room).window(TUMBLING).aggregate(agg.count())
    return Topology(Pipeline("plan", counted.sink_to(CollectSink())).steps)


def test_a_plan_on_columns_does_not_go_on_without(tmp_path: Path) -> None:
    plan = columnar()
    (step,) = plan.keyed
    assert resume(Checkpoint(tmp_path), physical_plan(plan), "event time", SESSION).columnar == {step.id}
    assert resume(Checkpoint(tmp_path), physical_plan(plan), "event time", SESSION).columnar == {step.id}
    with pytest.raises(IncompatibleStateError, match="its state lies in columns"):
        resume(Checkpoint(tmp_path), PhysicalPlan(plan), "event time", SESSION)


def test_a_plan_on_objects_goes_on_as_it_began(tmp_path: Path) -> None:
    plan = columnar()
    file = Checkpoint(tmp_path).plan
    assert resume(Checkpoint(tmp_path), PhysicalPlan(plan), "event time", SESSION).columnar == set()
    stored = file.read()
    assert resume(Checkpoint(tmp_path), physical_plan(plan), "event time", SESSION).columnar == set()
    assert file.read() == stored is not None


def test_the_plan_of_a_kept_checkpoint_stays_as_it_is(tmp_path: Path) -> None:
    archive = next(archive for archive in archives() if archive.name.startswith("kept-"))
    unpack(archive, tmp_path)
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
    again(tmp_path, pipeline(plain, checking()), pipeline(plain, checking()))
    with pytest.raises(IncompatibleStateError, match=r"Reading\.unit is new, and the class is stored as a whole"):
        again(tmp_path, pipeline(plain, checking()), pipeline(plain, checking("unit")))
    simple = grown(without="place")
    (tmp_path / "simple").mkdir()
    again(tmp_path / "simple", pipeline(plain, simple), pipeline(plain, simple))
    with pytest.raises(IncompatibleStateError, match="Reading was stored by field"):
        again(tmp_path / "simple", pipeline(plain, simple), pipeline(plain, checking()))
