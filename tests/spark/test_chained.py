"""Keyed steps behind keyed steps: the results of one are columns for the next, as the general operator has them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from tests.budget import seeded
from tests.columnar.engine import LATE, Element, batches, by_key, millis, told
from tests.columnar.planning import plan_of
from tests.columnar.window_steps import TINY
from tests.spark.levels import Ran, run
from tests.spark.test_arrivals import Texts
from windrow import DataStream, DataStreamSink, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.functions import AggregateFunction
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import ParquetFileSource
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.operators.topology import Topology
from windrow_spark.exchange.rows import RowKind
from windrow_spark.storage.tuning import MEASURED

# Any in this module: results of every type.


class Total(NamedTuple):
    """A result: some fields may be None."""

    key: str | None
    end: int
    number: int
    total: int | None
    mean: float | None
    text: str


Plan = Callable[[DataStream[Element]], dict[str, DataStream[Any]]]
PLANS: dict[str, Plan] = {}
LATE_TOTAL = OutputTag("late total", Total)


def plan(build: Plan) -> Plan:
    PLANS[build.__name__] = build
    return build


def totals() -> Any:
    return agg.into(
        Total,
        key=agg.key(),
        end=agg.window_end(),
        number=agg.count(),
        total=agg.sum(lambda e: e.number),
        mean=agg.mean(lambda e: e.number),
        text=agg.max(lambda e: e.text),
    )


def of_totals() -> Any:
    """What the last of a chain gives: it shows the order of elements."""
    return agg.combine(
        agg.key(),
        agg.window_end(),
        agg.count(),
        agg.sum(lambda t: t.number),
        agg.max(lambda t: t.mean),
        agg.first(lambda t: t.total),
        agg.last(lambda t: t.end),
        agg.collect_list(lambda t: t.text),
    )


def unordered() -> Any:
    return agg.combine(
        agg.key(), agg.window_end(), agg.count(), agg.sum(lambda t: t.number), agg.max(lambda t: t.total)
    )


def tumbling(size: int) -> TumblingEventTimeWindows:
    return TumblingEventTimeWindows.of(millis(size))


def first(stream: DataStream[Element], size: int = 40) -> DataStream[Total]:
    found: DataStream[Total] = stream.key_by(lambda e: e.key).window(tumbling(size)).aggregate(totals())
    return found


@plan
def two_windows(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    return {"last": first(stream).key_by(lambda t: t.key).window(tumbling(200)).aggregate(of_totals())}


@plan
def tumbling_then_sliding(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    sliding = SlidingEventTimeWindows.of(millis(120), millis(50))
    return {"last": first(stream).key_by(lambda t: t.key).window(sliding).aggregate(of_totals())}


@plan
def sliding_then_tumbling(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    sliding = stream.key_by(lambda e: e.key).window(SlidingEventTimeWindows.of(millis(90), millis(30)))
    found: DataStream[Total] = sliding.aggregate(totals())
    return {"last": found.key_by(lambda t: t.key).window(tumbling(200)).aggregate(of_totals())}


@plan
def steps_between(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    kept = first(stream).filter(lambda t: t.number > 2).key_by(lambda t: t.text)
    return {"last": kept.window(tumbling(300)).aggregate(unordered())}


@plan
def late_results(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    """Windows that fire again give results for windows that have ended, too."""
    patient = stream.key_by(lambda e: e.key).window(tumbling(40)).allowed_lateness(millis(40))
    found: DataStream[Total] = patient.side_output_late_data(LATE).aggregate(totals())
    second = found.key_by(lambda t: t.key).window(tumbling(120)).allowed_lateness(millis(30))
    last = second.side_output_late_data(LATE_TOTAL).aggregate(of_totals())
    folded = found.key_by(lambda t: t.text).window(tumbling(120)).aggregate(unordered())
    return {
        "last": last,
        "folded": folded,
        "late": found.get_side_output(LATE),
        "late totals": last.get_side_output(LATE_TOTAL),
    }


@plan
def late_results_to_sessions(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    patient = stream.key_by(lambda e: e.key).window(tumbling(40)).allowed_lateness(millis(90))
    found: DataStream[Total] = patient.aggregate(totals())
    second = found.key_by(lambda t: t.key).window(EventTimeSessionWindows.with_gap(millis(5)))
    last = second.side_output_late_data(LATE_TOTAL).aggregate(unordered())
    return {"last": last, "late totals": last.get_side_output(LATE_TOTAL)}


@plan
def results_to_sessions_in_order(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    """Sessions show the order in which results come, and in which sessions merge."""
    patient = stream.key_by(lambda e: e.key).window(tumbling(10)).allowed_lateness(millis(90))
    found: DataStream[Total] = patient.aggregate(totals())
    second = found.key_by(lambda t: t.key).window(EventTimeSessionWindows.with_gap(millis(12)))
    return {"last": second.aggregate(of_totals())}


@plan
def sessions_then_tumbling(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    sessions = stream.key_by(lambda e: e.key).window(EventTimeSessionWindows.with_gap(millis(12)))
    found: DataStream[Total] = sessions.aggregate(totals())
    return {"last": found.key_by(lambda t: t.key).window(tumbling(150)).aggregate(unordered())}


@plan
def late_sessions_then_tumbling(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    sessions = stream.key_by(lambda e: e.key).window(EventTimeSessionWindows.with_gap(millis(9)))
    found: DataStream[Total] = sessions.allowed_lateness(millis(60)).aggregate(totals())
    second = found.key_by(lambda t: t.key).window(tumbling(60)).allowed_lateness(millis(20))
    last = second.side_output_late_data(LATE_TOTAL).aggregate(unordered())
    return {"last": last, "late totals": last.get_side_output(LATE_TOTAL)}


@plan
def three_windows(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    """The first one has readers of all kinds, among them one that is two levels behind it."""
    found = first(stream, 20)
    second: DataStream[Total] = (
        found.key_by(lambda t: t.key)
        .window(tumbling(60))
        .aggregate(
            agg.into(
                Total,
                agg.key(),
                agg.window_end(),
                agg.count(),
                agg.max(lambda t: t.total),
                agg.max(lambda t: t.mean),
                agg.min(lambda t: t.text),
            )
        )
    )
    both = second.union(found).key_by(lambda t: t.text).window(tumbling(240)).aggregate(unordered())
    counts = found.map(lambda t: t.number).key_by(lambda n: n > 1).window(tumbling(240))
    return {
        "first": found,
        "mapped": found.map(lambda t: (t.key, t.number * 2)),
        "second": second,
        "both": both,
        "counts": counts.aggregate(agg.combine(agg.key(), agg.count(), agg.sum(lambda n: n))),
    }


@plan
def results_without_a_class(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    keyed = stream.key_by(lambda e: e.key).window(tumbling(40))
    pairs = keyed.aggregate(agg.combine(agg.key(), agg.count(), agg.max(lambda e: e.level)))
    last = pairs.key_by(lambda p: p[0]).window(tumbling(200))
    longest = keyed.aggregate(agg.max(lambda e: e.text)).window_all(tumbling(200))
    return {
        "pairs": pairs,
        "last": last.aggregate(agg.combine(agg.key(), agg.sum(lambda p: p[1]), agg.collect_list(lambda p: p[2]))),
        "longest": longest.aggregate(agg.combine(agg.window_end(), agg.count(), agg.max(lambda text: text))),
        "values": keyed.aggregate(agg.count()).window_all(tumbling(90)).aggregate(agg.sum(lambda n: n)),
    }


@plan
def elements_of_results(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    keyed = first(stream).key_by(lambda t: t.key).window(tumbling(200))
    return {"last": keyed.aggregate(agg.combine(agg.key(), agg.first(), agg.max_by(lambda t: t.number)))}


class Named(AggregateFunction[Total, tuple[Any, ...], tuple[Any, ...]]):
    """Texts of results, in their order."""

    def create_accumulator(self) -> tuple[Any, ...]:
        return ()

    def add(self, value: Total, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        return (value.key, *accumulator[1:], value.text, value.number)

    def get_result(self, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        return accumulator

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return a + b[1:]


@plan
def python_behind(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    """Steps of Python functions take the results as columns, which become objects there, or are folded before."""
    keyed = first(stream, 20).key_by(lambda t: t.key)
    late = keyed.window(tumbling(90)).allowed_lateness(millis(10)).aggregate(Named())
    return {
        "folded": keyed.window(tumbling(400)).aggregate(Named()),
        "late": late,
        "reduced": keyed.window(tumbling(90)).reduce(lambda a, b: b),
    }


@plan
def python_in_front(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    """Behind objects there are objects."""
    texts = stream.key_by(lambda e: e.key).window(tumbling(40)).aggregate(Texts())
    return {"last": texts.window_all(tumbling(200)).aggregate(agg.combine(agg.window_end(), agg.count()))}


def pipeline(build: Plan) -> tuple[Pipeline, dict[str, DataStreamSink]]:
    stream = from_source(ParquetFileSource("never read", Element)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(millis(80)), timestamp=lambda e: e.at
    )
    sinks: dict[str, DataStreamSink] = {}
    for name, found in build(stream).items():
        sinks[name] = found.sink_to(CollectSink[Any](name))
    return Pipeline("chained", *sinks.values()), sinks


def compared(ran: Ran, names: Sequence[str], *, ordered: bool = True) -> None:
    """Each sink has what it should have, in the order of each key."""
    for name, (sink, expected) in zip(names, ran.expected.items(), strict=True):
        assert expected, name
        found = ran.workers.found[sink]
        assert told(found) == told(expected), name
        if ordered and isinstance(expected[0], tuple):
            assert by_key(found) == by_key(expected), name
    for step, dropped in ran.dropped.items():
        assert ran.workers.counters[step, "late_records_dropped"] == dropped


@pytest.mark.parametrize(("name", "seed"), seeded(PLANS))
def test_results_are_columns_for_the_next_step(name: str, seed: int) -> None:
    inputs = [*batches(random.Random(1 + seed)), []]
    plan, sinks = pipeline(PLANS[name])
    ran = run(plan, Element, inputs, crash_at=seed, tuning=TINY if seed == 1 else MEASURED)
    compared(ran, list(sinks))
    for state in ran.workers.levels:
        assert set(state.records.values()) == {None}
    kinds = ran.workers.kinds
    by_columns = (RowKind.COLUMNS, RowKind.AGGREGATED, RowKind.PARTIALS)
    assert any(kinds[2, kind] for kind in by_columns) == (name != "python_in_front")
    assert bool(kinds[2, RowKind.ELEMENTS]) == (name == "python_in_front")
    if "late" in name:
        assert len(ran.workers.found[next(reversed(ran.expected))]) > 3, "late results"


@pytest.mark.parametrize("name", ["two_windows", "late_results", "python_behind"])
def test_a_step_whose_state_is_in_objects_feeds_columns(name: str) -> None:
    """A checkpoint goes on in the form in which it was begun."""
    inputs = [*batches(random.Random(3), 24), []]
    plan, sinks = pipeline(PLANS[name])
    topology = Topology(plan.steps)
    behind = [step.id for step in topology.keyed if topology.levels[step.id] > 1]
    columnar = plan_of(topology).on_columns.intersection(behind)
    compared(run(plan, Element, inputs, columnar=columnar, crash_at=2), list(sinks))
    compared(run(plan, Element, inputs, columnar=[], crash_at=2), list(sinks))


def test_late_elements_are_columns_for_files() -> None:
    stream = from_source(ParquetFileSource("never read", Element)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(millis(80)), timestamp=lambda e: e.at
    )
    patient = stream.key_by(lambda e: e.key).window(tumbling(40)).allowed_lateness(millis(20))
    found = patient.side_output_late_data(LATE).aggregate(totals())
    late = found.get_side_output(LATE).returns(Element)
    plan = Pipeline("late", found.sink_to(CollectSink[Any]()), late.sink_to(ParquetFileSink("never written")))
    ran = run(plan, Element, [*batches(random.Random(6)), []], crash_at=1)
    compared(ran, ["found", "late"], ordered=False)
    _, file = ran.expected
    assert ran.workers.kinds_out[file] == {RowKind.OUTPUT_COLUMNS}
    assert ran.workers.kinds[1, RowKind.AGGREGATED], "what is on time is partially aggregated before the exchange"
    assert ran.workers.kinds[1, RowKind.COLUMNS]


def test_a_file_and_a_second_window_take_the_same_columns() -> None:
    stream = from_source(ParquetFileSource("never read", Element)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(millis(80)), timestamp=lambda e: e.at
    )
    found = first(stream)
    last = found.key_by(lambda t: t.key).window(tumbling(200)).aggregate(unordered())
    sinks = [found.sink_to(ParquetFileSink("never written")), last.sink_to(CollectSink[Any]())]
    plan = Pipeline("both", *sinks)
    inputs = [[e for e in batch if e.number is not None] for batch in batches(random.Random(5))]
    ran = run(plan, Element, inputs)
    compared(ran, ["file", "last"])
    (step,) = (step for step in ran.workers.levels[0].level.steps)
    assert step.direct_sinks
    assert step.targets
    assert ran.taken(Topology(plan.steps).keyed[1].id) == len(ran.expected[Topology(plan.steps).sinks[0].id])
