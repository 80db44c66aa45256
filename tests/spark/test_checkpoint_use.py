"""Two runs that want one checkpoint: the second is refused, and the first goes on."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.test_runner_damage import Reading, firsts, write
from windrow import Pipeline, from_collection
from windrow import aggregates as agg
from windrow.errors import CheckpointError, EngineError, InvalidArgumentError, SinkError
from windrow.sinks import CollectSink, DatabaseSink, WriterSink
from windrow_runtime.spark import RunningPipeline, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_checkpoint_that_a_live_run_uses_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    source, runner = tmp_path / "in", SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)
    write(source, 1, Reading("a", 1, ""))
    write(source, 2, Reading("a", 12, ""))
    pipeline, sink = firsts(source)
    running = runner.start(pipeline)
    running.process_available()
    for second in (runner.start, runner.run, lambda pipeline: runner.run(pipeline, drain=False)):
        with pytest.raises(CheckpointError, match="another run uses the checkpoint") as caught:
            second(firsts(source)[0])
        assert caught.value.where == str((tmp_path / "checkpoint").resolve())
    write(source, 3, Reading("a", 23, ""))
    running.process_available()
    assert [reading.at for reading in running.stop().collected(sink)] == [1, 12]

    # A run that somebody else ended, and one that failed before its query began, leave the checkpoint.
    again = runner.start(firsts(source)[0])
    again.streaming_query.stop()
    pipeline, sink = firsts(source)
    lost = tmp_path / "checkpoint/spark/metadata"
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(CheckpointError, match="damaged"):
        runner.run(pipeline)
    lost.write_bytes(content)
    (lost.parent / ".metadata.crc").unlink(missing_ok=True)
    assert [reading.at for reading in runner.run(pipeline).collected(sink)] == [23]


def test_pipelines_of_one_name_start_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    source, before = tmp_path / "in", dict(spark.conf.getAll)
    write(source, 1, Reading("a", 1, ""))
    write(source, 2, Reading("a", 12, ""))
    unknown = WriterSink[int](lambda frame: frame.writeStream.format("unknown to Spark"))
    numbers = from_collection([1]).map(lambda n: n).returns(int).sink_to(unknown)
    (one, first), (other, second) = firsts(source), firsts(source)

    def start(number: int, pipeline: Pipeline) -> RunningPipeline:
        # Of different partitions, which the session has while a query starts.
        return SparkRunner(spark, checkpoint=tmp_path / str(number), partitions=number).start(pipeline)

    with ThreadPoolExecutor(3) as threads:
        starts = [
            threads.submit(start, number, pipeline)
            for number, pipeline in enumerate((one, other, Pipeline("damage", numbers)), start=1)
        ]
    with pytest.raises(EngineError, match="unknown to Spark"):
        starts[2].result()
    running = [started.result() for started in starts[:2]]
    assert dict(spark.conf.getAll) == before
    plain, longer = sorted(str(started.streaming_query.name) for started in running)
    assert plain == "damage"
    assert re.fullmatch("damage [0-9a-f]{32}", longer)
    for started, sink in zip(running, (first, second), strict=True):
        assert [reading.at for reading in started.drain().collected(sink)] == [1, 12]


def test_a_run_that_is_refused_writes_nothing_where_a_source_reads(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    write(source, 1, Reading("a", 1, ""))
    pipeline, sink = firsts(source)
    before = sorted(source.rglob("*"))
    with pytest.raises(InvalidArgumentError, match="the checkpoint lies in a folder that a source reads"):
        SparkRunner(spark, checkpoint=source / "checkpoint").run(pipeline)
    assert sorted(source.rglob("*")) == before
    assert [reading.at for reading in SparkRunner(spark).run_batch(pipeline).collected(sink)] == [1]


def test_a_plan_that_was_refused_binds_nobody(spark: SparkSession, tmp_path: Path) -> None:
    """The first run ends before its first batch: neither its plan nor its elements are there for the second."""
    missing = DatabaseSink[int](f"sqlite:///{tmp_path}/base", "numbers", create=False)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)
    summed = from_collection([1, 2]).key_by(lambda number: number).reduce(lambda a, b: a + b).returns(int)
    with pytest.raises(SinkError, match="there is no table"):
        runner.run(Pipeline("refused", summed.sink_to(missing)))
    assert (tmp_path / "checkpoint" / "plan").exists()
    counts = CollectSink[int]()
    counted = from_collection([5]).key_by(str).count_window(1).aggregate(agg.sum(lambda number: number))
    assert runner.run(Pipeline("refused", counted.sink_to(counts))).collected(counts) == [5]
