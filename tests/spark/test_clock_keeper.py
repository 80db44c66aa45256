"""The time of each batch, without Spark: what a batch finds that is run again, or runs for the first time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.spark.memory_files import MemoryFiles, folder_in
from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import CheckpointError, InvalidArgumentError, UnsupportedOperationError, WindrowError
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.watermarks import WatermarkGenerator, WatermarkOutput
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import Topology
from windrow_spark.checkpoint.storage import StoragePath
from windrow_spark.checkpoint.stored_file import BATCHES_KEPT
from windrow_spark.clock import BatchClock, ClockFiles, SeenTimestamps
from windrow_spark.clock_keeper import ClockKeeper
from windrow_spark.storage.values import StateCodec


class EverySecond(WatermarkGenerator[int]):
    """Emits the time of every second element: to see one twice shows."""

    def __init__(self) -> None:
        self.seen = 0
        self.held: Any = None

    def on_event(self, element: int, timestamp: int, output: WatermarkOutput) -> None:
        self.seen += 1
        if self.seen % 2 == 0:
            output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emits from on_event alone."""


class HoldsALock(EverySecond):
    def on_event(self, element: int, timestamp: int, output: WatermarkOutput) -> None:
        self.held = open


def timed(strategy: WatermarkStrategy[int]) -> DataStream[int]:
    return from_source(CollectionSource([1])).assign_timestamps_and_watermarks(strategy, timestamp=lambda each: each)


def topology_of(stream: DataStream[int]) -> Topology:
    windows = stream.key_by(lambda element: 1).window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    return Topology(Pipeline("clock", windows.reduce(max).sink_to(CollectSink[int]())).steps)


def topology(generator: type[EverySecond] = EverySecond) -> Topology:
    return topology_of(timed(WatermarkStrategy.for_generator(generator)))


PLAN = topology()
(STAMPER,) = (step.id for step in PLAN.timestamps)
(WINDOW,) = (step.id for step in PLAN.keyed)


def keeper(folder: StoragePath, plan: Topology = PLAN) -> ClockKeeper:
    return ClockKeeper(ClockFiles(folder), plan, None, StateCodec())


def seen(*times: int) -> list[SeenTimestamps]:
    return [SeenTimestamps(STAMPER, list(times), list(times))]


def test_a_batch_that_is_run_again_finds_its_time(tmp_path: Path) -> None:
    # batch            0         1         2
    # elements         5  7      9         11  13
    # watermark   -         7         7         11
    first = keeper(tmp_path)
    first.end_batch(0, seen(5, 7), ended=False)
    first.end_batch(1, seen(9), ended=False)
    # Killed behind the file of batch 2, before Spark noted that batch 1 is done.
    again = keeper(tmp_path)
    files = ClockFiles(tmp_path)
    before = files.read(1), files.read(2)
    assert before[0].watermarks[WINDOW] == 7
    again.end_batch(1, seen(9), ended=False)
    assert (files.read(1), files.read(2)) == before
    again.end_batch(2, seen(11, 13), ended=False)
    assert files.read(3).watermarks[WINDOW] == 11
    assert files.read(3).previous[WINDOW] == 7
    assert not files.read(3).settled
    again.end_batch(3, [], ended=True)
    again.end_batch(4, [], ended=False)
    assert files.read(5).watermarks[WINDOW] == MAX_TIMESTAMP
    assert files.read(5).settled
    # The files of all batches of which Spark keeps notes are there.
    files.write(BATCHES_KEPT + 1, files.read(5))
    files.write(BATCHES_KEPT + 5, files.read(5))
    assert [batch for batch in range(BATCHES_KEPT) if files.exists(batch)] == [2, 3, 4]


def test_the_time_of_a_batch_that_another_run_has_written_stays() -> None:
    files = MemoryFiles()
    folder = folder_in(files)

    def meanwhile(url: str) -> None:
        files.before_read = lambda url: None
        keeper(folder).end_batch(0, seen(7, 9), ended=False)

    files.before_read = meanwhile
    with pytest.raises(CheckpointError, match="another run uses the checkpoint"):
        keeper(folder).end_batch(0, seen(5, 6), ended=False)
    assert ClockFiles(folder).read(1).watermarks[WINDOW] == 9


@pytest.mark.parametrize("may_grow", [False, True])
def test_a_source_that_has_ended_holds_nothing_back_across_restarts(tmp_path: Path, may_grow: bool) -> None:
    # batch        0     1     2  |  3     4       5
    # busy         10    20    30 |  -     50      60
    # short        5     -     -  |  -     -       55        more than there was in the run before
    # watermark       4     19    |  29    29      49   54
    monotonous = WatermarkStrategy[int].for_monotonous_timestamps()
    plan = topology_of(timed(monotonous).union(timed(monotonous)))
    (busy, short), (first, second) = ([step.id for step in steps] for steps in (plan.sources, plan.timestamps))
    (window,) = (step.id for step in plan.keyed)
    files = ClockFiles(tmp_path)

    def run(planned: int) -> ClockKeeper:
        ending = {busy: may_grow, short: may_grow}
        return ClockKeeper(files, plan, None, StateCodec(), ending=ending, planned=planned)

    def end(keeper: ClockKeeper, batch: int, busy_at: int | None, short_at: int | None) -> int:
        times = ((busy, first, busy_at), (short, second, short_at))
        reports = [SeenTimestamps(step, [time], [time]) for _, step, time in times if time is not None]
        read = {source for source, _, time in times if time is not None}
        keeper.end_batch(batch, reports, read=read, ended=False)
        return files.read(batch + 1).watermarks[window]

    begun = run(-1)
    batches: list[tuple[int | None, int | None]] = [(10, 5), (20, None), (30, None)]
    assert [end(begun, number, *times) for number, times in enumerate(batches)] == [4, 19, 29]
    again = run(3)
    # The run before has planned batch 3: it tells nothing of the busy source. In the last batch all of them are at
    # their end, and the stream is not.
    batches = [(None, None), (50, None), (60, 55), (None, None)]
    assert [end(again, number, *times) for number, times in enumerate(batches, start=3)] == [29, 49, 54, 54]


def test_what_failed_has_not_seen_elements(tmp_path: Path) -> None:
    known = keeper(tmp_path)
    known.end_batch(0, seen(5), ended=False)
    with pytest.raises(KeyError):
        known.end_batch(1, [*seen(7), SeenTimestamps("nobody", [1], [1])], ended=False)
    known.end_batch(1, seen(7), ended=False)
    assert ClockFiles(tmp_path).read(2).watermarks[WINDOW] == 7


def test_a_step_that_is_new_at_a_restart_has_no_time_yet(tmp_path: Path) -> None:
    files = ClockFiles(tmp_path)
    keeper(tmp_path).end_batch(0, seen(5, 7), ended=False)
    told = files.read(1)
    files.write(1, replace(told, watermarks={"other": 9}, previous={"other": 8}))
    keeper(tmp_path).end_batch(1, seen(1), ended=False)
    assert files.read(2).previous[WINDOW] == MIN_TIMESTAMP
    assert files.read(2).watermarks[WINDOW] == 7


@pytest.mark.parametrize("time", [1.5, 2**63, "now", True, None])
def test_a_clock_that_gives_no_time_is_told(tmp_path: Path, time: Any) -> None:
    files = ClockFiles(tmp_path)
    with pytest.raises(InvalidArgumentError, match="a timestamp") as caught:
        ClockKeeper(files, PLAN, lambda: time, StateCodec()).begin()
    assert caught.value.where == "the clock that the runner was given"
    assert not files.exists(0)
    numbers = Pipeline("numbers", from_collection([1]).sink_to(CollectSink[int]()))
    with pytest.raises(InvalidArgumentError, match="the clock that the runner was given"):
        LocalRunner(clock=lambda: time).run(numbers)


class Halves(EverySecond):
    def on_event(self, element: int, timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(timestamp / 2)  # type: ignore[arg-type]  # as a user may do


@pytest.mark.parametrize(
    ("generator", "error", "told"),
    [
        (HoldsALock, UnsupportedOperationError, "is to be stored"),
        (Halves, InvalidArgumentError, "a watermark has the wrong type"),
    ],
)
def test_what_a_generator_may_not_do_is_told(
    tmp_path: Path, generator: type[EverySecond], error: type[WindrowError], told: str
) -> None:
    with pytest.raises(error, match=told) as caught:
        keeper(tmp_path, topology(generator)).end_batch(0, seen(1), ended=False)
    assert "test_clock_keeper.py:" in str(caught.value.where)
    assert not ClockFiles(tmp_path).exists(1)


@pytest.mark.parametrize("memory", ["x", [1], [1, False, None, "&&&"], [1, False, None, "gAVLAS4="]])
def test_a_damaged_memory_is_told(tmp_path: Path, memory: Any) -> None:
    ClockFiles(tmp_path).write(1, BatchClock({WINDOW: 1}, {WINDOW: 1}, trackers={STAMPER: memory}))
    with pytest.raises(CheckpointError, match="damaged"):
        keeper(tmp_path).end_batch(1, [], ended=False)
