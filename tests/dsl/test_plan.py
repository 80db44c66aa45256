"""Plans: explain(), step ids, immutable stages, locations."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections.abc import Sequence

import pytest

import windrow
from tests.counting import MergingCount
from tests.dsl.plans import SECOND, SECONDS, plan
from tests.support.records import Reading, sensor
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import Location
from windrow.evictors import CountEvictor
from windrow.functions import MapFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.plan import KeyByNode, WindowNode
from windrow.sinks import CollectSink, ConsoleSink, FunctionSink, JsonFileSink, ParquetFileSink
from windrow.sources import CsvFileSource, JsonFileSource, ParquetFileSource, RateSource
from windrow.triggers import CountTrigger, PurgingTrigger
from windrow.windows import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows


class WithSensor(ProcessWindowFunction[int, tuple[str, int], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[int]
    ) -> list[tuple[str, int]]:
        return [(key, elements[0])]


class Kelvin(MapFunction[Reading, float]):
    def map(self, value: Reading) -> float:
        return value.celsius + 273.15


def colder(a: Reading, b: Reading) -> Reading:
    return a if a.celsius <= b.celsius else b


def print_batch(batch: int, elements: Sequence[object]) -> None:
    print(batch, elements)


READINGS = from_collection([Reading("a", 0, 1.0)])
STAMPED = READINGS.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness(SECOND), timestamp=lambda reading: reading.at
)
COLDEST = STAMPED.key_by(sensor).window(SECONDS).reduce(colder)


def test_explain_of_a_whole_pipeline() -> None:
    late = OutputTag("late", Reading)
    keyed = STAMPED.filter(lambda reading: reading.celsius > -50, name="sane").key_by(sensor)
    coldest = (
        keyed.window(TumblingEventTimeWindows.of(5 * SECOND, offset=SECOND))
        .trigger(PurgingTrigger.of(CountTrigger.of(3)))
        .evictor(CountEvictor.of(2))
        .allowed_lateness(2 * SECOND)
        .side_output_late_data(late)
        .reduce(colder, name="coldest")
    )
    counts = keyed.window(EventTimeSessionWindows.with_gap(SECOND)).aggregate(MergingCount(), WithSensor())
    pipeline = Pipeline(
        "sensors",
        coldest.sink_to(CollectSink("coldest")),
        coldest.get_side_output(late).sink_to(JsonFileSink("late")),
        counts.sink_to(ConsoleSink(), name="screen"),
    )
    assert pipeline.explain().splitlines() == [
        "pipeline sensors",
        "  1 source                   collection of 1  : Reading",
        "  2 timestamps      <- 1     bounded out-of-orderness, 1 s, timestamp .at  : Reading",
        "  3 filter sane     <- 2     .celsius > -50  : Reading",
        "  4 key_by          <- 3     sensor  : Reading",
        "  5 window coldest  <- 4     TumblingEventTimeWindows(size=5 s, offset=1 s), trigger "
        "PurgingTrigger(CountTrigger(3)), evictor CountEvictor(2), lateness 2 s, late to 'late', reduce colder"
        "  : Reading",
        "                             elements that wait for a firing when a window ends are dropped",
        "  6 sink            <- 5     collect coldest",
        "  7 side_output     <- 5     'late'  : Reading",
        "  8 sink            <- 7     json late",
        "  9 window          <- 4     EventTimeSessionWindows(gap=1 s), trigger EventTimeTrigger, aggregate "
        "MergingCount, WithSensor  : tuple[str, int]",
        "  10 sink screen    <- 9     console",
    ]


def test_explain_of_the_other_steps() -> None:
    json = from_source(JsonFileSource("in/json", Reading), name="json")
    csv = from_source(CsvFileSource("in/csv", Reading))
    numbers = json.union(csv, from_source(ParquetFileSource("in/parquet", Reading))).map(Kelvin())
    texts = numbers.flat_map(lambda kelvin: [str(kelvin)])
    ticks = from_source(RateSource(5)).map(lambda tick: tick.value)
    pipeline = Pipeline(
        "others",
        texts.sink_to(CollectSink[str]()),
        texts.returns(str).sink_to(ParquetFileSink("out")),
        ticks.sink_to(FunctionSink(print_batch)),
    )
    assert pipeline.explain().splitlines() == [
        "pipeline others",
        "  1 source json           json in/json  : Reading",
        "  2 source                csv in/csv  : Reading",
        "  3 source                parquet in/parquet  : Reading",
        "  4 union        <- 1, 2, 3   : Reading",
        "  5 map          <- 4     Kelvin  : float",
        "  6 flat_map     <- 5     lambda",
        "  7 sink         <- 6     collect",
        "  8 returns      <- 6     str",
        "  9 sink         <- 8     parquet out",
        "  10 source               rate 5/s  : RateRecord",
        "  11 map         <- 10    .value  : int",
        "  12 sink        <- 11    function print_batch",
    ]


def test_inputs_are_shown_where_names_have_dots() -> None:
    clean = READINGS.filter(lambda reading: True, name="clean.v2")
    assert plan(clean, name="a.b").explain().splitlines() == [
        "pipeline a.b",
        "  1 source                    collection of 1  : Reading",
        "  2 filter clean.v2  <- 1     lambda  : Reading",
        "  3 sink             <- 2     collect",
    ]


def test_step_ids_are_dotted_and_numbered_inputs_first() -> None:
    clean = READINGS.filter(lambda reading: True, name="clean")
    pipeline = plan(clean.map(Kelvin()), clean.sink_to(ConsoleSink()), name="plan")
    assert [(step.id, step.index, step.inputs) for step in pipeline.steps] == [
        ("plan.1.source", 1, ()),
        ("plan.2.clean", 2, ("plan.1.source",)),
        ("plan.3.map", 3, ("plan.2.clean",)),
        ("plan.4.sink", 4, ("plan.3.map",)),
        ("plan.5.sink", 5, ("plan.2.clean",)),
    ]


def test_the_step_of_a_node() -> None:
    pipeline = plan(READINGS)
    assert pipeline.step_of(READINGS.node).id == "p.1.source"
    with pytest.raises(KeyError):
        pipeline.step_of(STAMPED.node)


def test_a_stream_is_used_twice_and_never_changed() -> None:
    keyed = STAMPED.key_by(sensor)
    windows = keyed.window(SECONDS)
    counted = windows.trigger(CountTrigger.of(3)).allowed_lateness(SECOND).evictor(CountEvictor.of(1))
    late = counted.side_output_late_data(OutputTag("late", Reading)).reduce(colder)
    plain = windows.reduce(colder)
    again = windows.trigger(CountTrigger.of(5)).reduce(colder)
    for stream, trigger, lateness, evicts in [
        (late, "CountTrigger(3)", 1000, True),
        (plain, "EventTimeTrigger", None, False),
        (again, "CountTrigger(5)", None, False),
    ]:
        node = stream.node
        assert isinstance(node, WindowNode)
        assert node.input is keyed.node
        assert node.effective_trigger.describe() == trigger
        assert node.allowed_lateness == lateness
        assert (node.evictor is not None, node.late_tag is not None) == (evicts, evicts)


def test_nodes_steps_and_pipelines_are_frozen() -> None:
    pipeline = plan(READINGS)
    for frozen, name in [(pipeline, "name"), (pipeline.steps[0], "id"), (READINGS.node, "location")]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, name, None)


def test_two_equal_calls_make_two_steps() -> None:
    def same(reading: Reading) -> bool:
        return True

    first, second = READINGS.filter(same), READINGS.filter(same)
    assert first.node is not second.node
    assert first.node != second.node


def test_count_windows_are_global_windows_that_purge_or_evict() -> None:
    keyed = READINGS.key_by(sensor)
    purging = "GlobalWindows, trigger PurgingTrigger(CountTrigger(3)), reduce colder"
    evicting = "GlobalWindows, trigger CountTrigger(2), evictor CountEvictor(3), reduce colder"
    assert keyed.count_window(3).reduce(colder).node.describe() == purging
    assert keyed.count_window(3, 2).reduce(colder).node.describe() == evicting
    assert READINGS.count_window_all(3).reduce(colder).node.describe() == purging
    assert READINGS.count_window_all(3, 2).reduce(colder).node.describe() == evicting


def test_a_window_knows_whether_it_has_keys_and_merges() -> None:
    keyed, everything = COLDEST.node, STAMPED.window_all(EventTimeSessionWindows.with_gap(SECOND)).reduce(colder).node
    assert isinstance(keyed, WindowNode)
    assert isinstance(everything, WindowNode)
    assert isinstance(keyed.input, KeyByNode)
    assert (keyed.input.keys is not None, keyed.merging) == (True, False)
    assert (everything.input.keys is not None, everything.merging) == (False, True)


def test_each_step_knows_its_line_in_a_chain_over_several_lines() -> None:
    first = sys._getframe().f_lineno + 2
    coldest = (
        STAMPED.map(lambda reading: reading)
        .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps())
        .key_by(sensor)
        .window(SECONDS)
        .reduce(colder)
    )
    pipeline = Pipeline("plan", coldest.sink_to(CollectSink[Reading]()))
    lines = {step.node.kind: step.node.location for step in pipeline.steps}
    places = {"map": first, "timestamps": first + 1, "key_by": first + 2, "window": first + 4, "sink": first + 6}
    assert {kind: lines[kind] for kind in places} == {kind: Location(__file__, at) for kind, at in places.items()}
    assert f"plan.6.window, {__file__}:{first + 4}" in [step.where for step in pipeline.steps]


def test_a_users_package_beside_windrow_is_the_users() -> None:
    """Only files below the package's folder are windrow's own, not those of a package whose name begins alike."""
    program = compile(
        "from windrow import from_collection\nstream = from_collection([1])\n",
        f"{windrow.__path__[0]}_jobs/job.py",
        "exec",
    )
    namespace: dict[str, object] = {}
    exec(program, namespace)
    assert repr(namespace["stream"]) == f"DataStream(source: int, {windrow.__path__[0]}_jobs/job.py:2)"


def test_a_plan_pickles() -> None:
    """A plan crosses to Spark's workers, as long as its functions can."""
    stream = READINGS.map(Kelvin(), name="kelvin").key_by(abs)
    node = pickle.loads(pickle.dumps(stream.node))
    assert isinstance(node, KeyByNode)
    assert node.input.name == "kelvin"
