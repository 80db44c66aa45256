"""Streams that skip a level of keyed steps, and windows at the end of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.spark.comparison import Event, Outputs, Seen, millis
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sources import CollectionSource
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = [Event("ab"[n % 2], n * 40 - (90 if n % 7 == 0 else 0), n) for n in range(60)]


def add(a: Event, b: Event) -> Event:
    return Event(a.key, max(a.at, b.at), a.value + b.value)


def same_on_both(spark: SparkSession, pipeline: Pipeline, outputs: Outputs) -> None:
    expected, counters = outputs.expected(pipeline)
    result = SparkRunner(spark).run(pipeline)
    assert outputs.of(result) == expected
    assert result.counters == counters


def test_a_union_of_windows_and_the_stream_itself(spark: SparkSession) -> None:
    # level 1    source -> 100 ms windows -> 300 ms windows
    # level 2    source ---------+---------> 500 ms windows      the elements skip a level
    # level 3    source + level 1 + level 2 -> sessions          and two
    outputs = Outputs()
    stream = from_source(CollectionSource(EVENTS, batch_size=20)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(millis(60)), timestamp=lambda event: event.at
    )
    first = stream.key_by(lambda e: e.key).window(TumblingEventTimeWindows.of(millis(100))).reduce(add)
    both = first.union(stream).key_by(lambda e: e.key)
    second = both.window(TumblingEventTimeWindows.of(millis(500))).reduce(add)
    outputs.add("second", second)
    outputs.add("seen", both.window(TumblingEventTimeWindows.of(millis(300))).process(Seen()))
    third = second.union(first, stream).key_by(lambda e: e.key)
    outputs.add("third", third.window(EventTimeSessionWindows.with_gap(millis(70))).process(Seen()))
    same_on_both(spark, outputs.pipeline("levels"), outputs)


class Watermarks(KeyedProcessFunction[str, Event, tuple[str, int, int]]):
    """Shows the watermark under which each element comes."""

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[tuple[str, int, int]]:
        return [(value.key, value.value, context.timer_service.current_watermark)]


def test_what_fires_in_the_batch_of_the_end_comes_under_the_watermark_before(spark: SparkSession) -> None:
    outputs = Outputs()
    keys = [Event(f"key {n % 12}", n * 40, n) for n in range(60)]
    stream = from_source(CollectionSource(keys, batch_size=20)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda event: event.at
    )
    first = stream.key_by(lambda e: e.key).window(TumblingEventTimeWindows.of(millis(100))).reduce(add)
    outputs.add("watermarks", first.key_by(lambda e: e.key).process(Watermarks()))
    same_on_both(spark, outputs.pipeline("watermarks"), outputs)


def test_windows_behind_a_count_window_end_with_time(spark: SparkSession) -> None:
    # What a global window emits carries the highest timestamp: a window of it would end behind the end of time.
    outputs = Outputs()
    stream = from_source(CollectionSource(EVENTS, batch_size=20)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda event: event.at
    )
    pairs = stream.key_by(lambda e: e.key).count_window(2).reduce(add).key_by(lambda e: e.key)
    outputs.add("sessions", pairs.window(EventTimeSessionWindows.with_gap(millis(50))).process(Seen()))
    outputs.add("summed", pairs.window(EventTimeSessionWindows.with_gap(millis(50))).reduce(add))
    outputs.add("tumbling", pairs.window(TumblingEventTimeWindows.of(millis(70))).reduce(add))
    outputs.add("lists", pairs.window(TumblingEventTimeWindows.of(millis(70))).process(Seen()))
    same_on_both(spark, outputs.pipeline("end"), outputs)
