"""State that expires, and windows that wait for the clock when a pipeline is drained, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.budget import for_a_night
from tests.spark.streams import stamped
from windrow import KeyedStream, Pipeline, from_source
from windrow import aggregates as agg
from windrow.errors import UnsupportedOperationError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, TimeDomain
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource, JsonFileSource
from windrow.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from windrow.triggers import ContinuousProcessingTimeTrigger, after_count, repeatedly
from windrow.windows import GlobalWindows, ProcessingTimeSessionWindows, TumblingProcessingTimeWindows
from windrow.windows.spec import UNFIRED
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = timedelta(seconds=60)


class Row(NamedTuple):
    key: str
    id: str
    time: int


ROWS = [Row("a", f"n{number}", number * 40_000) for number in range(3)]


class Keep(KeyedProcessFunction[str, Row, tuple[str, list[str], list[str]]]):
    """Emits what its state holds, which the plan sees here."""

    def __init__(self, domain: TimeDomain) -> None:
        ttl = StateTtlConfig(MINUTE, time_domain=domain)
        self.map = MapStateDescriptor("m", str, int, ttl=ttl)
        self.list = ListStateDescriptor("l", str, ttl=ttl)

    def process_element(
        self, value: Row, context: KeyedProcessContext[str]
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        names, ids = context.get_state(self.map), context.get_state(self.list)
        names.put(value.id, 1)
        ids.add(value.id)
        yield value.id, list(names.keys()), ids.get()


EXPECTED = [
    (f"n{number}", last, last) for number in range(3) for last in [[f"n{n}" for n in (number - 1, number) if n >= 0]]
]


def collected(runner: Any, *functions: KeyedProcessFunction[str, Row, Any]) -> list[list[Any]]:
    """What each function gives."""
    sinks = [CollectSink[Any]() for _ in functions]
    source = CollectionSource(ROWS, Row, batch_size=1)
    keyed = stamped(from_source(source), at=lambda row: row.time).key_by(lambda row: row.key)
    ends = [keyed.process(function).sink_to(sink) for function, sink in zip(functions, sinks, strict=True)]
    result = runner.run(Pipeline("p", *ends))
    return [result.collected(sink) for sink in sinks]


@pytest.mark.classic(reason="a clock over a generator cannot be sent to the server")
@pytest.mark.parametrize("make", [LocalRunner, partial(SparkRunner, partitions=1)], ids=["here", "on Spark"])
def test_entries_expire_by_the_clock(spark: SparkSession, make: Callable[..., Any]) -> None:
    ticks = count(0, 40_000)
    assert collected(make(clock=lambda: next(ticks)), *map(Keep, TimeDomain)) == [EXPECTED, EXPECTED]


@pytest.mark.thorough(reason="a run above has both, by a clock of the test's; test_deep_clock.py is by the machine's")
def test_entries_expire_by_timestamps_and_by_the_clock_of_the_machine(spark: SparkSession) -> None:
    by_timestamps, by_clock = collected(SparkRunner(), Keep(TimeDomain.EVENT_TIME), Keep(TimeDomain.PROCESSING_TIME))
    assert by_timestamps == EXPECTED
    assert by_clock[-1][2] == [row.id for row in ROWS], "nothing expires within a minute"


class Undeclared(KeyedProcessFunction[str, Row, Any]):
    """Makes a descriptor where the plan cannot see it."""

    def process_element(self, value: Row, context: KeyedProcessContext[str]) -> None:
        make: Any = getattr(__import__("windrow.state").state, "StateTtl" + "Config")
        context.get_state(ValueStateDescriptor("hidden", int, ttl=make(MINUTE))).update(1)


def test_the_same_error_on_both_engines(spark: SparkSession) -> None:
    told = []
    for runner in (LocalRunner(), SparkRunner()):
        with pytest.raises(UnsupportedOperationError, match="waits for the clock, and nothing in the plan") as caught:
            collected(runner, Undeclared())
        told.append(str(caught.value).splitlines()[:3])
    assert told[0] == told[1]


class Order(NamedTuple):
    key: str
    amount: int


DAY = timedelta(days=365)


def pipeline_over(folder: Path) -> Pipeline:
    """Windows that wait for a time that does not come, of five kinds."""
    orders: KeyedStream[Order, str] = from_source(JsonFileSource(folder, Order)).key_by(lambda order: order.key)
    tumbling = orders.window(TumblingProcessingTimeWindows.of(DAY))
    sessions = orders.window(ProcessingTimeSessionWindows.with_gap(DAY))
    everything = orders.window(GlobalWindows.create()).trigger(ContinuousProcessingTimeTrigger.of(DAY))
    panes = tumbling.trigger(repeatedly(after_count(4)))
    return Pipeline(
        "waiting",
        tumbling.aggregate(agg.sum(lambda order: order.amount)).sink_to(CollectSink()),
        sessions.aggregate(agg.count()).sink_to(CollectSink()),
        everything.aggregate(agg.count()).sink_to(CollectSink()),
        sessions.apply(lambda key, window, elements: [len(list(elements))]).sink_to(CollectSink()),
        panes.aggregate(agg.count()).sink_to(CollectSink()),
    )


# One of the steps has a function in Python, so that columns and objects are both among them.
@pytest.mark.parametrize("columnar", for_a_night([True, False], [True]))
def test_a_drain_counts_what_waits_for_the_clock(spark: SparkSession, tmp_path: Path, columnar: bool) -> None:
    folder = tmp_path / "orders"
    folder.mkdir()
    lines = [f'{{"key": "{key}", "amount": {number}}}\n' for number, key in enumerate("aabaaab")]
    (folder / "1.json").write_text("".join(lines[:3]))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1, columnar=columnar)
    first = runner.run(pipeline_over(folder), drain=False)
    assert not any(UNFIRED in counters for counters in first.counters.values())
    (folder / "2.json").write_text("".join(lines[3:]))
    result = runner.run(pipeline_over(folder))
    # Of the panes, five elements of one key fired one.
    assert sorted(counters[UNFIRED] for counters in result.counters.values() if UNFIRED in counters) == [3, 7, 7, 7, 7]
