"""Runs whose checkpoint lies in a file system that is not mounted, as far as windrow can see.

It is Hadoop's view of a folder of this machine. ``tests/elsewhere`` has S3 and HDFS.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.custom_sources import Entry
from tests.partitioned import MONOTONOUS, logs
from tests.partitioned import put as put_lines
from tests.spark.comparison import Event
from tests.spark.timed import timed
from tests.support.files import put
from tests.support.thorough import thorough
from windrow import DataStream, Pipeline, from_source
from windrow import aggregates as agg
from windrow.connectors import HybridSource
from windrow.errors import CheckpointError, IncompatibleStateError
from windrow.sinks import CollectSink, FunctionSink, JsonFileSink, WriterSink
from windrow.sources import CollectionSource, JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.storage import HadoopPath
from windrow_spark.run_limits import USUAL_LIMITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: Spark's writers.

pytestmark = pytest.mark.classic(reason="the checkpoint must be in a mounted file system")


class Total(NamedTuple):
    key: str
    value: int


EVENTS = [Event(f"k{number % 3}", number * 40, number) for number in range(60)]


def sums(stream: DataStream[Event]) -> DataStream[Total]:
    keyed = timed(stream, 100).key_by(lambda event: event.key)
    windows = keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    return windows.aggregate(agg.into(Total, agg.key(), agg.sum(lambda event: event.value)))


OTHER_RUN = r"another run uses the checkpoint(.|\n)*process 1 on elsewhere"


def take_over(tmp_path: Path) -> None:
    """Takes the checkpoint from the run that has it, as a run on another machine does."""
    (tmp_path / "here" / "checkpoint" / "locks" / "lock-99").write_text("process 1 on elsewhere\nmark 1\n")


def spark_writes(out: Path) -> WriterSink[Any]:
    """A sink of Spark's own."""
    return WriterSink(lambda frame: frame.writeStream.format("json").option("path", str(out)))


def collected(runner: SparkRunner | LocalRunner, size: int, *, drain: bool = True) -> list[Total]:
    sink = CollectSink[Total]()
    stream = sums(from_source(CollectionSource(EVENTS, Event, batch_size=size)))
    return sorted(runner.run(Pipeline("sums", stream.sink_to(sink)), drain=drain).collected(sink))


@pytest.mark.parametrize(
    "clock",
    [pytest.param(None, marks=pytest.mark.thorough(reason="a clock of one's own has files besides")), lambda: 1_000],
)
def test_a_run_goes_on_where_another_one_stopped(
    spark: SparkSession, view: str, tmp_path: Path, clock: Callable[[], int] | None
) -> None:
    here = collected(LocalRunner(), 30)
    runner = SparkRunner(spark, checkpoint=f"{view}/checkpoint", clock=clock, partitions=1)
    first = collected(runner, 30, drain=False)
    assert spark.sparkContext.getLocalProperty("windrow.files") is None  # other jobs of the thread get none
    # A batch that runs again has the time that it had.
    checkpoint = tmp_path / "here" / "checkpoint"
    last = max(int(file.name) for file in (checkpoint / "spark" / "offsets").glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "spark" / "commits" / name).unlink(missing_ok=True)
    (checkpoint / "spark" / "offsets" / ".9.0f8fad5b-d9cb-469f-a165-70867728950e.tmp").touch()
    rest = collected(runner, 30)
    assert first
    assert rest
    assert sorted({*first, *rest}) == here
    with pytest.raises(IncompatibleStateError, match="was drained"):
        collected(runner, 30)
    shutil.rmtree(checkpoint / "spark" / "offsets")
    (checkpoint / "drained").unlink()
    with pytest.raises(CheckpointError, match="its plan is gone"):
        collected(runner, 30)


def test_a_second_run_is_refused_and_one_whose_checkpoint_was_taken_over_ends_before_its_next_batch(
    spark: SparkSession, view: str, tmp_path: Path
) -> None:
    incoming, taken = tmp_path / "in", list[Event]()
    incoming.mkdir()
    sink = FunctionSink[Event](lambda batch, events: taken.extend(events))
    pipeline = Pipeline("taken", from_source(JsonFileSource(incoming, Event)).sink_to(sink))
    runner = SparkRunner(spark, checkpoint=f"{view}/checkpoint")
    running = runner.start(pipeline)
    put(incoming, 0, EVENTS[:1])
    running.process_available()
    assert len(taken) == 1
    with pytest.raises(CheckpointError, match="another run uses the checkpoint"):
        runner.run(pipeline)
    take_over(tmp_path)
    put(incoming, 1, EVENTS[1:])
    with pytest.raises(CheckpointError, match=OTHER_RUN):
        running.process_available()
    assert len(taken) == 1


class ImpatientRunner(SparkRunner):
    """A runner that soon finds that another one has its checkpoint."""

    _limits = replace(USUAL_LIMITS, lease_seconds=1.5)


def test_a_query_whose_batches_spark_writes_ends_when_its_checkpoint_was_taken_over(
    spark: SparkSession, view: str, tmp_path: Path
) -> None:
    put(tmp_path / "in", 0, EVENTS)
    events = from_source(JsonFileSource(tmp_path / "in", Event))
    pipeline = Pipeline("taken", events.sink_to(spark_writes(tmp_path / "out")))
    running = ImpatientRunner(spark, checkpoint=f"{view}/checkpoint").start(pipeline)
    running.process_available()
    assert running.is_active
    take_over(tmp_path)
    with pytest.raises(CheckpointError, match=OTHER_RUN):
        running.await_termination(60)
    assert not running.is_active
    with pytest.raises(CheckpointError, match="another run uses the checkpoint"):
        running.drain()


@pytest.mark.parametrize(
    "when", [thorough("computed", reason="in the other case a sink has the batch already"), "written"]
)
def test_a_batch_is_not_published_if_the_checkpoint_was_taken_over_meanwhile(
    spark: SparkSession, view: str, tmp_path: Path, when: str
) -> None:
    seen = tmp_path / "seen"

    def take(event: Event) -> Event:
        if when == "computed":
            take_over(tmp_path)
        return event

    def write(batch: int, events: Sequence[Event]) -> None:
        seen.touch()
        take_over(tmp_path)

    events = from_source(CollectionSource(EVENTS, Event)).map(take)
    pipeline = Pipeline("taken", events.sink_to(FunctionSink(write)), events.sink_to(JsonFileSink(tmp_path / "out")))
    with pytest.raises(CheckpointError, match=OTHER_RUN):
        SparkRunner(spark, checkpoint=f"{view}/checkpoint").run(pipeline)
    assert seen.exists() == (when == "written")
    assert not list((tmp_path / "out").glob("batch-0*"))


def test_a_file_is_written_once(spark: SparkSession, view: str, tmp_path: Path) -> None:
    file = HadoopPath.of(spark, f"{view}/below/file", lambda call: call())
    assert file.write_once(b"one", whole=True)
    assert file.write_once(b"one", whole=True)  # the first answer was lost
    assert not file.write_once(b"two", whole=True)
    assert not file.write_once(b"two")
    assert file.read_bytes() == b"one"
    file.rewrite(b"three")
    file.write(b"four")
    assert file.read_bytes() == b"four"


@pytest.mark.thorough(reason="a test above has a query whose batches Spark writes; test_dataframes.py restarts one")
def test_spark_writes_by_itself(spark: SparkSession, view: str) -> None:
    checkpoint = f"{view}/checkpoint"
    frame = SparkRunner(spark, checkpoint=checkpoint).to_dataframe(
        sums(from_source(CollectionSource(EVENTS, Event, batch_size=30)))
    )
    for _ in range(2):
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.thorough(reason="a query above has such a sink; tests/elsewhere drains a run with a checkpoint on S3")
def test_a_sink_of_sparks_own_is_drained(spark: SparkSession, view: str, tmp_path: Path) -> None:
    checkpoint, out = tmp_path / "here" / "checkpoint", tmp_path / "out"
    stream = sums(from_source(CollectionSource(EVENTS, Event, batch_size=30)))
    runner = SparkRunner(spark, checkpoint=f"{view}/checkpoint")
    pipeline = Pipeline("sums", stream.sink_to(spark_writes(out)))
    runner.run(pipeline, drain=False)
    # The driver notes what workers tell it before a batch is committed.
    assert Checkpoint(checkpoint).newest_batch.batch() == 1
    runner.run(pipeline)
    found = CollectSink[Total]()
    written = Pipeline("written", from_source(JsonFileSource(out / "*.json", Total)).sink_to(found))
    assert sorted(LocalRunner().run(written).collected(found)) == collected(LocalRunner(), 20)
    with pytest.raises(IncompatibleStateError, match="was drained"):
        runner.run(pipeline)
    (checkpoint / "drained").unlink()
    shutil.rmtree(checkpoint / "spark")
    with pytest.raises(CheckpointError, match=r"it is gone, and batches have run(.|\n)*/spark/offsets"):
        runner.run(pipeline)


@pytest.mark.thorough(reason="tests/spark/test_hybrid_sources.py has it with a mounted checkpoint")
def test_parts_of_a_hybrid_source(spark: SparkSession, view: str, tmp_path: Path) -> None:
    for number in range(2):
        put(tmp_path / "in", number, [Event("a", number, 2)], second=number)
    history = JsonFileSource(tmp_path / "in", Event, files_per_batch=1)
    sink = CollectSink[Event]()
    stream = from_source(HybridSource(history).then(CollectionSource([Event("b", 9, 1)], Event)))
    result = SparkRunner(spark, checkpoint=f"{view}/checkpoint").run(Pipeline("hybrid", stream.sink_to(sink)))
    assert [event.at for event in result.collected(sink)] == [0, 1, 9]


def test_partitions_that_are_ahead_wait_for_the_others(spark: SparkSession, view: str, tmp_path: Path) -> None:
    found: dict[int, list[str]] = {}

    def take(batch: int, entries: Sequence[Entry]) -> None:
        found[batch] = sorted(f"{entry.log}{entry.second}" for entry in entries)

    def plan(name: str) -> Pipeline:
        aligned = MONOTONOUS.with_watermark_alignment("logs", timedelta(seconds=50))
        entries = logs(tmp_path / name, lines=1).assign_timestamps_and_watermarks(
            aligned, timestamp=lambda entry: entry.second * 1000
        )
        windows = entries.key_by(lambda entry: entry.log).window(TumblingEventTimeWindows.of(timedelta(seconds=100)))
        sums = windows.aggregate(agg.into(Total, agg.key(), agg.count()))
        return Pipeline("aligned", sums.sink_to(CollectSink[Total]()), entries.sink_to(FunctionSink(take)))

    def run(name: str, checkpoint: str) -> list[list[str]]:
        found.clear()
        put_lines(tmp_path / name, a=[0, 100, 200], b=[0, 10, 20, 60])
        runner = SparkRunner(spark, checkpoint=checkpoint)
        runner.run(plan(name), drain=False)
        put_lines(tmp_path / name, b=[120, 160, 300])
        runner.run(plan(name))
        return [found[batch] for batch in sorted(found)]

    elsewhere, here = run("elsewhere", f"{view}/checkpoint"), run("here", str(tmp_path / "checkpoint"))
    assert elsewhere == here
    assert elsewhere[:4] == [["a0", "b0"], ["a100", "b10"], ["b20"], ["b60"]]
