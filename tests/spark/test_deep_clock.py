"""Keyed steps behind one that waits for the machine's clock: they see the watermark all the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.comparison import Event, millis
from tests.spark.timed import timed
from windrow import Pipeline, from_source
from windrow.aggregates import combine, count, key, window_start
from windrow.errors import IncompatibleStateError, UnsupportedOperationError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink, WriterSink
from windrow.sources import CollectionSource
from windrow.state import StateTtlConfig, ValueStateDescriptor
from windrow.time import MIN_TIMESTAMP
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_file import StoredFile
from windrow_spark.checkpoint.stored_plan import KEPT_TIME, PROCESSING_TIME, Parallelism, resume
from windrow_spark.clock import ClockFiles
from windrow_spark.lowering import time_of
from windrow_spark.physical.plan import PhysicalPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = [Event("a", 1, 1), Event("a", 1, 1), Event("b", 2, 2), Event("a", 20, 3), Event("b", 3, 4), Event("b", 40, 5)]
COUNTS = [("all", 0, 2), ("all", 20, 1)]
"""At 3 an element is late; the window of 40 waits for the end of the stream."""


class Once(KeyedProcessFunction[str, Event, Event]):
    uses_processing_time = True
    seen = ValueStateDescriptor("seen", int, ttl=StateTtlConfig(timedelta(hours=1)))

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterator[Event]:
        state = context.get_state(self.seen)
        if state.value() != value.value:
            state.update(value.value)
            yield value


def deduplicated() -> tuple[Pipeline, CollectSink[tuple[str, int, int]]]:
    counts = (
        timed(from_source(CollectionSource(EVENTS, batch_size=2)))
        .key_by(lambda event: event.key)
        .process(Once(), name="once")
        .key_by(lambda event: "all")
        .window(TumblingEventTimeWindows.of(millis(10)))
        .aggregate(combine(key(), window_start(), count()), name="counts")
    )
    sink = CollectSink[tuple[str, int, int]]()
    return Pipeline("deduplicated", counts.sink_to(sink)), sink


def test_a_window_behind_a_deduplication_fires_by_the_machines_clock(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, sink = deduplicated()
    runner = SparkRunner(spark, checkpoint=tmp_path, partitions=1)
    running = runner.start(pipeline)
    running.process_available()
    assert running.watermarks() == {"deduplicated.4.once": 39, "deduplicated.6.counts": 39}
    stopped = running.stop()
    assert stopped.collected(sink) == COUNTS
    assert stopped.counter("late_records_dropped") == 1
    assert runner.run(pipeline).collected(sink) == [("all", 40, 1)]


def test_a_writer_of_sparks_is_refused_rather_than_given_nothing(spark: SparkSession, tmp_path: Path) -> None:
    stream = (
        from_source(CollectionSource(EVENTS))
        .key_by(lambda event: event.key)
        .process(Once())
        .key_by(lambda event: event.key)
        .reduce(lambda a, b: b)
        .map(lambda event: event.key)
        .returns(str)
    )
    sink = WriterSink[str](lambda frame: frame.writeStream.format("console"))
    with pytest.raises(UnsupportedOperationError, match="computed after each batch") as caught:
        SparkRunner(spark, checkpoint=tmp_path).run(Pipeline("writer", stream.sink_to(sink)), drain=False)
    assert "waits for the clock" in str(caught.value)


SESSION = Parallelism(None, None, 2)


def begun(folder: Path, topology: Topology, *, committed: bool) -> Checkpoint:
    """Makes a checkpoint as earlier versions did, whose watermark Spark kept: batch 4 was the last one."""
    checkpoint = Checkpoint.at(folder)
    resume(checkpoint, PhysicalPlan(topology), PROCESSING_TIME, SESSION)
    for name, number in (("offsets", 4), ("commits", 4 if committed else 3)):
        (folder / "spark" / name).mkdir(parents=True)
        (folder / "spark" / name / str(number)).write_text("v1")
    # Their sums may have been other ones.
    progress: dict[str, object] = {"batch": 4, "before": {"a": [1]}, "watermark_before": 19, "watermark": 39}
    StoredFile(checkpoint.progress_file, dict[str, object]).write(progress)
    return checkpoint


# Without the file of the progress the watermark begins anew.
@pytest.mark.parametrize(
    ("committed", "damaged", "batch", "watermark"),
    [(True, False, 5, 39), (False, False, 4, 19), (True, True, 5, MIN_TIMESTAMP)],
)
def test_a_checkpoint_whose_watermark_spark_kept_goes_on(
    tmp_path: Path, committed: bool, damaged: bool, batch: int, watermark: int
) -> None:
    topology = Topology(deduplicated()[0].steps)
    checkpoint = begun(tmp_path, topology, committed=committed)
    shutil.move(tmp_path / "spark", tmp_path / "aside")
    assert checkpoint.has_run()
    shutil.move(tmp_path / "aside", tmp_path / "spark")
    if damaged:
        Path(checkpoint.progress_file).write_text("damaged")
    plan = PhysicalPlan(topology)
    assert time_of(plan, own_clock=False) == KEPT_TIME
    resume(checkpoint, plan, KEPT_TIME, SESSION)
    clock = ClockFiles(checkpoint.clock_folder, plan.state_ids).read(batch)
    assert set(clock.watermarks.values()) == {watermark}
    assert set(clock.watermarks) == {step.id for step in topology.keyed}
    description = checkpoint.description()
    assert description is not None
    assert description.time == KEPT_TIME


def test_the_time_of_one_level_never_changes(tmp_path: Path) -> None:
    steps = deduplicated()[0].steps
    alone = Topology(steps)
    alone.levels = dict.fromkeys(alone.levels, 1)
    checkpoint = Checkpoint.at(tmp_path)
    resume(checkpoint, PhysicalPlan(alone), PROCESSING_TIME, SESSION)
    with pytest.raises(IncompatibleStateError, match="the query ran by processing time"):
        resume(checkpoint, PhysicalPlan(alone), KEPT_TIME, SESSION)
