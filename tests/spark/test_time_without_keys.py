"""Process functions without keys see the watermark of their input: Spark gives what the interpreter gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.spark.comparison import Event, Outputs, millis
from windrow import DataStream, WatermarkStrategy, from_source
from windrow.functions import CoProcessFunction, ProcessContext, ProcessFunction
from windrow.sources import CollectionSource
from windrow.time import MIN_TIMESTAMP, now_millis
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row: TypeAlias = tuple[str, int, int]


class Under(ProcessFunction[Event, Row]):
    def process_element(self, value: Event, context: ProcessContext) -> Iterable[Row]:
        assert abs(context.timer_service.current_processing_time - now_millis()) < 600_000
        yield value.key, value.value, context.timer_service.current_watermark


class UnderBoth(CoProcessFunction[Event, Event, Row]):
    def process_element1(self, value: Event, context: ProcessContext) -> Iterable[Row]:
        yield value.key, value.value, context.timer_service.current_watermark

    def process_element2(self, value: Event, context: ProcessContext) -> Iterable[Row]:
        yield value.key, -value.value, context.timer_service.current_watermark


def stamped(name: str) -> DataStream[Event]:
    events = [Event("ab"[n % 2], 100 + n * 30, n) for n in range(12)]
    return from_source(CollectionSource(events, batch_size=4), name=name).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda event: event.at
    )


def behind_windows(stream: DataStream[Event]) -> DataStream[Event]:
    windows = stream.key_by(lambda event: event.key).window(TumblingEventTimeWindows.of(millis(100)))
    return windows.reduce(lambda a, b: Event(a.key, a.at, a.value + b.value))


@pytest.mark.parametrize("kind", ["source", "connected", "windows", "beside windows"])
def test_the_watermark_is_that_of_the_interpreter(spark: SparkSession, kind: str) -> None:
    outputs, stream = Outputs(), stamped("one")
    if kind == "source":
        outputs.add("source", stream.process(Under()))
    elif kind == "beside windows":
        outputs.add("source", stream.process(Under()))
        outputs.add("windows", behind_windows(stream), key=None)
    elif kind == "connected":
        outputs.add("windows", behind_windows(stream), key=None)
        outputs.add("connected", stream.connect(stamped("two")).process(UnderBoth()), key=None)
    else:
        outputs.add("windows", behind_windows(stream).process(Under()), key=None)
    pipeline = outputs.pipeline("time")
    expected, _ = outputs.expected(pipeline)
    last = [row for rows in expected.values() for group in rows.values() for row in group]
    assert any(isinstance(row, tuple) and row[2] > MIN_TIMESTAMP for row in last)
    assert outputs.of(SparkRunner(spark).run(pipeline)) == expected


def test_a_batch_job_has_no_watermark_before_its_elements(spark: SparkSession) -> None:
    outputs = Outputs()
    outputs.add("source", stamped("one").process(Under()))
    rows = outputs.of(SparkRunner(spark).run_batch(outputs.pipeline("time")))["source"]
    assert {row[2] for group in rows.values() for row in group} == {MIN_TIMESTAMP}
