"""A restart fires what the run before has left due, without a new record."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.custom_sources import Logs
from tests.spark.comparison import Event, millis
from tests.spark.streams import stamped
from tests.support.files import put
from tests.support.thorough import thorough
from windrow import DataStream, Pipeline, from_dataframe, from_source
from windrow.aggregates import combine, count, key
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.sinks import CollectSink, JsonFileSink
from windrow.sources import JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import PipelineProgress, SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

A_YEAR = 366 * 24 * 3600
"""Seconds from the first batch of a run to its second one, which a run that is stopped does not plan."""

EVENTS = [Event("a", 1_000, 1), Event("b", 2_000, 2), Event("a", 12_000, 3)]
"""The watermark behind them is 11,999, under which the first two windows of ten seconds are due."""

TEN_SECONDS = TumblingEventTimeWindows.of(timedelta(seconds=10))

Fired: TypeAlias = tuple[str, int]
Steps: TypeAlias = Callable[[DataStream[Event]], DataStream[Fired]]
Read: TypeAlias = "Callable[[SparkSession, Path], DataStream[Event]]"
Again: TypeAlias = Callable[[SparkRunner, Pipeline, Sequence[CollectSink[Fired]]], list[list[Fired]]]


class Reminds(KeyedProcessFunction[str, Event, Fired]):
    """Emits the time of a timer, five seconds behind each element."""

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[Fired]:
        context.timer_service.register_event_time_timer(value.at + 5_000)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[Fired]:
        return [(context.key, timestamp)]


class Ticks(KeyedProcessFunction[str, Event, Fired]):
    """Emits a key when the machine's clock has gone on."""

    uses_processing_time = True

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[Fired]:
        service = context.timer_service
        service.register_processing_time_timer(service.current_processing_time + 1)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[Fired]:
        return [(context.key, 0)]


def on_columns(events: DataStream[Event]) -> DataStream[Fired]:
    windows = events.key_by(lambda event: event.key).window(TEN_SECONDS)
    return windows.aggregate(combine(key(), count()))


def on_objects(events: DataStream[Event]) -> DataStream[Fired]:
    windows = events.key_by(lambda event: event.key).window(TEN_SECONDS)
    return windows.apply(lambda key, window, found: [(key, len(list(found)))])


def chained(events: DataStream[Event]) -> DataStream[Fired]:
    """Windows behind windows, due under the same watermark."""
    windows = on_objects(events).key_by(lambda fired: fired[0]).window(TEN_SECONDS)
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1]))


def timers(events: DataStream[Event]) -> DataStream[Fired]:
    return events.key_by(lambda event: event.key).process(Reminds())


def ticks(events: DataStream[Event]) -> DataStream[Fired]:
    return events.key_by(lambda event: event.key).process(Ticks())


def left_join(events: DataStream[Event]) -> DataStream[Fired]:
    """Only the window's end says that an element has no partner."""
    left, right = events.filter(lambda event: event.key == "a"), events.filter(lambda event: event.key == "b")
    joined = left.left_join(right).where(lambda event: event.key).equal_to(lambda event: event.key).window(TEN_SECONDS)
    return joined.apply(lambda one, other: (one.key, -1 if other is None else other.value))


def files(spark: SparkSession, folder: Path) -> DataStream[Event]:
    put(folder, "events", EVENTS)
    return from_source(JsonFileSource(folder, Event))


def custom(spark: SparkSession, folder: Path) -> DataStream[Event]:
    """A source of the user's own without an end; with one partition Spark keeps the watermark."""
    (folder / "a.log").write_text("1\n2\n12\n")
    seconds = from_source(Logs(folder, bounded=False))
    return seconds.map(lambda entry: Event("b" if entry.second == 2 else "a", entry.second * 1000, entry.second))


def partitions(spark: SparkSession, folder: Path) -> DataStream[Event]:
    """The same with two partitions: windrow keeps the watermark."""
    (folder / "b.log").write_text("12\n")
    return custom(spark, folder)


def frame(spark: SparkSession, folder: Path) -> DataStream[Event]:
    files(spark, folder)
    return from_dataframe(spark.readStream.schema("key string, at bigint, value bigint").json(str(folder)), Event)


def by_start(runner: SparkRunner, pipeline: Pipeline, sinks: Sequence[CollectSink[Fired]]) -> list[list[Fired]]:
    running = runner.start(pipeline)
    running.process_available()
    result = running.stop()
    return [sorted(result.collected(sink)) for sink in sinks]


def by_run(runner: SparkRunner, pipeline: Pipeline, sinks: Sequence[CollectSink[Fired]]) -> list[list[Fired]]:
    result = runner.run(pipeline, drain=False)
    return [sorted(result.collected(sink)) for sink in sinks]


def stop_behind_first_batch(runner: SparkRunner, pipeline: Pipeline, checkpoint: Path) -> None:
    """Runs one batch, and stops before the next one is planned."""
    begun = threading.Event()
    running = runner.start(pipeline, interval_seconds=A_YEAR, on_progress=lambda report: begun.set())
    assert begun.wait(60)
    running.stop()
    assert batches(checkpoint) == (0, True)


def batches(checkpoint: Path) -> tuple[int, bool]:
    """The last batch that was planned, and whether it is done."""
    last = Checkpoint(checkpoint).last_planned()
    return last, Checkpoint(checkpoint).is_committed(last)


WINDOWS = [("a", 1), ("b", 1)]
TIMERS = [("a", 6_000), ("b", 7_000)]
TICKS = [("a", 0), ("b", 0)]
DUE: dict[Steps, list[Fired]] = {
    on_columns: WINDOWS,
    on_objects: WINDOWS,
    chained: WINDOWS,
    timers: TIMERS,
    left_join: [("a", -1)],
    ticks: TICKS,
}


@pytest.mark.parametrize(
    ("read", "steps", "again"),
    [
        (files, [on_columns, on_objects, chained, timers, left_join], by_run),
        (partitions, [on_objects, timers, ticks], by_start),
        thorough(custom, [ticks], by_start, reason="a source with two partitions has the same timers"),
        thorough(frame, [on_objects], by_run, reason="Spark keeps the watermark of files likewise"),
    ],
)
def test_what_is_due_needs_no_record(
    spark: SparkSession, tmp_path: Path, read: Read, steps: list[Steps], again: Again
) -> None:
    # batch     0                      1                      (none, or without results)
    # elements  1 s, 2 s, 12 s         none                   none
    # run       the first, stopped     the second             the third
    # results   none                   what is due            none
    incoming, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    incoming.mkdir()
    runner = SparkRunner(spark, checkpoint=checkpoint)

    def pipeline() -> tuple[Pipeline, list[CollectSink[Fired]]]:
        stream, sinks = stamped(read(spark, incoming)), [CollectSink[Fired]() for _ in steps]
        return Pipeline("due", *(step(stream).sink_to(sink) for step, sink in zip(steps, sinks, strict=True))), sinks

    stop_behind_first_batch(runner, pipeline()[0], checkpoint)
    assert again(runner, *pipeline()) == [DUE[step] for step in steps]
    assert again(runner, *pipeline()) == [[] for _ in steps]


def test_a_run_with_nothing_due_plans_no_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Not even after a run whose last batch has moved no watermark, as that of a file with the same times has not."""
    incoming, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    incoming.mkdir()
    runner = SparkRunner(spark, checkpoint=checkpoint)

    def run() -> list[Fired]:
        sink = CollectSink[Fired]()
        events = from_source(JsonFileSource(incoming, Event, on_malformed="drop"))
        return by_run(runner, Pipeline("idle", on_objects(stamped(events)).sink_to(sink)), [sink])[0]

    files(spark, incoming)
    assert run() == WINDOWS
    assert batches(checkpoint) == (1, True)
    assert run() == []
    assert batches(checkpoint) == (1, True)
    (incoming / "more.json").write_text('{"key": "a", "at": 12000, "value": 4}\n')
    assert run() == []
    assert batches(checkpoint) == (2, True)
    assert run() == []
    assert batches(checkpoint) == (2, True)
    # A run that goes on until it is stopped plans a single one, and reports on it.
    reports: list[PipelineProgress] = []
    running = runner.start(
        Pipeline(
            "idle", on_objects(stamped(from_source(JsonFileSource(incoming, Event)))).sink_to(CollectSink[Fired]())
        ),
        on_progress=reports.append,
    )
    running.process_available()
    running.stop()
    assert batches(checkpoint) == (3, True)
    assert [report.batch for report in reports] == [3]


def test_files_get_what_is_due_once_and_state_is_cleaned_up(spark: SparkSession, tmp_path: Path) -> None:
    """Windows wait for late elements for a second, which is over as well."""
    incoming, checkpoint, out = tmp_path / "in", tmp_path / "checkpoint", tmp_path / "out"
    incoming.mkdir()
    reports: list[PipelineProgress] = []
    # On columns nobody counts the windows that are open.
    runner = SparkRunner(spark, checkpoint=checkpoint, on_progress=reports.append, columnar=False)

    def pipeline() -> Pipeline:
        events = stamped(files(spark, incoming)).key_by(lambda event: event.key)
        windows = events.window(TEN_SECONDS).allowed_lateness(millis(1_000))
        counts = windows.apply(lambda key, window, found: [(key, len(list(found)))], name="counts")
        return Pipeline("once", counts.returns(Fired).sink_to(JsonFileSink(out)))

    first = pipeline()
    (step,) = (each.id for each in first.steps if each.name == "counts")
    stop_behind_first_batch(runner, first, checkpoint)
    runner.run(pipeline(), drain=False)
    assert reports[-1].batch == 1
    assert reports[-1].steps[step].open_windows == 1
    runner.run(pipeline(), drain=False)
    written = [json.loads(line) for file in sorted(out.rglob("*.json")) for line in file.read_text().splitlines()]
    assert sorted(written) == [["a", 1], ["b", 1]]
    assert batches(checkpoint) == (1, True)


def test_a_drain_behind_a_stop_fires_all_once(spark: SparkSession, tmp_path: Path) -> None:
    incoming, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    incoming.mkdir()
    runner = SparkRunner(spark, checkpoint=checkpoint)
    sink = CollectSink[Fired]()
    # A number of files in a batch, so that the drain begins with a run over what is there.
    events = from_source(JsonFileSource(incoming, Event, files_per_batch=1))
    pipeline = Pipeline("drained", on_objects(stamped(events)).sink_to(sink))
    files(spark, incoming)
    stop_behind_first_batch(runner, pipeline, checkpoint)
    assert sorted(runner.run(pipeline).collected(sink)) == [("a", 1), *WINDOWS]


def test_a_drained_run_without_keyed_steps_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    incoming = tmp_path / "in"
    incoming.mkdir()
    runner, sink = SparkRunner(spark, checkpoint=tmp_path / "checkpoint"), CollectSink[int]()
    pipeline = Pipeline(
        "plain", from_source(JsonFileSource(incoming, Event)).map(lambda event: event.value).sink_to(sink)
    )
    for number in (1, 2):
        put(incoming, number, [Event("a", 1_000, number)])
        assert runner.run(pipeline).collected(sink) == [number]


def test_a_query_of_the_users_fires_what_is_due(spark: SparkSession, tmp_path: Path) -> None:
    incoming, checkpoint, out = tmp_path / "in", tmp_path / "checkpoint", tmp_path / "out"
    incoming.mkdir()
    part = Checkpoint(checkpoint / "windrow", inside=True)

    def made() -> DataFrame:
        stream = on_objects(stamped(files(spark, incoming))).returns(Fired)
        return SparkRunner(spark, checkpoint=checkpoint).to_dataframe(stream, name="due")

    def run(frame: DataFrame, last: int) -> None:
        """Runs one batch, with this number, and stops before the next one is planned."""
        writer = frame.writeStream.format("parquet").option("path", str(out))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime=f"{A_YEAR} seconds").start()
        while not part.is_committed(last):
            assert not query.awaitTermination(0.05)  # type: ignore[arg-type]  # Spark takes fractions
        query.stop()
        assert part.last_planned() == last

    def available(frame: DataFrame) -> None:
        writer = frame.writeStream.format("parquet").option("path", str(out))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    first = made()
    run(first, 0)
    available(first)  # a frame of before: nobody has looked what is due
    assert part.last_planned() == 0
    run(made(), 1)
    assert sorted(map(tuple, spark.read.parquet(str(out)).collect())) == WINDOWS
    available(made())
    assert part.last_planned() == 1
