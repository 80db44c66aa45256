"""Each function of a plan is traced once: by its building, its explanation, its lowering, its marks and its run."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.expressions.tracing import TRACER
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.code_mark import mark_of
from windrow_spark.lowering import physical_plan

# Any in this module: functions of elements of every type.


class Bid(NamedTuple):
    item: str
    at: int
    price: int


class Total(NamedTuple):
    item: str
    end: int
    price: int | None
    highest: int | None


RATES: Final = {"a": 2, "b": 3}
RAISE: Final = 1


def by_minute(total: Total) -> int:
    return total.end // 60_000


FUNCTIONS: Final[list[Callable[[Any], Any]]] = [
    lambda b: b.at,
    lambda b: b.price > RAISE,
    lambda b: b.item,
    lambda b: b.price,
    lambda b: RATES.get(b.item, 1),
    lambda t: t.item,
    lambda t: t.price,
    operator.attrgetter("highest"),
    by_minute,
    lambda t: t.highest,
]


def three_levels(folder: Path) -> Pipeline:
    """A plan that uses each of the functions."""
    at, is_dear, item, price, converted, of_total, total, highest, minute, top = FUNCTIONS

    def totals(stream: DataStream[Any], key: Callable[[Any], Any], seconds: int, *values: Any) -> DataStream[Any]:
        fields = agg.into(Total, agg.key(), agg.window_end(), agg.sum(values[0]), agg.max(values[1]))
        windows = TumblingEventTimeWindows.of(timedelta(seconds=seconds))
        found: DataStream[Any] = stream.key_by(key).window(windows).aggregate(fields)
        return found

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1))
    bids = from_source(ParquetFileSource(folder, Bid)).assign_timestamps_and_watermarks(strategy, timestamp=at)
    first = totals(bids.filter(is_dear), item, 10, price, converted)
    second = totals(first, of_total, 20, total, highest)
    windows = TumblingEventTimeWindows.of(timedelta(seconds=60))
    third = second.key_by(minute).window(windows).aggregate(agg.combine(agg.key(), agg.count(), agg.max(top)))
    return Pipeline("levels", third.sink_to(CollectSink()))


def test_each_function_of_a_plan_of_three_levels_is_traced_once(tmp_path: Path) -> None:
    bids = [Bid("ab"[number % 2], number * 1_000, number) for number in range(100)]
    pq.write_table(pa.Table.from_pylist([bid._asdict() for bid in bids]), tmp_path / "bids.parquet")
    before = TRACER.traced
    pipeline = three_levels(tmp_path)
    pipeline.explain()
    pipeline.explain(SparkRunner())
    plan = physical_plan(Topology(pipeline.steps))
    assert len(plan.on_columns) == 3, plan.forms()
    for function in FUNCTIONS:
        mark_of(function)
    LocalRunner().run(pipeline)
    three_levels(tmp_path)
    plain = [function for function in FUNCTIONS if not isinstance(function, operator.attrgetter)]
    assert TRACER.traced - before == len(plain)
