"""State in columns that goes on: under functions that columns do not know, and with records that have new fields."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypedDict, is_typeddict

import numpy as np
import pyarrow as pa
import pytest

from tests.budget import seeded
from tests.columnar import engine
from tests.columnar.engine import LATE, Keyed, batches, by_key, millis, told
from tests.columnar.planning import column_form
from tests.spark.group_engine import GROUPS, GroupEngine
from tests.spark.streams import stamped as timestamped
from tests.spark.test_columns import in_order, late_sessions, readings, stamped, summary, write
from tests.spark.test_joined_columns import Pair, take_at, take_celsius, take_number
from tests.spark.versions import records
from windrow import DataStream, Pipeline, from_collection, from_source, joins
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError, InvalidArgumentError, MissingTimestampError
from windrow.functions.marked import LEFT, Tagged
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark import PipelineProgress, SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_plan import Parallelism, resume
from windrow_spark.columnar.kernels.arrays import list_type, lists
from windrow_spark.columnar.results import values_of
from windrow_spark.columnar.rows.columns import WholeElement, element_values
from windrow_spark.columnar.rows.new_fields import defaults_of, narrowed
from windrow_spark.columnar.state import dump_rows, load_rows
from windrow_spark.columnar.windows.column_operator import Fired
from windrow_spark.exchange.packer import Packer, ToStep
from windrow_spark.exchange.rows import Phase
from windrow_spark.lowering import physical_plan
from windrow_spark.physical.columns import ColumnPlanner
from windrow_spark.physical.plan import PhysicalPlan, StepEdge
from windrow_spark.storage.tuning import ROW_CHUNKS, StateTuning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: results of every type, and pyarrow has no types.

SESSION = Parallelism(None, None, 4)


def gives_objects(source: object) -> None:
    """Declines each source."""
    raise DeclinedError("the source gives objects")


class MixedEngine(GroupEngine):
    """Takes the elements of every other batch as objects; both have one state."""

    def __init__(self, topology: Topology, form: Any, *rest: Any) -> None:
        super().__init__(topology, form, *rest)
        (step,) = topology.keyed
        plan = PhysicalPlan(topology, ColumnPlanner(gives_objects, stored={step.id}))
        self.edges = plan.object_edges[step.id]
        assert plan.fed_by_columns(topology.ports(step)[0]) == frozenset()
        assert self.edges[0].form.operator.schema == form.operator.schema  # type: ignore[attr-defined]  # it has one
        self.scans = 0

    def scan(self, elements: Sequence[Any], pieces: int, watermark: int) -> dict[int, list[Any]]:
        self.scans += 1
        if self.scans % 2:
            return super().scan(elements, pieces, watermark)
        arrived: dict[int, list[Any]] = {label: [] for label in GROUPS.labels}
        for task, (_, part) in enumerate(self.parts(elements, pieces)):
            packer = Packer(GROUPS, Phase.AFTER_WATERMARK)
            packer.start(task, GROUPS.service_labels[0])
            packer.bound_of = partial(self.bound_of, task, watermark)
            kept = [element for element in part if element.text != "ff"]
            target = ToStep(0, 1, [element.key for element in kept], None, self.edges)
            packer.add(target, kept, [element.at for element in kept])
            for row in [*packer.full(), *packer.flush()]:
                arrived[row.group].append(row)
        return arrived


def whole_lists(key: Any, window: Any, elements: Sequence[Any]) -> list[Any]:
    return [(key, window.start, *elements)]


def opaque(element: object) -> bool:
    """Keeps all elements, which no column expression says."""
    return all(True for _ in (element,))


AGGREGATES: dict[str, Any] = {
    "numbers": agg.combine(agg.key(), agg.window_start(), agg.count(), agg.max(lambda e: e.number)),
    "in order": agg.combine(agg.key(), agg.window_start(), agg.first(), agg.collect_list(lambda e: e.text)),
    "function": None,
}

WINDOWS: dict[str, Callable[[Keyed], Any]] = {
    "tumbling": lambda keyed: keyed.window(TumblingEventTimeWindows.of(millis(40))),
    "sliding": lambda keyed: keyed.window(SlidingEventTimeWindows.of(millis(60), millis(20))),
    "sessions": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(millis(7))),
}

CASES = [
    f"{shape}, {aggregate}, {lateness}"
    for shape in WINDOWS
    for aggregate in AGGREGATES
    for lateness in (0, 30)
    if (shape, aggregate) not in {("sessions", "function"), ("sessions", "in order")}
]


@pytest.mark.parametrize(("case", "seed"), seeded(CASES))
def test_objects_become_columns_of_the_stored_state(case: str, seed: int) -> None:
    shape, aggregate, lateness = case.split(", ")
    chance = random.Random(f"{seed} {case}")

    def build(keyed: Keyed) -> DataStream[Any]:
        windows = WINDOWS[shape](keyed).allowed_lateness(millis(int(lateness))).side_output_late_data(LATE)
        declared = AGGREGATES[aggregate]
        stream: DataStream[Any] = windows.apply(whole_lists) if declared is None else windows.aggregate(declared)
        return stream

    tuning = StateTuning(row_chunks=replace(ROW_CHUNKS, tail_bytes=chance.choice([100, 10_000])))
    ran = engine.run(
        build, list(batches(chance)), column_form, crash_at=seed % 5, late=True, tuning=tuning, engine_of=MixedEngine
    )
    assert ran.engine.scans > 10  # type: ignore[attr-defined]  # it is a MixedEngine
    assert by_key(ran.engine.results) == by_key(ran.expected[0])
    assert ran.expected[0]
    assert told(ran.engine.late) == told(ran.expected[1])


# New fields


@dataclass(frozen=True)
class Before:
    name: str
    level: float | None = None


@dataclass(frozen=True)
class After:
    """The same record with fields in other places, and with new ones."""

    level: float | None = None
    unit: str = "C"
    name: str = ""
    seen: datetime = datetime(2020, 1, 2, tzinfo=UTC)
    tags: list[str] = field(default_factory=list)
    parent: str | None = None


@pytest.mark.parametrize("seed", range(5))
def test_stored_columns_get_the_defaults_of_new_fields(seed: int) -> None:
    chance = random.Random(seed)
    before, after = record_type(Before), record_type(After)
    stored = [Before(chance.choice("abc"), chance.choice([None, 1.5])) for _ in range(chance.randrange(1, 40))]
    batch = encode_batch(stored, before)
    column = WholeElement(before).evaluate(dict(zip(batch.schema.names, batch.columns, strict=True)))
    rows = pa.array([None if chance.random() < 0.2 else row for row in range(len(column))], pa.int64())
    sizes = np.array([chance.randrange(3) for _ in range(len(column))])
    listed = lists(column.take(pa.array(np.resize(np.arange(len(column)), sizes.sum()))), sizes)
    state = pa.RecordBatch.from_arrays([column.take(rows), listed, rows], ["s0", "s1", "s2"])
    whole = WholeElement(after).arrow_type
    schema = pa.schema([("s0", whole), ("s1", pa.list_(listed.type.value_field.with_type(whole))), ("s2", pa.int64())])
    loaded = load_rows(dump_rows(state), schema, defaults_of(after))
    loaded.validate(full=True)
    assert loaded.schema == schema
    for old, new in zip(state.columns, loaded.columns, strict=True):
        expected = repr(element_values(old, before))
        for value in {*stored}:
            expected = expected.replace(repr(value), repr(After(value.level, name=value.name)))
        assert repr(element_values(new, after)) == expected
        assert narrowed(new.type, after, ["name", "level"]) == old.type
    assert load_rows(dump_rows(loaded), schema, defaults_of(after)) == loaded
    with pytest.raises(IncompatibleStateError, match="the stored state has other columns"):
        load_rows(dump_rows(state), schema)
    with pytest.raises(IncompatibleStateError, match="the stored state has other columns"):
        load_rows(dump_rows(loaded), state.schema, defaults_of(before))


@dataclass(frozen=True)
class Read:
    key: str
    at: int
    text: str
    number: int


@dataclass(frozen=True)
class Noted:
    """A record whose fields get other types from a map than they are annotated with."""

    key: str
    at: int
    note: str | None = None
    level: float = 0.5


@dataclass(frozen=True)
class Untrue:
    """A record with defaults that are no values of their fields, as no record has to be made with them."""

    key: str
    at: int
    note: str = None  # type: ignore[assignment]
    seen: datetime = datetime(2020, 1, 2)
    number: int = 2**70


def holding(kind: type[Any], then: Callable[[DataStream[Any]], DataStream[Any]] = lambda stream: stream) -> Topology:
    """A plan whose windows hold elements; late ones fire them again."""
    get = itemgetter if is_typeddict(kind) else attrgetter
    timed = timestamped(from_source(ParquetFileSource("never read", kind)), at=get("at"))
    windows = then(timed).key_by(get("key"), str).window(TumblingEventTimeWindows.of(millis(100)))
    lists_of = windows.allowed_lateness(millis(100)).aggregate(agg.collect_list())
    return Topology(Pipeline("lists", lists_of.sink_to(CollectSink())).steps)


def noted(stream: DataStream[Any]) -> DataStream[Any]:
    return stream.map(lambda r: Noted(r.key, r.at, r.text, r.number))


def test_defaults_that_are_no_values_of_their_columns_do_no_harm() -> None:
    for topology in (holding(Read, noted), holding(Untrue)):
        form: Any = column_form(topology, topology.keyed[0])
        assert [name for name, _ in form.operator.defaults] == ["note"]


def test_a_default_of_none_fills_a_field_that_a_map_always_sets() -> None:
    topology = holding(Read, noted)
    form: Any = column_form(topology, topology.keyed[0])
    whole = WholeElement(form.element).arrow_type
    kind = pa.struct([field for field in whole if field.name != "note"])
    schema = form.operator.schema
    stored = [pa.array(["a"]), pa.array([0]), pa.array([[{"key": "a", "at": 1, "level": 2}]], list_type(kind))]
    assert str(stored[2].type) in form.state_text_of(["key", "at", "level"])
    state = load_rows(dump_rows(pa.RecordBatch.from_arrays(stored, schema.names)), schema, form.operator.defaults)
    time = np.array([0])
    fired = Fired(state.column(0), time, time, time, state.column(2))
    assert values_of(form, fired) == [[Noted("a", 1, None, 2)]]
    late = form.operator.traits.row_aggregate
    assert late.accumulators([state.column(2)]) == [[Noted("a", 1, None, 2)]]


def plan_of(version: int) -> Topology:
    return holding(records(version)[0], lambda stream: stream.filter(opaque) if version == 2 else stream)


def test_a_stored_plan_knows_the_new_columns(tmp_path: Path) -> None:
    def again(topology: Topology) -> str:
        (step,) = topology.keyed
        resumed = resume(Checkpoint(tmp_path), physical_plan(topology, stored={step.id}), "event time", SESSION)
        assert resumed.columnar == {step.id}
        stored = Checkpoint(tmp_path).plan.read()
        assert stored is not None
        (shape,) = stored.steps.values()
        return str(shape["form"])

    first = again(plan_of(1))
    assert "unit" not in first
    second = again(plan_of(2))
    assert "unit: string" in second
    assert again(plan_of(2)) == second
    with pytest.raises(IncompatibleStateError, match=r"Measured\.unit was str and is gone"):
        again(plan_of(1))


@dataclass(frozen=True)
class Place:
    x: int = 1
    name: str | None = None


RECORD: list[Any] = [("key", str), ("at", int)]

GROWING: dict[str, tuple[Any, Any, Any]] = {
    "a record": (Place, Place(), Place()),
    "a record or None": (Place | None, Place(2), Place(2)),
    "a tuple": (tuple[int, str], (1, "a"), (1, "a")),
    "a list": (list[Place], field(default_factory=list), []),
    "no text": (str, None, None),
    "an int as a float": (float, 1, 1.0),
}


class Counted(NamedTuple):
    key: str
    number: int


class Keyed1(TypedDict):
    key: str
    at: int


class Keyed2(TypedDict):
    key: str
    unit: NotRequired[str]
    at: int


Keyed1.__qualname__ = Keyed2.__qualname__ = "Keyed"


def resumed(folder: Path, kind: type[Any]) -> Any:
    """The form on columns of a plan that goes on with a checkpoint, or begins one."""
    topology = holding(kind)
    (step,) = topology.keyed
    plan = physical_plan(topology, stored={step.id})
    resume(Checkpoint(folder), plan, "event time", SESSION)
    return plan.keyed[step.id].on_columns


def stored_by(form: Any) -> bytes:
    """The state of a window that holds one element of a form."""
    columns = [["a"], [0], [[{"key": "a", "at": 1}]]]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, form.operator.schema.types, strict=True)]
    return dump_rows(pa.RecordBatch.from_arrays(arrays, schema=form.operator.schema))


def held(state: bytes, form: Any) -> list[Any]:
    rows = load_rows(state, form.operator.schema, form.operator.defaults)
    return element_values(rows.column(2), form.stored_element)


@pytest.mark.parametrize("case", GROWING)
def test_defaults_of_each_type_fill_new_columns(case: str, tmp_path: Path) -> None:
    annotation, default, expected = GROWING[case]
    state = stored_by(resumed(tmp_path, make_dataclass("Grown", RECORD, frozen=True)))
    grown = make_dataclass("Grown", [*RECORD, ("new", annotation, default)], frozen=True)
    assert held(state, resumed(tmp_path, grown)) == [[grown("a", 1, expected)]]


def test_a_new_key_that_may_be_absent_is(tmp_path: Path) -> None:
    state = stored_by(resumed(tmp_path, Keyed1))
    for _ in range(2):
        form = resumed(tmp_path, Keyed2)
        assert held(state, form) == [[{"key": "a", "at": 1}]]


def test_a_new_field_whose_default_fits_no_column_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    first = make_dataclass("Grown", RECORD, frozen=True)
    resumed(tmp_path, first)
    naive = make_dataclass("Grown", [*RECORD, ("seen", datetime, datetime(2020, 1, 2))], frozen=True)
    with pytest.raises(IncompatibleStateError, match="the columns of its state were"):
        resumed(tmp_path, naive)
    resumed(tmp_path, first)


# Functions that columns do not know


def object_edges(topology: Topology) -> tuple[StepEdge, ...]:
    """The edges by which objects get to the step of a plan, which runs on columns."""
    (step,) = topology.keyed
    return PhysicalPlan(topology, ColumnPlanner(gives_objects, stored={step.id})).object_edges[step.id]


def behind_a_filter(kind: type[Any]) -> tuple[StepEdge, ...]:
    return object_edges(holding(kind, lambda stream: stream.filter(opaque)))


def send(edges: tuple[StepEdge, ...], values: Sequence[Any], stamps: Sequence[int | None]) -> None:
    Packer(GROUPS, Phase.AFTER_WATERMARK).add(ToStep(0, 1, (), None, edges), values, stamps)


@pytest.mark.parametrize("number", [2**63, True, None, 1.5])
def test_an_object_that_fits_no_column_is_told_with_its_step(number: Any) -> None:
    edges = behind_a_filter(Read)
    with pytest.raises(InvalidArgumentError, match="does not fit its type") as caught:
        send(edges, [Read("a", 1, "", 1), Read("a", 1, "", number)], [1, 2])
    assert caught.value.where == f"{edges[0].form.step.where}, Read.number"


def test_an_object_without_a_timestamp_is_refused_where_the_step_needs_one() -> None:
    elements = [Read("a", 1, "", 1), Read("a", 2, "", 2)]
    keyed = timestamped(from_collection(elements)).key_by(lambda r: r.key)
    pairs: Any = joins.into(Counted, key=joins.key(), number=joins.left(lambda r: r.number))
    joined = keyed.interval_join(keyed).between(millis(0), millis(9)).apply(pairs)
    counted = keyed.count_window(3).aggregate(agg.collect_list())
    of_join, of_counts = (
        object_edges(Topology(Pipeline("timeless", made.sink_to(CollectSink())).steps)) for made in (joined, counted)
    )
    marked = [Tagged(LEFT, element, None) for element in elements]
    for edges, values, reached in (
        (behind_a_filter(Read), elements, "an event-time window"),
        (of_join, marked, "a join by time"),
    ):
        with pytest.raises(MissingTimestampError, match=f"reached {reached}") as caught:
            send(edges, values, [5000, None])
        assert (caught.value.given, caught.value.where) == (repr(elements[1]), edges[0].form.step.where)
    send(of_counts, elements, [5000, None])


def everything(folder: Path, *, moved: bool) -> tuple[dict[str, CollectSink[Any]], Pipeline]:
    """Windows of each kind and a join, behind a filter that columns do not know if it ``moved`` there."""
    source = readings(folder)
    stream = stamped(source.filter(opaque) if moved else source)
    keyed = stream.key_by(lambda r: r.sensor)
    sliding = keyed.window(SlidingEventTimeWindows.of(millis(90), millis(30))).aggregate(summary())
    pairs = joins.into(Pair, joins.key(), joins.left(take_at), joins.right(take_celsius), joins.right(take_number))
    ends: dict[str, DataStream[Any]] = {
        "sliding": sliding,
        "of sliding": sliding.key_by(lambda s: s.sensor)
        .window(TumblingEventTimeWindows.of(millis(200)))
        .aggregate(agg.combine(agg.key(), agg.sum(lambda s: s.readings))),
        "in order": in_order(keyed),
        "late sessions": late_sessions(keyed),
        "counted": keyed.count_window(7).aggregate(agg.combine(agg.key(), agg.count(), agg.last(lambda r: r.at))),
        "function": keyed.window(TumblingEventTimeWindows.of(millis(70))).apply(whole_lists),
        "join": keyed.interval_join(keyed).between(millis(1), millis(30)).apply(pairs),
    }
    sinks = {name: CollectSink[Any]() for name in ends}
    return sinks, Pipeline("moved", *(end.sink_to(sinks[name]) for name, end in ends.items()))


@pytest.mark.thorough(reason="tests above mix both for each step; test_columns_go_on.py goes on with columns on Spark")
def test_steps_on_columns_go_on_behind_an_opaque_filter(spark: SparkSession, tmp_path: Path) -> None:
    folder, found = tmp_path / "in", dict[str, list[str]]()
    for numbers, moved in ((range(1), False), (range(1, 2), True), (range(2, 3), False)):
        write(folder, numbers)
        sinks, pipeline = everything(folder, moved=moved)
        reports: list[PipelineProgress] = []
        runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", on_progress=reports.append)
        if not moved:
            assert pipeline.explain(runner).count("runs as columns") == 7
        result = runner.run(pipeline, drain=numbers.start == 2)
        # Each element is counted once where it becomes a row of columns; a join has each twice.
        arrived = Counter[str]()
        for report in reports:
            arrived.update({name: step.records_in for name, step in report.steps.items() if ".sink" not in name})
        whole = 100 * len(numbers)
        assert sorted(Counter(arrived.values()).items())[-2:] == [(whole, 6), (2 * whole, 1)]
        for name, sink in sinks.items():
            found[name] = found.get(name, []) + list(map(repr, result.collected(sink)))
    sinks, pipeline = everything(folder, moved=False)
    expected = LocalRunner().run(pipeline)
    for name, sink in sinks.items():
        assert sorted(found[name]) == sorted(map(repr, expected.collected(sink))), name
        assert found[name]
