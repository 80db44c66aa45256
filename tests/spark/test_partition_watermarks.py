"""The watermark of a step that reads a source with partitions, on Spark: as the interpreter makes it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.budget import for_a_night
from tests.custom_sources import Entry
from tests.partitioned import (
    MONOTONOUS,
    OWN,
    Count,
    Dealt,
    counted,
    hour_of,
    hourly,
    logs,
    put,
    random_case,
    write_hours,
)
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.connectors import CustomSource
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, WindrowError
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import JsonFileSource
from windrow.time import MIN_TIMESTAMP
from windrow.watermarks import WatermarkGenerator, WatermarkOutput
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.inputs.batches import OpenPartitions
from windrow_runtime.inputs.partitions import partitioned_sources
from windrow_runtime.inputs.reader import reader_for
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import Port, Topology, source_of
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.clock import Alignment, BatchClock, ClockFiles, SeenTimestamps
from windrow_spark.clock_keeper import ClockKeeper
from windrow_spark.connectors.custom import CustomScanner
from windrow_spark.exchange.fragment import PortFragment
from windrow_spark.sources.ranges import _StreamReader
from windrow_spark.storage.values import StateCodec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: options of runners.
Take = Callable[[int, Sequence[Entry]], None]


class EverySecond(WatermarkGenerator[object]):
    """Emits a watermark at every second element of a partition."""

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, element: object, timestamp: int, output: WatermarkOutput) -> None:
        self.seen += 1
        if self.seen % 2 == 0:
            output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emits from on_event alone."""


# The stored time, without Spark


def keeper(folder: Path, plan: Pipeline) -> tuple[ClockKeeper, ClockFiles, str, str, str]:
    topology = Topology(plan.steps)
    files = ClockFiles(folder / "clock")
    made = ClockKeeper(files, topology, lambda: 7, StateCodec(), partitioned=partitioned_sources(topology))
    made.begin()
    ((source,), (stamper,), (window,)) = (topology.sources, topology.timestamps, topology.keyed)
    return made, files, source.id, stamper.id, window.id


@pytest.mark.parametrize("strategy", [MONOTONOUS, OWN])
def test_partitions_are_stored_with_the_batch(tmp_path: Path, strategy: WatermarkStrategy[object]) -> None:
    # batch        0     1     2  |  2     3        killed behind the file of batch 3; "c" is found in batch 2
    # a            10    20    -     -     40
    # b            5     15    25    25    -
    # c            -     -     -     -     27
    # watermark       4     14    14          24
    plan, _ = counted(logs(tmp_path), strategy)
    first, files, source, stamper, window = keeper(tmp_path, plan)

    def end(keeper: ClockKeeper, batch: int, open_: list[str], **times: int) -> int:
        seen = [SeenTimestamps(stamper, [None], [time], name) for name, time in times.items()]
        # Two tasks tell of partitions, as workers do that read files.
        told = [(source, OpenPartitions(open_[:1])), (source, OpenPartitions(open_[1:]))]
        keeper.end_batch(batch, seen, ended=False, read={source}, open_partitions=told)
        return files.read(batch + 1).watermarks[window]

    assert end(first, 0, ["a", "b"], a=10, b=5) == 4
    assert end(first, 1, ["a", "b"], a=20, b=15) == 14
    assert end(first, 2, ["a", "b", "c"], b=25) == 14
    stored = files.read(3)
    assert {name: note[0] for name, note in stored.partitions[stamper].items()} == {
        "a": 19,
        "b": 24,
        "c": MIN_TIMESTAMP,
    }
    again = keeper(tmp_path, plan)[0]
    assert end(again, 2, ["a", "b", "c"], b=25) == 14
    assert files.read(3) == stored
    assert end(again, 3, ["a", "b", "c"], a=40, c=27) == 24
    # What runs again without its file makes the same of it.
    files.file(3).path.unlink()
    assert end(keeper(tmp_path, plan)[0], 2, ["a", "b", "c"], b=25) == 14
    assert files.read(3) == stored


def test_names_of_steps_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    note = (5, False, None, "")
    clock = BatchClock(partitions={"p.2.t": {"a": note}}, released={"p.2.t": 3})
    assert clock.renamed({"p.2.t": "#t"}) == BatchClock(partitions={"#t": {"a": note}}, released={"#t": 3})


def test_a_time_without_partitions_goes_on(tmp_path: Path) -> None:
    """An earlier version has stored one tracker for all partitions; its watermark never falls."""
    plan, _ = counted(logs(tmp_path), OWN)
    made, files, source, stamper, window = keeper(tmp_path, plan)
    plain = ClockKeeper(files, Topology(plan.steps), None, StateCodec())
    plain.end_batch(0, [SeenTimestamps(stamper, [None], [100])], ended=False)
    old = files.read(1)
    assert (old.watermarks[window], old.partitions) == (99, {})
    seen = [SeenTimestamps(stamper, [None], [time], name) for name, time in (("a", 500), ("b", 50))]
    made.end_batch(1, seen, ended=False, open_partitions=[(source, OpenPartitions(["a", "b"]))])
    assert files.read(2).watermarks[window] == 99
    made.end_batch(2, [SeenTimestamps(stamper, [None], [300], "b")], ended=False)
    assert files.read(3).watermarks[window] == 299


def test_elements_in_columns_are_of_the_partition_that_was_begun(tmp_path: Path) -> None:
    """A step that columns alone pass has nothing to collect with before its first element."""
    topology = Topology(counted(logs(tmp_path))[0].steps)
    ((source,), (stamper,), (window,)) = (topology.sources, topology.timestamps, topology.keyed)
    fragment = PortFragment(topology, Port(source.id), ClockFiles(tmp_path), frozenset({window.id}))
    for name, time in (("a", 5), ("a", 9), ("b", 7)):
        fragment.begin_partition(name)
        fragment.observe(stamper.id, time)
    seen = [SeenTimestamps(stamper.id, [None], [time], name) for name, time in (("a", 9), ("b", 7))]
    assert fragment.take_timestamps() == seen
    assert fragment.take_timestamps() == []


def test_a_batch_that_runs_again_tells_only_what_this_run_reads(tmp_path: Path) -> None:
    """Spark asks for what there is before it asks for the batch that an earlier run has planned."""
    folder = put(tmp_path / "logs", a=[1, 2])
    plan, _ = counted(logs(folder, bounded=False), MONOTONOUS.with_watermark_alignment("logs", timedelta(seconds=1)))
    (step,) = Topology(plan.steps).sources
    source = source_of(step)
    assert isinstance(source, CustomSource)
    alignment = Alignment(ClockFiles(tmp_path / "clock"), step.id, {}, {})
    reader = _StreamReader(reader_for(source, step).as_part(0), marks_partitions=True, alignment=alignment)
    reader.prepareForTriggerAvailableNow()
    put(folder, a=[3])
    ((partition,),) = reader.read(reader.partitions({}, {"a": [0, 2]})[0])
    assert json.loads(partition) == ["a", 0, 2, None, [["a"], []]]


# On Spark


def test_partitions_and_files_far_behind_others_lose_nothing(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "logs", a=[3600, 3601, 3612], b=[0, 1, 12])
    plans = [counted(logs(tmp_path / "logs"), strategy) for strategy in (MONOTONOUS, OWN)]
    for size, writers in ((3, 3), (2, 1)):
        random = Random(size)
        files = write_hours(tmp_path / f"{size}", writers=writers, hours=3, random=random)
        files.shuffle(random)
        plans.append(hourly(files, size, hour_of if writers > 1 else "name", name=f"{writers} writers"))
    pipeline = Pipeline("both", *(sink for plan, _ in plans for sink in plan.sinks))

    def run(runner: LocalRunner | SparkRunner) -> list[tuple[list[Count], list[Entry]]]:
        result = runner.run(pipeline)
        return [outputs.of(result) for _, outputs in plans]

    expected = run(LocalRunner())
    assert all(counts and not late for counts, late in expected)
    for columnar in for_a_night((True, False), (True,)):
        assert run(SparkRunner(spark, columnar=columnar)) == expected


def test_partitions_that_come_later_and_runs_that_go_on(spark: SparkSession, tmp_path: Path) -> None:
    folder = put(tmp_path / "logs", a=[1, 21], b=[2, 22])
    plan, outputs = counted(logs(folder, bounded=False, lines=1))

    def run() -> tuple[list[Count], list[Entry]]:
        return outputs.of(SparkRunner(spark, checkpoint=tmp_path / "checkpoint").run(plan, drain=False))

    assert run() == ([("a", 10_000, 1), ("b", 10_000, 1)], [])
    # "c" holds the watermark as soon as it is found, even without a line.
    put(folder, a=[31], b=[32], c=[])
    assert run() == ([], [])
    put(folder, c=[23, 35])
    assert run() == ([("a", 30_000, 1), ("b", 30_000, 1), ("c", 30_000, 1)], [])


@pytest.mark.classic(reason="the test sees what the driver gets")
def test_generators_of_partitions_run_in_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go on from batch to batch, and in another run; the driver gets their state, and no element."""
    reports: list[SeenTimestamps] = []
    end_batch = ClockKeeper.end_batch

    def ending(keeper: ClockKeeper, batch: int, seen: Iterable[SeenTimestamps], **facts: Any) -> None:
        seen = list(seen)
        reports.extend(seen)
        end_batch(keeper, batch, seen, **facts)

    monkeypatch.setattr(ClockKeeper, "end_batch", ending)
    folder = put(tmp_path / "logs", a=[1, 2, 11, 12, 13, 21], b=[3, 4, 15, 16, 27, 28])
    plan, outputs = counted(logs(folder, bounded=False, lines=1), WatermarkStrategy.for_generator(EverySecond))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)
    expected = outputs.of(LocalRunner().run(plan, drain=False))
    assert expected[0]
    assert outputs.of(runner.run(plan, drain=False)) == expected
    assert {(report.partition, len(report.values)) for report in reports} == {("a", 0), ("b", 0)}
    assert len(reports) == 12
    put(folder, a=[33], b=[34])
    after = outputs.of(runner.run(plan, drain=False))
    # Each partition has seven elements now: an odd number, so that no watermark follows.
    assert after == ([], [])


@pytest.mark.classic(reason="with Spark Connect each source counts as one with several partitions")
def test_a_checkpoint_that_left_the_watermark_to_spark_goes_on_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path / "logs", a=[1, 11, 21], b=[2, 3])
    plan, outputs = counted(logs(folder, bounded=False))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    with monkeypatch.context() as patch:  # as an earlier version began it
        patch.setattr(CustomScanner, "has_several_partitions", False)
        first = outputs.of(runner.run(plan, drain=False))
    stored = Checkpoint(tmp_path / "checkpoint").description()
    assert stored is not None
    assert stored.time == "event time"
    assert first == ([("a", 10_000, 1), ("a", 20_000, 1), ("b", 10_000, 2)], [])
    put(folder, a=[31], b=[4])
    assert outputs.of(runner.run(plan, drain=False)) == ([("a", 30_000, 1)], [Entry("b", 4)])


@pytest.mark.classic(reason="the function writes files of this process")
def test_a_batch_with_fewer_files_shows_that_none_waits(spark: SparkSession, tmp_path: Path) -> None:
    """Spark keeps the files that it has listed: before a batch would have fewer, it looks for those that came since."""
    folder = put(tmp_path / "files")
    batches: list[list[int]] = []

    def write(*seconds: int) -> None:
        for second in seconds:
            file = folder / f"{second}.json"
            file.write_text(f'{{"log": "x", "second": {second}}}\n')
            os.utime(file, (10**9 + second,) * 2)

    def take(batch: int, entries: Sequence[Entry]) -> None:
        batches.append([entry.second for entry in entries])
        if batch == 0:
            write(8, 9)

    write(*range(8))
    source = from_source(JsonFileSource(folder, Entry, files_per_batch=3))
    running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(
        Pipeline("files", source.sink_to(FunctionSink(take)))
    )
    running.process_available()
    running.stop()
    assert batches == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


@pytest.mark.classic(reason="the function takes what the sink gets into a list of this process")
def test_partitions_that_are_ahead_wait_for_the_others_of_their_group(spark: SparkSession, tmp_path: Path) -> None:
    one = put(tmp_path / "one", a=[0, 100, 200], c=[0, 40])
    other = put(tmp_path / "other", b=[0, 20, 40, 60, 150])
    found: dict[int, list[str]] = {}

    def take(batch: int, entries: Sequence[Entry]) -> None:
        found[batch] = sorted(f"{entry.log}{entry.second}" for entry in entries)

    def run(runner: LocalRunner | SparkRunner) -> tuple[list[list[str]], list[Count]]:
        found.clear()
        pipeline, counts = aligned(*(logs(folder, lines=1) for folder in (one, other)), take=take)
        result = runner.run(pipeline)
        return [found[batch] for batch in sorted(found)], sorted(result.collected(counts))

    expected = run(LocalRunner())
    assert expected[0] == [["a0", "b0", "c0"], ["a100", "b20", "c40"], ["b40"], ["b60"], ["a200", "b150"]]
    for columnar in for_a_night((True, False), (True,)):
        assert run(SparkRunner(spark, columnar=columnar)) == expected


@dataclass(frozen=True)
class Stopping(Dealt):
    """Deals lists of seconds; the last partition goes on to its third as long as no file in a folder stops it."""

    folder: Path

    def partitions(self) -> list[str]:
        names = super().partitions()
        return names[:-1] if (self.folder / "gone").exists() else names

    def next_offset(self, partition: str, start: int, latest: int) -> int:
        if partition == super().partitions()[-1] and start == 2:
            if (self.folder / "away").exists():
                raise ConnectionError("the service is away")
            if (self.folder / "stands").exists():
                return start
        return super().next_offset(partition, start, latest)


def ahead_and_behind(folder: Path) -> tuple[Pipeline, CollectSink[Count]]:
    """Reads two partitions of a source."""
    return aligned(from_source(Stopping(((0, 100, 200, 300), (0, 10, 20)), (1, 1), True, folder)))


def aligned(*streams: DataStream[Entry], take: Take | None = None) -> tuple[Pipeline, CollectSink[Count]]:
    """Counts what streams have together, in windows of 100 s; none is more than 50 s ahead. A function gets it, too."""
    strategy = MONOTONOUS.with_watermark_alignment("all", timedelta(seconds=50))
    first, *others = (
        stream.assign_timestamps_and_watermarks(strategy, timestamp=lambda entry: entry.second * 1000)
        for stream in streams
    )
    united = first.union(*others)
    windows = united.key_by(lambda entry: entry.log).window(TumblingEventTimeWindows.of(timedelta(seconds=100)))
    counts = CollectSink[Count]()
    ends = [windows.aggregate(agg.into(Count, agg.key(), agg.window_end(), agg.count())).sink_to(counts)]
    if take is not None:
        ends.append(united.sink_to(FunctionSink(take)))
    return Pipeline("aligned", *ends), counts


def test_an_alignment_without_keyed_steps_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    strategy = MONOTONOUS.with_watermark_alignment("logs", timedelta(seconds=1))
    timed = logs(put(tmp_path / "logs", a=[1])).assign_timestamps_and_watermarks(
        strategy, timestamp=lambda entry: entry.second * 1000
    )
    with pytest.raises(UnsupportedOperationError, match=r"keyed step(.|\n)*where: +no keys\."):
        SparkRunner(spark).run(Pipeline("no keys", timed.sink_to(CollectSink[Entry]())))


def test_partitions_that_wait_for_one_that_stands_still_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """The end is refused then, and no run succeeds that has left elements."""
    (tmp_path / "stands").touch()
    plan, _ = ahead_and_behind(tmp_path)
    runners: list[LocalRunner | SparkRunner] = [LocalRunner(), *for_a_night([SparkRunner(spark)], [])]
    for runner in runners:
        with pytest.raises(InvalidArgumentError, match="a source that is read to its end moves on"):
            runner.run(plan, drain=False)


def test_partitions_that_wait_for_one_that_goes_away_are_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "away").touch()
    plan, counts = ahead_and_behind(tmp_path)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    with pytest.raises(WindrowError, match="the service is away"):
        runner.run(plan, drain=False)
    (tmp_path / "gone").touch()
    # Without a drain a bounded source that may grow still holds the other one.
    assert ("p0", 300_000, 1) in runner.run(plan, drain=False).collected(counts)


def test_a_source_that_waits_has_not_ended(spark: SparkSession, tmp_path: Path) -> None:
    # Batch     0     1     2     3        "a" waits in batch 2, and its time counts: 110 is not late.
    # a         0   100     -   110
    # b         0    10   400     -
    one, other = put(tmp_path / "one", a=[0, 100, 110]), put(tmp_path / "other", b=[0, 10, 400])
    plan, counts = aligned(logs(one, lines=1), logs(other, lines=1))
    runners: list[LocalRunner | SparkRunner] = [LocalRunner(), *for_a_night([SparkRunner(spark)], [])]
    for runner in runners:
        found = sorted(runner.run(plan).collected(counts))
        assert found == [("a", 100_000, 1), ("a", 200_000, 2), ("b", 100_000, 2), ("b", 500_000, 1)]


@pytest.mark.classic(reason="a clock of the test's is called in this process")
@pytest.mark.parametrize("seed", for_a_night(range(8), [1]))
def test_random_partitions_on_both_engines(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """So does the end of a bounded partition release the others, and the idleness of one that is silent."""
    random = Random(seed)
    cases = [random_case(random) for _ in range(for_a_night(5, 3))]
    plans = [counted(from_source(source), strategy) for source, strategy in cases]
    put(tmp_path / "logs", a=[1, 11, 21, 31], b=[2, 12])
    put(tmp_path / "silent", a=[1, 11, 21, 31], b=[])
    patient = MONOTONOUS.with_idleness(timedelta(milliseconds=250))
    released = [
        counted(logs(tmp_path / "logs", lines=1)),
        counted(logs(tmp_path / "silent", bounded=False, lines=1), patient),
    ]
    pipeline = Pipeline("random", *(sink for plan, _ in plans + released for sink in plan.sinks))

    def run(runner: LocalRunner | SparkRunner) -> list[tuple[list[Count], list[Entry]]]:
        result = runner.run(pipeline, drain=False)
        return [outputs.of(result) for _, outputs in plans + released]

    expected = run(LocalRunner(clock=count(0, 100).__next__))
    assert sum(len(counts) for counts, _ in expected[: len(plans)]) > 8
    assert all(counts and not late for counts, late in expected[len(plans) :])
    assert run(SparkRunner(spark, clock=count(0, 100).__next__, columnar=seed % 2 == 0)) == expected
