"""Side inputs on Spark give what the interpreter gives, in every key group, and also after a restart."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.spark.comparison import Outputs, millis
from windrow import (
    DataStream,
    OutputTag,
    Pipeline,
    WatermarkStrategy,
    as_dict,
    as_list,
    as_singleton,
    from_changes,
    from_source,
)
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError
from windrow.failures import Failed
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.panes import Change, ChangeKind
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource, JsonFileSource
from windrow.state import ValueStateDescriptor
from windrow.triggers import after_count, after_watermark
from windrow.windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: results of several types.


class Order(NamedTuple):
    number: int
    currency: str
    at: int


class Rate(NamedTuple):
    currency: str
    euros: int
    at: int


LATE = OutputTag("late", Order)
FAILED = OutputTag("failed", Failed[Order])
BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(millis(60))
WINDOWS = TumblingEventTimeWindows.of(millis(100))


def orders_of(orders: Sequence[Order], batch_size: int | None = 40) -> DataStream[Order]:
    source = from_source(CollectionSource(orders, batch_size=batch_size))
    return source.assign_timestamps_and_watermarks(BOUNDED, timestamp=lambda order: order.at)


def rates_of(rates: Sequence[Rate], batch_size: int | None = 10) -> DataStream[Rate]:
    source = from_source(CollectionSource(rates, batch_size=batch_size))
    return source.assign_timestamps_and_watermarks(BOUNDED, timestamp=lambda rate: rate.at)


def converted(order: Order, of_window: Mapping[str, int], newest: Rate | None) -> tuple[int, int | None, Rate | None]:
    return order.number, of_window.get(order.currency), newest


def known(order: Order, of_window: Mapping[str, int]) -> tuple[str, int, int]:
    return order.currency, order.number, of_window[order.currency]


def joined(orders: DataStream[Order], rates: DataStream[Rate]) -> Outputs:
    """Views of all kinds, with windows that are stated, those of windows upstream, and none."""
    outputs = Outputs()
    counts = rates.key_by(lambda rate: rate.currency).window(WINDOWS).aggregate(agg.combine(agg.key(), agg.count()))
    by_window = as_dict(counts.returns(tuple[str, int]), lambda each: each[0], lambda each: each[1])
    newest = as_singleton(rates, default=None)
    stage = orders.with_side_input(by_window, newest, late=LATE, name="both")
    outputs.add("both", stage.map(converted), key=None)
    outputs.add("late", stage.get_side_output(LATE), key=None)
    early = rates.window_all(WINDOWS).trigger(after_watermark(early=after_count(3))).retracting()
    sums = as_singleton(early.sum(lambda rate: rate.euros), default=0)
    outputs.add("sums", orders.with_side_input(sums).map(lambda order, total: (order.number, total)), key=None)
    sliding = as_list(rates, windows=SlidingEventTimeWindows.of(millis(100), millis(50)))
    allowed = orders.with_side_input(sliding, allowed_lateness=millis(50))
    checked = orders.key_by(lambda order: order.currency).with_side_input(by_window).map(known, on_error=FAILED)
    outputs.add("keyed", checked, key=None)
    outputs.add("failed", checked.get_side_output(FAILED).map(lambda failed: failed.element), key=None)
    outputs.add("lists", allowed.map(lambda order, rates: (order.number, sorted(rates))), key=None)
    return outputs


def drawn(seed: int) -> tuple[list[Order], list[Rate]]:
    chance = random.Random(seed)
    orders = [Order(n, chance.choice("abc"), n * 4 + chance.randrange(-120, 60)) for n in range(160)]
    return orders, [Rate(chance.choice("abc"), n, n * 16 + chance.randrange(-120, 60)) for n in range(40)]


def test_runs_give_what_one_run_of_the_interpreter_gives(spark: SparkSession, tmp_path: Path) -> None:
    # run         1        2
    # batches     1, 2     3, 4, end
    orders, rates = drawn(3)
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for batches in (2, 4):
        outputs = joined(orders_of(orders[: batches * 40]), rates_of(rates[: batches * 10]))
        runner = SparkRunner(spark, checkpoint=tmp_path, key_groups_per_partition=3)
        result = runner.run(outputs.pipeline("sides"), drain=batches == 4)
        for name, sink in outputs.sinks.items():
            found[name] += result.collected(sink)
    outputs = joined(orders_of(orders), rates_of(rates))
    expected, _ = outputs.expected(outputs.pipeline("sides"))
    assert {name: {None: sorted(values, key=repr)} for name, values in found.items()} == expected


def test_a_checkpoint_refuses_other_windows(spark: SparkSession, tmp_path: Path) -> None:
    orders, rates = drawn(4)

    def plan(size: int) -> Pipeline:
        outputs = Outputs()
        view = as_list(rates_of(rates[:10]), windows=TumblingEventTimeWindows.of(millis(size)))
        outputs.add("all", orders_of(orders[:40]).with_side_input(view, name="s").map(lambda order, _: order), key=None)
        return outputs.pipeline("sides")

    SparkRunner(spark, checkpoint=tmp_path).run(plan(100), drain=False)
    with pytest.raises(IncompatibleStateError, match="as_list in TumblingEventTimeWindows"):
        SparkRunner(spark, checkpoint=tmp_path).run(plan(200))


def test_batch_jobs_give_what_one_batch_gives(spark: SparkSession) -> None:
    # No element is late, and each sees all of its window.
    orders, rates = drawn(5)
    outputs = joined(orders_of(orders, None), rates_of(rates, None))
    del outputs.sinks["late"]
    pipeline = outputs.pipeline("sides")
    expected, _ = outputs.expected(pipeline)
    assert outputs.of(SparkRunner(spark).run_batch(pipeline)) == expected
    sizes = {name: len(values[None]) for name, values in expected.items()}
    assert sizes["keyed"] + sizes.pop("failed") == len(orders)
    assert {size for name, size in sizes.items() if name != "keyed"} == {len(orders)}


def write(folder: Path, number: int, rows: Sequence[Order] | Sequence[Rate]) -> None:
    """Adds a file of JSON."""
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.json").write_text("".join(f"{json.dumps(row._asdict())}\n" for row in rows))


def test_what_waits_when_a_run_stops_comes_out_of_the_next(spark: SparkSession, tmp_path: Path) -> None:
    orders, rates = tmp_path / "orders", tmp_path / "rates"
    write(orders, 1, [Order(1, "a", 10), Order(2, "b", 20)])
    rates.mkdir()

    def plan() -> tuple[Pipeline, CollectSink[tuple[int, int]]]:
        # The rates have no watermarks, so they hold nothing back.
        sides = from_source(JsonFileSource(rates, Rate))
        main = from_source(JsonFileSource(orders, Order)).assign_timestamps_and_watermarks(
            BOUNDED, timestamp=lambda order: order.at
        )
        view = as_dict(sides, lambda rate: rate.currency, lambda rate: rate.euros)
        sink = CollectSink[tuple[int, int]]()
        found = main.with_side_input(view).map(lambda order, euros: (order.number, euros.get(order.currency, 0)))
        return Pipeline("sides", found.sink_to(sink)), sink

    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    pipeline, sink = plan()
    running = runner.start(pipeline)
    running.process_available()
    assert running.stop().collected(sink) == []
    pipeline, sink = plan()
    running = runner.start(pipeline)
    write(rates, 1, [Rate("a", 2, 0), Rate("b", 3, 0)])
    running.process_available()
    write(orders, 2, [Order(3, "b", 30)])
    running.process_available()
    assert sorted(running.stop().collected(sink)) == [(1, 2), (2, 3), (3, 3)]


class Before(KeyedProcessFunction[int, tuple[int, str, Mapping[float, int]], tuple[int, str, Mapping[float, int]]]):
    """Emits the element before, with the mapping that it has kept."""

    _BEFORE: ValueStateDescriptor[Any] = ValueStateDescriptor("before")

    def process_element(
        self, value: tuple[int, str, Mapping[float, int]], context: KeyedProcessContext[int]
    ) -> list[tuple[int, str, Mapping[float, int]]]:
        before = context.get_state(self._BEFORE)
        held = before.value()
        before.update(value)
        return [] if held is None else [held]


def test_what_waits_and_views_by_key_outlive_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    # run      1                 2
    # batches  1        2        3        end
    # name     +I old   -U old   +U new
    kinds = [(ChangeKind.INSERT, "old"), (ChangeKind.UPDATE_BEFORE, "old"), (ChangeKind.UPDATE_AFTER, "new")]
    changes = [Change(kind, name) for kind, name in kinds]
    found: list[Any] = []
    for batches in (2, 3):
        names = from_changes(from_source(CollectionSource(changes[:batches], batch_size=1)))
        rates = from_source(CollectionSource([(float("nan"), number) for number in range(batches)], batch_size=1))
        numbers = from_source(CollectionSource(range(batches * 2), batch_size=2))
        stage = numbers.with_side_input(
            as_singleton(names), as_dict(rates, lambda rate: rate[0], lambda rate: rate[1]), name="sides"
        )
        kept = stage.map(lambda number, name, rates: (number, name, rates)).key_by(lambda each: 0).process(Before())
        sink = CollectSink[tuple[int, str, Mapping[float, int]]]()
        runner = SparkRunner(spark, checkpoint=tmp_path, key_groups_per_partition=3)
        result = runner.run(Pipeline("kept", kept.sink_to(sink)), drain=batches == 3)
        found += result.collected(sink)
    # The last element stays in state.
    shown = [(number, name, rates[float("nan")], len(rates)) for number, name, rates in found]
    assert len(shown) == 5
    assert {*shown} < {*[(0, "old", 0, 1), (1, "old", 0, 1)], *[(number, "new", 2, 1) for number in range(2, 6)]}
