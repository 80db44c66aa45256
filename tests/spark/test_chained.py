"""Keyed steps behind keyed steps: the results of one are columns for the next, as the general operator has them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from tests.budget import seeded
from tests.columnar.engine import LATE, Element, batches, by_key, millis, told
from tests.columnar.planning import plan_of
from tests.columnar.window_steps import TINY
from tests.spark.levels import Ran, run
from tests.spark.test_arrivals import Texts
from tests.spark.timed import timed
from windrow import DataStream, DataStreamSink, OutputTag, Pipeline, from_source
from windrow import aggregates as agg
from windrow.functions import AggregateFunction, ProcessAllWindowFunction, ProcessWindowContext
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import ParquetFileSource
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows
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
LATE_TOTAL = OutputTag("late total", Total)


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


def sessions(gap: int) -> EventTimeSessionWindows:
    return EventTimeSessionWindows.with_gap(millis(gap))


def sliding(size: int, slide: int) -> SlidingEventTimeWindows:
    return SlidingEventTimeWindows.of(millis(size), millis(slide))


# Any: window assigners, aggregates and keys of all kinds.
def windows(
    stream: DataStream[Any],
    assigner: Any,
    aggregate: Any,
    *,
    key: Callable[[Any], Any] = lambda e: e.key,
    lateness: int = 0,
    late: OutputTag[Any] | None = None,
) -> DataStream[Any]:
    """The elements of each key in windows, aggregated."""
    stage: Any = stream.key_by(key).window(assigner)
    if lateness:
        stage = stage.allowed_lateness(millis(lateness))
    if late is not None:
        stage = stage.side_output_late_data(late)
    found: DataStream[Any] = stage.aggregate(aggregate)
    return found


def first(stream: DataStream[Element], size: int = 40, **options: Any) -> DataStream[Total]:
    return windows(stream, tumbling(size), totals(), **options)


def late_results(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    """Windows that fire again give results for windows that have ended, too."""
    found = first(stream, lateness=40, late=LATE)
    last = windows(found, tumbling(120), of_totals(), lateness=30, late=LATE_TOTAL)
    return {
        "last": last,
        "folded": windows(found, tumbling(120), unordered(), key=lambda t: t.text),
        "late": found.get_side_output(LATE),
        "late totals": last.get_side_output(LATE_TOTAL),
    }


def with_late(last: DataStream[Any]) -> dict[str, DataStream[Any]]:
    return {"last": last, "late totals": last.get_side_output(LATE_TOTAL)}


def three_windows(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    """The first one has readers of all kinds, among them one that is two levels behind it."""
    found = first(stream, 20)
    second: DataStream[Total] = windows(
        found,
        tumbling(60),
        agg.into(
            Total,
            agg.key(),
            agg.window_end(),
            agg.count(),
            agg.max(lambda t: t.total),
            agg.max(lambda t: t.mean),
            agg.min(lambda t: t.text),
        ),
    )
    counts = windows(
        found.map(lambda t: t.number),
        tumbling(240),
        agg.combine(agg.key(), agg.count(), agg.sum(lambda n: n)),
        key=lambda n: n > 1,
    )
    return {
        "first": found,
        "mapped": found.map(lambda t: (t.key, t.number * 2)),
        "second": second,
        "both": windows(second.union(found), tumbling(240), unordered(), key=lambda t: t.text),
        "counts": counts,
    }


class ShownAll(ProcessAllWindowFunction[Any, tuple[Any, ...], TimeWindow]):
    """Gives a window without a key, and what it has."""

    def process(self, context: ProcessWindowContext[TimeWindow], elements: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        yield context.window.start, context.window.end, *sorted(elements, key=str)


def results_without_a_class(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    keyed = stream.key_by(lambda e: e.key).window(tumbling(40))
    pairs = keyed.aggregate(agg.combine(agg.key(), agg.count(), agg.max(lambda e: e.level)))
    of_pairs: Any = agg.combine(agg.key(), agg.sum(lambda p: p[1]), agg.collect_list(lambda p: p[2]))
    longest = keyed.aggregate(agg.max(lambda e: e.text)).window_all(tumbling(200))
    return {
        "pairs": pairs,
        "last": windows(pairs, tumbling(200), of_pairs, key=lambda p: p[0]),
        "longest": longest.aggregate(agg.combine(agg.window_end(), agg.count(), agg.max(lambda text: text))),
        "values": keyed.aggregate(agg.count()).window_all(tumbling(90)).aggregate(agg.sum(lambda n: n)),
        "shown": keyed.aggregate(agg.max(lambda e: e.text)).window_all(tumbling(90)).process(ShownAll()),
    }


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


def python_behind(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    """Steps of Python functions take the results as columns, which become objects there, or are folded before."""
    found = first(stream, 20)
    return {
        "folded": windows(found, tumbling(400), Named()),
        "late": windows(found, tumbling(90), Named(), lateness=10),
        "reduced": found.key_by(lambda t: t.key).window(tumbling(90)).reduce(lambda a, b: b),
    }


def python_in_front(stream: DataStream[Element]) -> dict[str, DataStream[Any]]:
    """Behind objects there are objects."""
    texts = windows(stream, tumbling(40), Texts()).window_all(tumbling(200))
    return {"last": texts.aggregate(agg.combine(agg.window_end(), agg.count()))}


PLANS: dict[str, Plan] = {
    "two_windows": lambda stream: {"last": windows(first(stream), tumbling(200), of_totals())},
    "tumbling_then_sliding": lambda stream: {"last": windows(first(stream), sliding(120, 50), of_totals())},
    "sliding_then_tumbling": lambda stream: {
        "last": windows(windows(stream, sliding(90, 30), totals()), tumbling(200), of_totals())
    },
    "steps_between": lambda stream: {
        "last": windows(first(stream).filter(lambda t: t.number > 2), tumbling(300), unordered(), key=lambda t: t.text)
    },
    "late_results": late_results,
    "late_results_to_sessions": lambda stream: with_late(
        windows(first(stream, lateness=90), sessions(5), unordered(), late=LATE_TOTAL)
    ),
    # Sessions show the order in which results come, and in which sessions merge.
    "results_to_sessions_in_order": lambda stream: {
        "last": windows(first(stream, 10, lateness=90), sessions(12), of_totals())
    },
    "sessions_then_tumbling": lambda stream: {
        "last": windows(windows(stream, sessions(12), totals()), tumbling(150), unordered())
    },
    "late_sessions_then_tumbling": lambda stream: with_late(
        windows(
            windows(stream, sessions(9), totals(), lateness=60), tumbling(60), unordered(), lateness=20, late=LATE_TOTAL
        )
    ),
    "three_windows": three_windows,
    "results_without_a_class": results_without_a_class,
    "elements_of_results": lambda stream: {
        "last": windows(
            first(stream), tumbling(200), agg.combine(agg.key(), agg.first(), agg.max_by(lambda t: t.number))
        )
    },
    "python_behind": python_behind,
    "python_in_front": python_in_front,
}


ELEMENTS = timed(from_source(ParquetFileSource("never read", Element)), 80)


def pipeline(build: Plan) -> tuple[Pipeline, dict[str, DataStreamSink]]:
    sinks = {name: found.sink_to(CollectSink[Any](name)) for name, found in build(ELEMENTS).items()}
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
    found = first(ELEMENTS, lateness=20, late=LATE)
    late = found.get_side_output(LATE).returns(Element)
    plan = Pipeline("late", found.sink_to(CollectSink[Any]()), late.sink_to(ParquetFileSink("never written")))
    ran = run(plan, Element, [*batches(random.Random(6)), []], crash_at=1)
    compared(ran, ["found", "late"], ordered=False)
    _, file = ran.expected
    assert ran.workers.kinds_out[file] == {RowKind.OUTPUT_COLUMNS}
    assert ran.workers.kinds[1, RowKind.AGGREGATED], "what is on time is partially aggregated before the exchange"
    assert ran.workers.kinds[1, RowKind.COLUMNS]


def test_a_file_and_a_second_window_take_the_same_columns() -> None:
    found = first(ELEMENTS)
    last = windows(found, tumbling(200), unordered())
    sinks = [found.sink_to(ParquetFileSink("never written")), last.sink_to(CollectSink[Any]())]
    plan = Pipeline("both", *sinks)
    inputs = [[e for e in batch if e.number is not None] for batch in batches(random.Random(5))]
    ran = run(plan, Element, inputs)
    compared(ran, ["file", "last"])
    (step,) = (step for step in ran.workers.levels[0].level.steps)
    assert step.direct_sinks
    assert step.targets
    assert ran.taken(Topology(plan.steps).keyed[1].id) == len(ran.expected[Topology(plan.steps).sinks[0].id])
