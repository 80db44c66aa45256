"""How a running pipeline ends: stopped behind a batch, broken off, or drained."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.comparison import Event, Outputs, Seen, millis
from tests.spark.test_clock import BothTimers
from tests.spark.timed import timed
from tests.support.files import put
from tests.support.thorough import thorough
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import IncompatibleStateError, UnsupportedOperationError
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import CollectionSource, JsonFileSource
from windrow.windows import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import RunningPipeline, SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.run.gate import BatchGate
from windrow_spark.session import QUERY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.classic(reason="sinks tell this process what they see")

NUMBERS = list(range(12))
late = OutputTag("late", Event)


def totals(write: Callable[[int, Sequence[tuple[int, int]]], object]) -> Pipeline:
    """The sum so far of the even and of the odd numbers; four numbers a batch."""
    numbers = from_source(CollectionSource(NUMBERS, batch_size=4))
    sums = numbers.key_by(lambda number: number % 2).sum(lambda number: number)
    return Pipeline("totals", sums.sink_to(FunctionSink(write)))


ALL = [*[(0, 0), (0, 2), (0, 1), (0, 4)], *[(1, 6), (1, 12), (1, 9), (1, 16)], *[(2, 20), (2, 30), (2, 25), (2, 36)]]


def test_a_stop_finishes_the_batch_under_way_and_begins_no_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # batch 0   begins --------------- written, committed
    # stop               called                             waits until batch 1 is planned ------ ends
    # batch 1                                                                    planned, does nothing
    begun, closed = threading.Event(), threading.Event()
    found: list[tuple[int, int]] = []

    def write(batch: int, sums: Sequence[tuple[int, int]]) -> None:
        begun.set()
        assert closed.wait(60)
        found.extend((batch, total) for _, total in sums)

    close, is_committed = BatchGate.close, Checkpoint.is_committed

    def closing(gate: BatchGate, planned: Callable[[], int]) -> int:
        last = close(gate, planned)
        closed.set()
        return last

    monkeypatch.setattr(BatchGate, "close", closing)
    monkeypatch.setattr(
        Checkpoint, "is_committed", lambda self, batch: is_committed(self, batch) and self.last_planned() > batch
    )
    running = SparkRunner(spark, checkpoint=tmp_path, partitions=1).start(totals(write))
    assert begun.wait(60)
    running.stop()
    monkeypatch.undo()

    assert not running.is_active
    assert running.streaming_query.exception() is None
    checkpoint = Checkpoint(tmp_path)
    assert (checkpoint.last_planned(), checkpoint.is_committed(0), checkpoint.is_committed(1)) == (1, True, False)
    assert sorted(found) == sorted(ALL[:4])
    again = totals(lambda batch, sums: found.extend((batch, total) for _, total in sums))
    SparkRunner(spark, checkpoint=tmp_path, partitions=1).run(again, drain=False)
    assert sorted(found) == sorted(ALL)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_a_sink_cannot_wait_for_its_own_batch(spark: SparkSession, tmp_path: Path) -> None:
    started: list[RunningPipeline] = []
    ready = threading.Event()

    def write(batch: int, numbers: Sequence[int]) -> None:
        assert ready.wait(60)
        started[0].stop()

    pipeline = Pipeline("waits", from_collection(NUMBERS).sink_to(FunctionSink(write)))
    started.append(SparkRunner(spark, checkpoint=tmp_path, partitions=1).start(pipeline))
    ready.set()
    with pytest.raises(UnsupportedOperationError, match=r"batch 0(.|\n)*threading\.Event"):
        started[0].await_termination(60)
    # And a stop of a pipeline that failed says so.
    with pytest.raises(UnsupportedOperationError, match="batch 0"):
        started[0].stop()


def deliver(folder: Path, number: int) -> None:
    """Another file, 100 ms on from the one before, its last element 40 ms out of order."""
    events = [Event("ab"[place % 2], number * 100 + at, place) for place, at in enumerate((0, 30, 60, 90, -40))]
    put(folder, number, events, second=number)


def add_windows(outputs: Outputs, events: DataStream[Event]) -> None:
    windows = (
        timed(events, 50)
        .key_by(lambda event: event.key)
        .window(TumblingEventTimeWindows.of(millis(250)))
        .side_output_late_data(late)
        .process(Seen())
    )
    outputs.add("windows", windows.map(lambda seen: (seen[0], seen[1], seen[3])))
    outputs.add("late", windows.get_side_output(late))


@pytest.mark.parametrize("by_clock", [thorough(False, reason="test_exhausted_sources.py drains by event time"), True])
def test_a_drain_ends_a_stream_that_goes_on(spark: SparkSession, tmp_path: Path, by_clock: bool) -> None:
    # batch   0    1    ...   reads the end   behind the end
    # files   1    1    ...         1         1, which is left where it is
    folder = tmp_path / "in"
    folder.mkdir()
    delivered = 0
    several = threading.Event()

    def deliver_more(batch: int, elements: Sequence[Event]) -> None:
        nonlocal delivered
        for _ in range(2):
            deliver(folder, delivered)
            delivered += 1
        if batch == 2:
            several.set()

    deliver_more(-1, ())
    outputs = Outputs()
    events = from_source(JsonFileSource(folder, Event, files_per_batch=1))
    add_windows(outputs, events)
    outputs.add("taken", events)
    if by_clock:
        timers = events.map(lambda event: (event.key, event.at)).key_by(lambda event: event[0])
        outputs.add("timers", timers.process(BothTimers()).map(lambda line: (line[0], line)))
    pipeline = outputs.pipeline("endless", events.sink_to(FunctionSink(deliver_more)))
    running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1).start(pipeline)
    assert several.wait(120)
    result = running.drain()

    assert not running.is_active
    assert running.await_termination(1)
    taken = result.collected(outputs.sinks["taken"])
    assert 15 <= len(taken) < 5 * delivered
    again = Outputs()
    add_windows(again, from_collection(taken))
    expected = again.of(LocalRunner().run(again.pipeline("again")))
    found = outputs.of(result)
    assert {name: found[name] for name in expected} == expected
    assert expected["windows"]
    assert not expected["late"]
    assert not any("late" in name for counters in result.counters.values() for name in counters)
    with pytest.raises(IncompatibleStateError, match="was drained"):
        SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1).start(pipeline)


def test_a_restart_by_the_clock_needs_no_element_to_wake_it(spark: SparkSession, tmp_path: Path) -> None:
    # clock     100            |  20_000
    # elements  12             |  none
    # window    [0, 10_000)    |  fires
    begun = threading.Event()

    def pipeline() -> tuple[Pipeline, CollectSink[int]]:
        sums = CollectSink[int]()
        numbers = from_collection(NUMBERS)
        windows = numbers.window_all(TumblingProcessingTimeWindows.of(millis(10_000))).reduce(lambda a, b: a + b)
        ends = windows.sink_to(sums), numbers.sink_to(FunctionSink(lambda batch, elements: begun.set()))
        return Pipeline("wake", *ends), sums

    first, sums = pipeline()
    # The next batch would begin in an hour, so nothing is planned when the first one has ended.
    running = SparkRunner(spark, checkpoint=tmp_path, partitions=1, clock=lambda: 100).start(
        first, interval_seconds=3600
    )
    assert begun.wait(60)
    assert running.stop().collected(sums) == []
    again, sums = pipeline()
    result = SparkRunner(spark, checkpoint=tmp_path, partitions=1, clock=lambda: 20_000).run(again, drain=False)
    assert result.collected(sums) == [sum(NUMBERS)]


def test_restarts_without_elements_leave_no_files_behind(spark: SparkSession, tmp_path: Path) -> None:
    def run() -> None:
        sums = from_collection(NUMBERS).key_by(lambda number: number % 2).reduce(lambda a, b: a + b)
        SparkRunner(spark, checkpoint=tmp_path, partitions=1).run(
            Pipeline("idle", sums.sink_to(CollectSink[int]())), drain=False
        )

    def names() -> list[str]:
        return [file.name for file in (tmp_path / "control").iterdir() if not file.name.startswith(".")]

    run()
    run()
    before = len(names())
    run()
    assert len(names()) == before <= 1


def test_a_drain_that_died_behind_the_end_still_fires_all(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # batch   0           1                 2
    #         elements    reads the end     fires what is open
    # run     the first dies here ----->    the second
    def pipeline() -> tuple[Pipeline, CollectSink[int]]:
        sums = CollectSink[int]()
        windows = (
            from_collection(NUMBERS)
            .assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks(), timestamp=lambda number: number)
            .window_all(TumblingEventTimeWindows.of(millis(100)))
        )
        return Pipeline("died", windows.reduce(lambda a, b: a + b).sink_to(sums)), sums

    died = SystemExit("killed behind the batch that read the end")

    def dies(checkpoint: Checkpoint) -> bool:
        end = checkpoint.ending_batch()
        if end >= 0 and checkpoint.is_committed(end):
            raise died
        return False

    # No batch is begun behind the end, as if the process were gone.
    monkeypatch.setitem(QUERY, "spark.sql.streaming.noDataMicroBatches.enabled", "false")
    monkeypatch.setattr(Checkpoint, "has_fired_all", dies)
    first, sums = pipeline()
    with pytest.raises(SystemExit, match="killed"):
        SparkRunner(spark, checkpoint=tmp_path, partitions=1).run(first)
    monkeypatch.undo()
    end = Checkpoint(tmp_path).ending_batch()
    assert end >= 0
    assert Checkpoint(tmp_path).last_planned() == end
    again, sums = pipeline()
    assert SparkRunner(spark, checkpoint=tmp_path, partitions=1).run(again).collected(sums) == [sum(NUMBERS)]
    assert (tmp_path / "drained").exists()
