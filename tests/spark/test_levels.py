"""Streams that skip levels of keyed steps or have none, windows at the end of time, and watermarks that steps see."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.comparison import Event, Outputs, Seen, millis
from tests.spark.timed import timed
from windrow import DataStream, Pipeline, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, ProcessContext, ProcessFunction
from windrow.sinks import JsonFileSink
from windrow.sources import CollectionSource
from windrow.time import MIN_TIMESTAMP, now_millis
from windrow.triggers import ContinuousEventTimeTrigger
from windrow.windows import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = [Event("ab"[n % 2], n * 40 - (90 if n % 7 == 0 else 0), n) for n in range(40)]


def add(a: Event, b: Event) -> Event:
    return Event(a.key, max(a.at, b.at), a.value + b.value)


class Watermarks(KeyedProcessFunction[str, Event, tuple[str, int, int]]):
    """Shows the watermark under which each element comes."""

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[tuple[str, int, int]]:
        return [(value.key, value.value, context.timer_service.current_watermark)]


class Under(ProcessFunction[Event, tuple[str, int, int]]):
    """The same without keys."""

    def process_element(self, value: Event, context: ProcessContext) -> Iterable[tuple[str, int, int]]:
        assert abs(context.timer_service.current_processing_time - now_millis()) < 600_000
        return [(value.key, value.value, context.timer_service.current_watermark)]


def source() -> DataStream[Event]:
    return timed(from_source(CollectionSource(EVENTS, batch_size=20)), 60)


def add_skipped_levels(outputs: Outputs, stream: DataStream[Event]) -> None:
    # level 1    source -> 100 ms windows -> 300 ms windows
    # level 2    source ---------+---------> 500 ms windows      the elements skip a level
    # level 3    source + level 1 + level 2 -> sessions          and two
    first = stream.key_by(lambda e: e.key).window(TumblingEventTimeWindows.of(millis(100))).reduce(add)
    both = first.union(stream).key_by(lambda e: e.key)
    second = both.window(TumblingEventTimeWindows.of(millis(500))).reduce(add)
    outputs.add("second", second)
    outputs.add("seen", both.window(TumblingEventTimeWindows.of(millis(300))).process(Seen()))
    third = second.union(first, stream).key_by(lambda e: e.key)
    outputs.add("third", third.window(EventTimeSessionWindows.with_gap(millis(70))).process(Seen()))


def add_watermarks(outputs: Outputs, stream: DataStream[Event]) -> None:
    """What fires in the batch of the end comes under the watermark before."""
    many_keys = stream.map(lambda e: Event(f"key {e.value % 12}", e.at, e.value)).returns(Event)
    first = many_keys.key_by(lambda e: e.key).window(TumblingEventTimeWindows.of(millis(100))).reduce(add)
    outputs.add("watermarks", first.key_by(lambda e: e.key).process(Watermarks()))
    outputs.add("beside keyed steps", stream.process(Under()))
    outputs.add("behind windows", first.process(Under()), key=None)


def add_windows_of_count_windows(outputs: Outputs, stream: DataStream[Event]) -> None:
    # What a global window emits carries the highest timestamp: a window of it would end behind the end of time.
    pairs = stream.key_by(lambda e: e.key).count_window(2).reduce(add).key_by(lambda e: e.key)
    sessions = pairs.window(EventTimeSessionWindows.with_gap(millis(50)))
    tumbling = pairs.window(TumblingEventTimeWindows.of(millis(70)))
    for name, windows in (("sessions", sessions), ("tumbling", tumbling)):
        outputs.add(f"{name}, summed", windows.reduce(add))
        outputs.add(f"{name}, lists", windows.process(Seen()))


def add_global_windows(outputs: Outputs, stream: DataStream[Event]) -> None:
    """What only looks endless ends with the stream."""
    windows = stream.key_by(lambda e: e.key).window(GlobalWindows.create())
    outputs.add("continuous", windows.trigger(ContinuousEventTimeTrigger.of(millis(1_000))).reduce(add))


def test_levels_give_what_the_interpreter_gives(spark: SparkSession) -> None:
    outputs, stream = Outputs(), source()
    add_skipped_levels(outputs, stream)
    add_watermarks(outputs, stream)
    add_windows_of_count_windows(outputs, stream)
    add_global_windows(outputs, stream)
    rows, _ = outputs.expected(outputs.pipeline("watermarks"))
    assert any(row[2] > MIN_TIMESTAMP for group in rows["watermarks"].values() for row in group)
    outputs.check(SparkRunner(spark, partitions=1).run)


def test_a_plan_without_keyed_steps_sees_the_watermark_and_a_batch_job_none(spark: SparkSession) -> None:
    outputs = Outputs()
    outputs.add("source", source().process(Under()))
    outputs.check(SparkRunner(spark).run)
    rows = outputs.of(SparkRunner(spark).run_batch(outputs.pipeline("job")))["source"]
    assert {row[2] for group in rows.values() for row in group} == {MIN_TIMESTAMP}


def test_a_level_writes_the_sinks_that_it_alone_feeds(spark: SparkSession, tmp_path: Path) -> None:
    """Its results do not pass the exchanges of deeper levels."""

    def pipeline(folder: Path) -> Pipeline:
        first = source().key_by(lambda e: e.key).window(TumblingEventTimeWindows.of(millis(100))).reduce(add)
        second = first.key_by(lambda e: e.key).window(TumblingEventTimeWindows.of(millis(500))).reduce(add)
        streams = {"first": first, "second": second, "both": first.union(second), "all": source().union(first)}
        return Pipeline("levels", *(stream.sink_to(JsonFileSink(folder / name)) for name, stream in streams.items()))

    def written(folder: Path) -> dict[str, list[str]]:
        return {
            name: sorted(
                line for file in (folder / name).rglob("[!._]*.json*") for line in file.read_text().splitlines()
            )
            for name in ("first", "second", "both", "all")
        }

    plan = pipeline(tmp_path / "spark")
    topology = Topology(plan.steps)
    assert [topology.feeding_level(sink) for sink in topology.sinks] == [1, 2, 2, 2]
    LocalRunner().run(pipeline(tmp_path / "local"))
    expected = written(tmp_path / "local")
    assert all(expected.values())
    SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=2).run(plan)
    assert written(tmp_path / "spark") == expected
