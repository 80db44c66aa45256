"""Watermarks that follow the clock in silence, on Spark: what the driver decides, stores and waits for."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.custom_sources import Logs
from tests.partitioned import counted
from tests.silence.drawn import Run, drawn
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import UnsupportedOperationError
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import CollectionSource, JsonFileSource
from windrow.time import now_millis
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.inputs.batches import OpenPartitions
from windrow_runtime.inputs.partitions import partitioned_sources
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import Topology
from windrow_runtime.replay import replay
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.asked import AskedSources
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_file import file_numbers
from windrow_spark.clock import ClockFiles, SeenTimestamps
from windrow_spark.clock_keeper import ClockKeeper
from windrow_spark.run.waker import Waker
from windrow_spark.storage.values import StateCodec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def silent(after: float, bound: float = 0.0) -> WatermarkStrategy[object]:
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=bound))
    return bounded.with_silence(after=timedelta(seconds=after))


@dataclass
class Driver:
    """Ends batches as the driver does, with a log of Spark's that says when each asked the sources, and what is new."""

    folder: Path
    plan: Topology
    interval: int = 1000

    def __post_init__(self) -> None:
        (self.folder / "spark" / "offsets").mkdir(parents=True, exist_ok=True)
        self.files = ClockFiles(self.folder / "clock")
        self.sources = [step.id for step in self.plan.sources]
        self.asked = AskedSources(self.folder / "spark", self.sources, interval=self.interval)
        self.keeper = self.started()
        (self.window,) = (step.id for step in self.plan.keyed)
        self.offsets = [0] * len(self.sources)

    def started(self, ending: Mapping[str, bool] = MappingProxyType({})) -> ClockKeeper:
        partitioned = partitioned_sources(self.plan)
        return ClockKeeper(
            self.files, self.plan, None, StateCodec(), ending=ending, partitioned=partitioned, asked=self.asked
        )

    def end(
        self,
        batch: int,
        at: int,
        *seen: SeenTimestamps,
        new: Sequence[int] = (),
        partitions: OpenPartitions | None = None,
        due: int | None = None,
    ) -> int:
        """Ends a batch that was planned at a time; returns the watermark of the next one."""
        for place in new:
            self.offsets[place] += 1
        lines = ["v1", json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": at, "conf": {}})]
        lines += [*map(json.dumps, self.offsets), json.dumps({"logOffset": batch})]
        (self.folder / "spark" / "offsets" / str(batch)).write_text("\n".join(lines))
        self.keeper.end_batch(
            batch,
            seen,
            ended=False,
            read=[self.sources[place] for place in new],
            open_partitions=() if partitions is None else [(self.sources[0], partitions)],
            due={} if due is None else {self.window: due},
        )
        return self.files.read(batch + 1).watermarks[self.window]


def two_sources(*strategies: WatermarkStrategy[object]) -> Topology:
    streams = [
        from_source(CollectionSource([1])).assign_timestamps_and_watermarks(each, timestamp=lambda element: element)
        for each in strategies
    ]
    windows = streams[0].union(*streams[1:]).key_by(lambda element: 1)
    sink = CollectSink[int]()
    counts = windows.window(TumblingEventTimeWindows.of(timedelta(seconds=1))).count()
    return Topology(Pipeline("silent", counts.sink_to(sink)).steps)


def test_the_driver_decides_by_what_batches_have_asked_and_stores_it(tmp_path: Path) -> None:
    # planned at        10.02    12.01    13.3     14.01     15.9
    # new in            both     first     -       second     -       an interval of one second begins at 15
    # first, after 2 s   4.999    4.999    4.999   13.999    14.999
    # second, after 3 s  7.999    7.999   12.999   12.999    12.999, and 16.999 at 17
    driver = Driver(tmp_path, two_sources(silent(2), silent(3)))
    first, second = (step.id for step in driver.plan.timestamps)
    begin = [SeenTimestamps(first, [None], [5_000]), SeenTimestamps(second, [None], [8_000])]
    assert driver.end(0, 10_020, *begin, new=[0, 1]) == 4_999
    # No element of the first source came so far, yet it had something new.
    assert driver.end(1, 12_010, new=[0]) == 4_999
    assert driver.end(2, 13_300) == 4_999
    driver.keeper = driver.started()
    assert driver.end(3, 14_010, SeenTimestamps(second, [None], [8_500]), new=[1]) == 12_999
    stored = driver.files.read(4)
    # Killed after that, the batch runs again and finds what it has decided, whatever the time is.
    driver.keeper = driver.started()
    driver.keeper.end_batch(3, [], ended=False)
    assert driver.files.read(4) == stored
    assert driver.end(4, 15_900) == 12_999
    assert driver.end(5, 17_000) == 16_999


def test_a_batch_that_runs_again_before_its_decision_takes_the_same(tmp_path: Path) -> None:
    driver, other = (Driver(tmp_path / name, two_sources(silent(2))) for name in ("one", "other"))
    (step,) = (step.id for step in driver.plan.timestamps)
    for each in (driver, other):
        each.end(0, 10_000, SeenTimestamps(step, [None], [5_000]), new=[0])
    # The machine is down for an hour; Spark's log has the time at which the batch was planned.
    other.keeper = other.started()
    assert driver.end(1, 12_000) == other.end(1, 12_000) == 11_999


def test_a_run_that_reads_what_there_is_has_asked_when_it_began(tmp_path: Path) -> None:
    """Its batches all read what the sources had then: what came meanwhile is left for the next run."""
    driver = Driver(tmp_path, two_sources(silent(2)))
    driver.asked.asked_once = 10_000
    (step,) = (step.id for step in driver.plan.timestamps)
    assert driver.end(0, 10_500, SeenTimestamps(step, [None], [5_000]), new=[0]) == 4_999
    assert driver.end(1, 3_600_000) == 4_999
    driver.asked.asked_once = 4_000_000
    assert driver.end(2, 4_000_500) == 3_999_999


def test_a_clock_that_is_set_back_begins_the_silence_anew(tmp_path: Path) -> None:
    driver = Driver(tmp_path, two_sources(silent(2)))
    (step,) = (step.id for step in driver.plan.timestamps)
    assert driver.end(0, 3_610_000, SeenTimestamps(step, [None], [5_000]), new=[0]) == 4_999
    assert [driver.end(1 + number, 10_000 + number * 1000) for number in range(3)] == [4_999, 4_999, 11_999]


@pytest.mark.parametrize(("interval", "at"), [(0, 12_245), (500, 12_245), (1000, 12_000), (5000, 10_000)])
def test_a_batch_has_asked_after_its_trigger_began(tmp_path: Path, interval: int, at: int) -> None:
    driver = Driver(tmp_path, two_sources(silent(2)), interval)
    driver.end(0, 12_345)
    assert driver.asked.at(0) == at
    assert driver.asked.with_news(0) == set(driver.sources)
    driver.end(1, 12_345)
    assert driver.asked.with_news(1) == set()


def test_a_stream_of_the_users_may_have_several_lines_in_the_log(tmp_path: Path) -> None:
    asked = AskedSources(tmp_path, ["files", "stream", "collection"], of_user=["stream"])

    def news(before: str, offsets: str) -> set[str]:
        (tmp_path / "offsets").mkdir(exist_ok=True)
        for number, read in enumerate((before, offsets)):
            (tmp_path / "offsets" / f"{number}").write_text("\n".join(["v1", "{}", *read, "control"]))
        return {*asked.with_news(1)}

    assert news("1234", "1235") == {"collection"}
    assert news("1234", "1244") == news("1234", "1334") == {"stream"}
    assert news("123", "124") == {"collection"}
    assert news("1234", "2235") == {"files", "collection"}
    # Two streams share what Spark reads, so nobody knows whose lines these are.
    asked.of_user = ["stream", "collection"]
    assert news("12", "12") == news("1234", "1234") == set()
    assert news("12", "13") == news("1234", "1235") == {*asked.sources}


def test_a_clock_that_is_handed_in_decides_alone(tmp_path: Path) -> None:
    driver = Driver(tmp_path, two_sources(silent(2)))
    times = iter((50_000, 51_000, 52_000, 53_000))
    driver.keeper = ClockKeeper(driver.files, driver.plan, times.__next__, StateCodec(), asked=driver.asked)
    driver.keeper.begin()
    (step,) = (step.id for step in driver.plan.timestamps)
    assert driver.end(0, 9_000_000, SeenTimestamps(step, [None], [5_000]), new=[0]) == 4_999
    assert driver.end(1, 9_001_000) == 4_999
    assert driver.end(2, 9_001_001) == 51_999
    assert not driver.keeper.is_by_machine


def test_each_partition_falls_silent_by_itself_unless_it_has_more(tmp_path: Path) -> None:
    stream = from_source(Logs(tmp_path, bounded=False))
    driver = Driver(tmp_path / "run", Topology(counted(stream, silent(2))[0].steps))
    (step,) = (step.id for step in driver.plan.timestamps)

    def open_ones(read: str, waiting: str = "") -> OpenPartitions:
        return OpenPartitions(["a", "b"], [*waiting], [*read])

    both = [SeenTimestamps(step, [None], [time], name) for name, time in (("a", 900), ("b", 500))]
    assert driver.end(0, 10_000, *both, new=[0], partitions=open_ones("ab")) == 499
    # Nothing of "b" passes the steps before, then "b" is left for later.
    assert driver.end(1, 13_000, both[0], new=[0], partitions=open_ones("ab")) == 499
    assert driver.end(2, 16_000, both[0], new=[0], partitions=open_ones("a", "b")) == 499
    driver.keeper = driver.started()
    assert driver.end(3, 17_000, both[0], new=[0], partitions=open_ones("a")) == 499
    assert driver.end(4, 18_000, both[0], new=[0], partitions=open_ones("a")) == 899
    assert driver.end(5, 19_000) == 899
    assert driver.end(6, 20_000) == 19_999


def test_a_batch_without_elements_begins_when_something_is_due_by_the_clock(tmp_path: Path) -> None:
    driver = Driver(tmp_path, two_sources(silent(2, bound=1), silent(3)))
    first, second = (step.id for step in driver.plan.timestamps)
    now = now_millis() // 1000 * 1000 + 3_600_000
    begin = [SeenTimestamps(first, [None], [now]), SeenTimestamps(second, [None], [now])]
    assert driver.end(0, now, *begin, new=[0, 1]) < now
    assert driver.keeper.wake_at is None, "nothing waits for the watermark"
    # The second is silent after three seconds; the first stays a second behind the clock.
    driver.end(1, now, new=[0, 1], due=now + 999)
    assert driver.keeper.wake_at == now + 3_000
    driver.end(2, now, new=[0, 1], due=now + 59_999)
    assert driver.keeper.wake_at == now + 61_000
    # Nothing was new, and the watermark came to what is due: the next batch fires it, at once.
    assert driver.end(3, now + 61_000, due=now + 59_999) == now + 59_999
    assert not driver.files.read(4).settled
    woken = driver.keeper.wake_at
    assert woken is not None
    assert woken <= now_millis()
    # A watermark that goes on with nothing due is no work.
    assert driver.end(4, now + 62_000) == now + 60_999
    assert driver.files.read(5).settled
    assert driver.keeper.wake_at is None


def test_what_the_clock_does_not_release_is_not_waited_for(tmp_path: Path) -> None:
    plan = two_sources(silent(2), WatermarkStrategy.for_monotonous_timestamps())
    driver = Driver(tmp_path, plan)
    first, second = (step.id for step in plan.timestamps)
    begin = [SeenTimestamps(first, [None], [5_000]), SeenTimestamps(second, [None], [5_000])]
    driver.end(0, 10_000, *begin, new=[0, 1], due=9_999)
    assert driver.keeper.wake_at is None


@dataclass
class Clock:
    """The clock of the driver, in milliseconds."""

    now: int


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(now_millis() // 1000 * 1000)
    monkeypatch.setattr("windrow_spark.clock_keeper.now_millis", lambda: clock.now)
    return clock


def woken_until_due(
    driver: Driver, clock: Clock, due: int, begin: int, partitions: OpenPartitions | None = None
) -> list[int]:
    """Ends batches without elements when the driver wakes; returns when that was, after a time."""
    woken: list[int] = []
    number = max(file_numbers(driver.files.folder))
    while driver.keeper.wake_at is not None and len(woken) < 9:
        clock.now = max(clock.now, driver.keeper.wake_at)
        woken.append(clock.now - begin)
        if driver.end(number, clock.now, partitions=partitions, due=due) >= due:
            return woken
        number += 1
    pytest.fail(f"it does not come; woken at {woken}, then {driver.keeper.wake_at}")


@pytest.mark.parametrize(
    ("idle", "after", "woken"), [(10, 60, [10_000, 60_000]), (60, 10, [10_000]), (10, 10, [10_000])]
)
def test_what_is_idle_is_silent_later(tmp_path: Path, clock: Clock, idle: int, after: int, woken: list[int]) -> None:
    driver = Driver(tmp_path, two_sources(silent(after).with_idleness(timedelta(seconds=idle))))
    (step,) = (step.id for step in driver.plan.timestamps)
    driver.end(0, clock.now, SeenTimestamps(step, [None], [clock.now]), new=[0], due=clock.now + 999)
    assert woken_until_due(driver, clock, clock.now + 999, clock.now) == woken


def test_when_all_are_idle_the_first_to_be_silent_counts(tmp_path: Path, clock: Clock) -> None:
    only_idle = WatermarkStrategy.for_monotonous_timestamps().with_idleness(timedelta(seconds=5))
    strategies = [silent(60).with_idleness(timedelta(seconds=3)), silent(30).with_idleness(timedelta(seconds=4))]
    driver = Driver(tmp_path, two_sources(*strategies, only_idle))
    begin = [SeenTimestamps(step.id, [None], [clock.now]) for step in driver.plan.timestamps]
    driver.end(0, clock.now, *begin, new=[0, 1, 2], due=clock.now + 999)
    assert woken_until_due(driver, clock, clock.now + 999, clock.now) == [5_000, 30_000]


@pytest.mark.parametrize(("second", "woken"), [(0, [3_000, 20_000]), (2_000, [5_000, 22_000])])
def test_partitions_that_are_idle_are_silent_later(tmp_path: Path, clock: Clock, second: int, woken: list[int]) -> None:
    """Those count that were active last, as for the watermark."""
    strategy = silent(20).with_idleness(timedelta(seconds=3))
    driver = Driver(tmp_path / "run", Topology(counted(from_source(Logs(tmp_path, bounded=False)), strategy)[0].steps))
    (step,) = (step.id for step in driver.plan.timestamps)
    begin = clock.now
    due = begin + 5_000
    both = [SeenTimestamps(step, [None], [begin], name) for name in "ab"]
    open_ones = [OpenPartitions(["a", "b"], read=read) for read in (["a", "b"], ["b"], [])]
    driver.end(0, begin, *both, new=[0], partitions=open_ones[0], due=due)
    if second:
        clock.now += second
        driver.end(1, clock.now, both[1], new=[0], partitions=open_ones[1], due=due)
    assert woken_until_due(driver, clock, due, begin, open_ones[2]) == woken


@pytest.mark.parametrize("may_grow", [False, True])
@pytest.mark.parametrize(
    "of_ended", [WatermarkStrategy.for_monotonous_timestamps(), WatermarkStrategy.no_watermarks(), silent(3600)]
)
def test_a_source_that_has_ended_is_not_waited_for(
    tmp_path: Path, clock: Clock, of_ended: WatermarkStrategy[object], may_grow: bool
) -> None:
    driver = Driver(tmp_path, two_sources(silent(2), of_ended))
    driver.keeper = driver.started({driver.sources[1]: may_grow})
    first, second = (step.id for step in driver.plan.timestamps)
    begin = [SeenTimestamps(first, [None], [clock.now]), SeenTimestamps(second, [None], [clock.now - 5_000])]
    driver.end(0, clock.now, *begin, new=[0, 1], due=clock.now + 999)
    # The batch that shows that it has ended comes at once.
    assert woken_until_due(driver, clock, clock.now + 999, clock.now) == [0, 2_000]


def test_a_waker_begins_a_batch_at_the_newest_time_and_once() -> None:
    woken: list[int] = []
    done = threading.Event()

    def wake() -> None:
        woken.append(now_millis())
        done.set()

    waker = Waker(wake)
    far, near = now_millis() + 3_600_000, now_millis() + 30
    waker.set(far)
    waker.set(near)
    assert done.wait(10)
    waker.close()
    waker.set(now_millis())
    assert len(woken) == 1
    assert woken[0] >= near


def test_lines_that_wake_a_query_are_deleted_when_they_are_read(tmp_path: Path) -> None:
    checkpoint = Checkpoint.at(tmp_path)
    checkpoint.control_folder.mkdir()
    for batch in range(20):
        checkpoint.wake_running(batch)
    numbers = sorted(int(line.name.split("-")[1]) for line in checkpoint.control_folder.glob("wake-*"))
    assert numbers == [16, 17, 18, 19, 20]


def test_a_batch_shows_that_there_are_no_more_files(tmp_path: Path) -> None:
    write(tmp_path, "first", Reading("a", 1))
    files = JsonFileSource(str(tmp_path), Reading, files_per_batch=2, files_in_order="name")
    timed = from_source(files).assign_timestamps_and_watermarks(silent(2), timestamp=lambda reading: reading.at)
    counts = timed.key_by(lambda reading: reading.sensor).window(TumblingEventTimeWindows.of(timedelta(seconds=2)))
    plan = Topology(Pipeline("files", counts.count().sink_to(CollectSink[int]())).steps)
    driver = Driver(tmp_path / "run", plan)
    (step,) = (each.id for each in plan.timestamps)
    seen = [SeenTimestamps(step, [None], [5_000], name) for name in ("first", "second")]
    both = OpenPartitions(["first", "second"], read=["first", "second"])
    driver.end(0, 10_000, *seen, new=[0], partitions=both, due=now_millis() + 3_600_000)
    assert driver.keeper.wake_at is not None
    assert driver.keeper.wake_at <= now_millis()
    driver.end(1, 11_000, due=now_millis() + 3_600_000)
    assert driver.keeper.wake_at is not None
    assert driver.keeper.wake_at > now_millis()


@dataclass
class _Ticks:
    """A second from call to call; the process that asks may be another one after a restart."""

    file: Path

    def __call__(self) -> int:
        calls = int(self.file.read_text()) if self.file.exists() else 0
        self.file.write_text(f"{calls + 1}")
        return calls * 1000


class Reading(NamedTuple):
    sensor: str
    at: int


class Count(NamedTuple):
    sensor: str
    end: int
    number: int


def write(folder: Path, name: str, *readings: Reading) -> None:
    hidden = folder.parent / f".{name}"
    hidden.write_text("".join(f"{json.dumps(each._asdict())}\n" for each in readings))
    hidden.rename(folder / f"{name}.json")


def sensors(
    folder: Path, strategy: WatermarkStrategy[object], panes: list[tuple[int, Count]], collected: CollectSink[Count]
) -> Pipeline:
    timed = from_source(JsonFileSource(str(folder), Reading)).assign_timestamps_and_watermarks(
        strategy, timestamp=lambda reading: reading.at
    )
    windows = timed.key_by(lambda reading: reading.sensor).window(TumblingEventTimeWindows.of(timedelta(seconds=2)))
    counts = windows.aggregate(agg.into(Count, agg.key(), agg.window_end(), agg.count()))

    def take(batch: int, counts: Sequence[Count]) -> None:
        panes.extend((batch, each) for each in counts)

    return Pipeline("sensors", counts.sink_to(FunctionSink(take)), counts.sink_to(collected))


def until(condition: object, seconds: float = 120.0) -> None:
    """Waits until a function returns something true."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def test_both_engines_decide_by_a_clock_that_is_handed_in(spark: SparkSession, tmp_path: Path) -> None:
    """A folder has a file for the first two batches alone, and holds the other one until it is silent."""
    for name, files in (("short", 2), ("long", 9)):
        (tmp_path / name).mkdir()
        for number in range(files):
            write(tmp_path / name, f"{number}", Reading(name, number * 1000), Reading(name, number * 1000 - 700))
    collected, late = CollectSink[Count](), CollectSink[Reading]()
    streams = [
        from_source(
            JsonFileSource(str(tmp_path / name), Reading, files_per_batch=1, files_in_order="name")
        ).assign_timestamps_and_watermarks(silent(after, bound=0.2), timestamp=lambda reading: reading.at)
        for name, after in (("short", 3), ("long", 60))
    ]
    tag = OutputTag("late", Reading)
    windows = streams[0].union(streams[1]).key_by(lambda reading: reading.sensor)
    counts = (
        windows.window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
        .side_output_late_data(tag)
        .aggregate(agg.into(Count, agg.key(), agg.window_end(), agg.count()))
    )
    pipeline = Pipeline("clocked", counts.sink_to(collected), counts.get_side_output(tag).sink_to(late))
    results = [
        runner.run(pipeline, drain=False)
        for runner in (
            LocalRunner(clock=count(0, 1000).__next__),
            SparkRunner(spark, clock=_Ticks(tmp_path / "ticks"), checkpoint=str(tmp_path / "checkpoint")),
        )
    ]
    panes = [sorted(result.collected(collected)) for result in results]
    assert panes[0] == panes[1]
    assert sorted(results[0].collected(late)) == sorted(results[1].collected(late))
    assert max(pane.end for pane in panes[0]) > 2000, "silence brings the watermark further"


def test_a_query_of_the_users_has_no_time_that_windrow_keeps(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = from_source(JsonFileSource(str(tmp_path / "in"), Reading)).assign_timestamps_and_watermarks(
        silent(1), timestamp=lambda reading: reading.at
    )
    counts = stream.key_by(lambda reading: reading.sensor).window(TumblingEventTimeWindows.of(timedelta(seconds=2)))
    with pytest.raises(UnsupportedOperationError, match="Spark writes to this sink by itself"):
        SparkRunner(spark, checkpoint=str(tmp_path / "query")).to_dataframe(counts.count())


def test_on_the_machines_clock_windows_come_and_no_batch_runs_after_them(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    panes: list[tuple[int, Count]] = []
    collected = CollectSink[Count]()
    pipeline = sensors(tmp_path / "in", silent(1, bound=0.5), panes, collected)
    runner = SparkRunner(spark, checkpoint=str(tmp_path / "checkpoint"))
    with runner.start(pipeline) as running:
        now = now_millis()
        write(tmp_path / "in", "first", Reading("a", now), Reading("b", now + 1))
        until(lambda: sum(each.number for _, each in panes) == 2)
        assert now_millis() >= max(each.end for _, each in panes) + 500
        # What is older than the watermark is late, and counted.
        write(tmp_path / "in", "second", Reading("a", now))
        until(lambda: any("late_records_dropped" in each for each in running.counters().values()))
        write(tmp_path / "in", "third", Reading("a", now_millis()))
        until(lambda: sum(each.number for _, each in panes) == 3)
        running.process_available()
        assert running.progress is not None
        before = running.progress.batch
        time.sleep(1.0)
        assert running.progress.batch == before, "a batch ran although nothing is due"
        write(tmp_path / "in", "fourth", Reading("c", last := now_millis()))
        until(lambda: running.progress is not None and running.progress.batch > before)
    # Another run goes on with the time of the last arrival.
    results = [running.stop()]
    with runner.start(pipeline) as again:
        until(lambda: sum(each.number for _, each in panes) == 4)
        results.append(again.stop())
    assert panes[-1][1] == Count("c", (last // 2000 + 1) * 2000, 1)
    replayed = replay(tmp_path / "checkpoint", pipeline)
    assert replayed.differences == replayed.compare(results, [collected]) == []
    assert sorted(replayed.collected(collected)) == sorted(each for _, each in panes)


@pytest.mark.thorough(reason="test_on_the_machines_clock in test_silence.py runs one such plan")
@pytest.mark.parametrize("seed", range(1, 21))
def test_random_plans_on_the_machines_clock(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    Run(drawn(seed), spark, tmp_path)()
