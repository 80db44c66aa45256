"""Elements that wait for the machine's clock when a pipeline is drained are counted, on columns and in Python."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.budget import for_a_night
from windrow import KeyedStream, Pipeline, from_source
from windrow import aggregates as agg
from windrow.sinks import CollectSink
from windrow.sources import JsonFileSource
from windrow.triggers import ContinuousProcessingTimeTrigger, after_count, repeatedly
from windrow.windows import GlobalWindows, ProcessingTimeSessionWindows, TumblingProcessingTimeWindows
from windrow.windows.spec import UNFIRED
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", columnar=columnar)
    first = runner.run(pipeline_over(folder), drain=False)
    assert not any(UNFIRED in counters for counters in first.counters.values())
    (folder / "2.json").write_text("".join(lines[3:]))
    result = runner.run(pipeline_over(folder))
    # Of the panes, five elements of one key fired one.
    assert sorted(counters[UNFIRED] for counters in result.counters.values() if UNFIRED in counters) == [3, 7, 7, 7, 7]
