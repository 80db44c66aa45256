"""The gauges and histograms of functions are the same on both engines."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from windrow import Pipeline, WatermarkStrategy, from_collection
from windrow.errors import InvalidArgumentError
from windrow.functions import (
    BroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
    ReadOnlyContext,
    RuntimeContext,
)
from windrow.sinks import CollectSink
from windrow.state import MapStateDescriptor
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = MapStateDescriptor("rules", str, int)


class Measured(MapFunction[int, int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.highest = runtime_context.metrics.gauge("highest")
        self.sizes = runtime_context.metrics.histogram("sizes", [10, 100])

    def map(self, value: int) -> int:
        self.highest.set(value)
        self.sizes.record(value)
        return value


class Counted(KeyedProcessFunction[int, int, int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.sizes = runtime_context.metrics.histogram("sizes", [10, 100])

    def process_element(self, value: int, context: KeyedProcessContext[int]) -> Iterable[int]:
        self.sizes.record(value)
        return [value]


class Summed(ProcessWindowFunction[int, int, int, TimeWindow]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.sums = runtime_context.metrics.histogram("sums", [50])
        self.end = runtime_context.metrics.gauge("end")

    def process(self, key: int, context: ProcessWindowContext[TimeWindow], elements: Iterable[int]) -> Iterable[int]:
        total = sum(elements)
        self.sums.record(total)
        self.end.set(context.window.end)
        return [total]


class Ruled(KeyedBroadcastProcessFunction[int, int, int, int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.rules = runtime_context.metrics.histogram("rules", [10])
        self.newest = runtime_context.metrics.gauge("newest")

    def process_element(self, value: int, context: ReadOnlyContext[int]) -> Iterable[int]:
        return [value]

    def process_broadcast_element(self, value: int, context: BroadcastContext[int, int]) -> Iterable[int]:
        self.rules.record(value)
        self.newest.set(value)
        context.get_broadcast_state(RULES).put("rule", value)
        return ()


def pipeline() -> Pipeline:
    numbers = from_collection([*range(1, 60), 700, 5, 40], batch_size=31).map(Measured(), name="measured")
    keyed = numbers.key_by(lambda n: n % 5)
    ruled = keyed.connect(from_collection([3, 30], batch_size=1).broadcast(RULES)).process(Ruled(), name="ruled")
    sums = (
        numbers.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)), timestamp=lambda n: n * 100
        )
        .key_by(lambda n: n % 3)
        .window(TumblingEventTimeWindows.of(timedelta(seconds=2)))
        .process(Summed(), name="summed")
    )
    counted = keyed.process(Counted(), name="counted")
    return Pipeline("metrics", *(stream.sink_to(CollectSink[int]()) for stream in (counted, ruled, sums)))


def metrics(result: PipelineResult) -> tuple[object, object]:
    return result.gauges, result.histograms


def test_both_engines_merge_the_metrics_of_all_workers(spark: SparkSession, tmp_path: Path) -> None:
    local = LocalRunner().run(pipeline())
    measured = next(step for step in local.gauges if step.endswith("measured"))
    assert local.gauges[measured] == {"highest": 700.0}  # of the second batch, whose first number is 32
    assert local.histograms[measured]["sizes"].counts == [11, 50, 1]
    ruled = next(step for step in local.histograms if step.endswith("ruled"))
    assert local.histograms[ruled]["rules"].counts == [1, 1]
    assert metrics(SparkRunner(spark).run(pipeline())) == metrics(local)
    with SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(pipeline()) as running:
        running.process_available()
        assert running.gauges()[measured] == {"highest": 700.0}
        assert running.histograms()[measured]["sizes"].counts == [11, 50, 1]


def test_a_gauge_falls_with_the_next_batch_that_sets_it(spark: SparkSession) -> None:
    numbers = from_collection([9, 2, 4, 3], batch_size=2).map(Measured(), name="measured")
    for runner in (LocalRunner(), SparkRunner(spark)):
        result = runner.run(Pipeline("falling", numbers.sink_to(CollectSink[int]())))
        assert result.gauges == {"falling.2.measured": {"highest": 4.0}}


class Wrong(MapFunction[int, int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.size = runtime_context.metrics.gauge("size")

    def map(self, value: int) -> int:
        self.size.set(float("nan"))
        return value


def test_what_is_no_number_fails_where_it_was_set(spark: SparkSession) -> None:
    for runner in (LocalRunner(), SparkRunner(spark)):
        with pytest.raises(InvalidArgumentError, match="gauge 'size' takes finite numbers") as caught:
            runner.run(Pipeline("wrong", from_collection([1]).map(Wrong()).sink_to(CollectSink[int]())))
        assert "wrong.2.map" in str(caught.value.where)
