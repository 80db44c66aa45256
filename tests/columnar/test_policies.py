"""Which steps stay on columns where one of them has a policy for elements that fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from tests.columnar.planning import plan_of
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.sinks import CollectSink, JsonFileSink
from windrow.sources import JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.operators.topology import Port, Topology
from windrow_spark.physical.plan import Objects, PhysicalStep


@dataclass(frozen=True)
class Reading:
    sensor: str
    at: int
    value: int
    parts: int


Steps = Callable[[DataStream[Reading]], DataStream[tuple[str, float]]]
PLACES = {"a": "attic", "b": "roof"}
IN_ORDER = WatermarkStrategy[Reading].for_monotonous_timestamps()


def stamped(readings: DataStream[Reading]) -> DataStream[Reading]:
    return readings.assign_timestamps_and_watermarks(IN_ORDER, lambda reading: reading.at, on_error="drop")


def total(readings: DataStream[Reading]) -> DataStream[tuple[str, float]]:
    return stamped(readings).map(lambda r: (r.sensor, r.value * 0.5), on_error="drop")


def partial(readings: DataStream[Reading]) -> DataStream[tuple[str, float]]:
    return stamped(readings).map(lambda r: (PLACES[r.sensor], r.value * 0.5), on_error="drop")


def opaque(readings: DataStream[Reading]) -> DataStream[tuple[str, float]]:
    def halved(reading: Reading) -> tuple[str, float]:
        return (reading.sensor, float(f"{reading.value}") / 2)

    return stamped(readings).map(halved, on_error="drop")


def outgrowing(readings: DataStream[Reading]) -> DataStream[tuple[str, float]]:
    return stamped(readings).map(lambda r: (r.sensor, r.value * r.parts), on_error="drop")


def planned_of(steps: Steps) -> PhysicalStep:
    readings = from_source(JsonFileSource("readings", Reading))
    made = steps(readings).filter(lambda pair: pair[1] > 0)
    windows = made.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    means = windows.aggregate(agg.mean(lambda pair: pair[1]))
    topology = Topology(Pipeline("readings", means.sink_to(CollectSink[float]())).steps)
    (planned,) = plan_of(topology).keyed.values()
    return planned


@pytest.mark.parametrize(("steps", "source"), [(total, True), (partial, False)])
def test_windows_stay_on_columns_behind_a_policy(steps: Steps, *, source: bool) -> None:
    planned = planned_of(steps)
    assert not isinstance(planned.form, Objects), planned.form.reason
    # A function that raises for no element needs no policy, so that the source gives columns.
    assert [bool(route.source) for route in planned.form.routes] == [source]


@pytest.mark.parametrize("steps", [opaque, outgrowing])
def test_windows_take_objects_where_they_would_without_a_policy(steps: Steps) -> None:
    # What a function that columns do not compute makes, such as an int of 100 bits, may fit no column.
    assert isinstance(planned_of(steps).form, Objects)


def test_a_key_that_no_element_lacks_is_taken_from_columns() -> None:
    keyed = stamped(from_source(JsonFileSource("readings", Reading))).key_by(lambda r: r.sensor, on_error="drop")
    windows = keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=1))).aggregate(agg.count())
    topology = Topology(Pipeline("readings", windows.sink_to(CollectSink[int]())).steps)
    (planned,) = plan_of(topology).keyed.values()
    assert not isinstance(planned.form, Objects), planned.form.reason
    assert [bool(route.source) for route in planned.form.routes] == [True]


def test_a_sink_with_a_policy_takes_results_of_columns_one_by_one() -> None:
    readings = stamped(from_source(JsonFileSource("readings", Reading)))
    windows = readings.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    counts = windows.count(with_key=True)
    sinks = [
        counts.sink_to(JsonFileSink("plain"), name="plain"),
        counts.sink_to(JsonFileSink("guarded"), on_error="drop", name="guarded"),
        readings.sink_to(JsonFileSink("rows"), on_error="drop", name="rows"),
    ]
    topology = Topology(Pipeline("readings", *sinks).steps)
    planned = plan_of(topology)
    (step,) = planned.keyed.values()
    assert not isinstance(step.form, Objects), step.form.reason
    by_name = {sink.step.name: sink for sink in planned.sinks.values()}
    assert by_name["plain"].record_type is not None
    for name in ("guarded", "rows"):
        assert by_name[name].record_type is None
        assert "takes them one by one" in str(by_name[name].describe())
    assert planned.sink_edges(Port(step.step.id)) == ()
    assert planned.columns_needed(topology.sources[0].id) is None
