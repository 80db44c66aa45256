"""Draws plans whose sources fall silent, and runs them on Spark as users do: the machine's clock, starts and stops."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.connectors import CustomSource
from windrow.functions import ProcessWindowContext, ProcessWindowFunction
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import JsonFileSource
from windrow.time import now_millis
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows
from windrow_runtime.replay import replay
from windrow_runtime.spark import RunningPipeline, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Came", "Drawn", "Reading", "Run", "drawn"]

_PATIENCE_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.02
_SPARE_MILLIS: Final = 250
_POLLING_MILLIS: Final = 250  # how long Spark waits at interval 0 before it asks again
_OLD_MILLIS: Final = 60_000


class Reading(NamedTuple):
    sensor: str
    at: int


class Pane(NamedTuple):
    sensor: str
    end: int
    number: int


class _Counted(ProcessWindowFunction[Reading, Pane, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]) -> list[Pane]:
        return [Pane(key, context.window.end, len(elements))]


@dataclass(frozen=True)
class Logs(CustomSource[Reading, int]):
    """Reads the lines of logs, a partition each."""

    folder: Path

    @property
    def is_bounded(self) -> bool:
        return False

    def partitions(self) -> Sequence[str]:
        return [file.stem for file in self.folder.glob("*.log")]

    def initial_offset(self, partition: str) -> int:
        return 0

    def latest_offset(self, partition: str) -> int:
        return len((self.folder / f"{partition}.log").read_text().splitlines())

    def read(self, partition: str, start: int, end: int) -> Iterator[Reading]:
        lines = (self.folder / f"{partition}.log").read_text().splitlines()[start:end]
        return (Reading(*json.loads(line)) for line in lines)


class Came(NamedTuple):
    """A window that came although nothing followed its element: when, and when at the latest, by the clock."""

    end: int
    at: int
    latest: int


@dataclass(frozen=True)
class Drawn:
    """A plan, and the interval of its batches; times are in milliseconds."""

    seed: int
    bound: int
    after: int
    interval: int
    windows: str  # tumbling, sliding or sessions
    source: str  # files, partitions, or two sources of which one has nothing
    on_columns: bool
    graceful: bool  # whether the first run is stopped after a batch, and not within one

    def pipeline(self, folder: Path, take: Callable[[int, Sequence[Pane]], None], sink: CollectSink[Pane]) -> Pipeline:
        bounded = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=self.bound))
        strategy = bounded.with_silence(after=timedelta(milliseconds=self.after))

        def stamped(stream: DataStream[Reading]) -> DataStream[Reading]:
            return stream.assign_timestamps_and_watermarks(strategy, timestamp=lambda reading: reading.at)

        files = [from_source(JsonFileSource(str(each), Reading)) for each in self._folders(folder)]
        streams = [from_source(Logs(folder / "in"))] if self.source == "partitions" else files
        timed = stamped(streams[0]) if len(streams) == 1 else stamped(streams[0]).union(stamped(streams[1]))
        second = timedelta(seconds=1)
        assigner = {
            "tumbling": TumblingEventTimeWindows.of(second),
            "sliding": SlidingEventTimeWindows.of(2 * second, second),
            "sessions": EventTimeSessionWindows.with_gap(second),
        }[self.windows]
        windows = timed.key_by(lambda reading: reading.sensor).window(assigner)
        if self.on_columns:
            panes = windows.aggregate(agg.into(Pane, agg.key(), agg.window_end(), agg.count()))
        else:
            panes = windows.process(_Counted())
        return Pipeline("silent", panes.sink_to(FunctionSink(take)), panes.sink_to(sink))

    def _folders(self, folder: Path) -> list[Path]:
        return [folder / "in", folder / "other"] if self.source == "two" else [folder / "in"]

    def prepare(self, folder: Path) -> None:
        """Makes the folders of the sources; those that stay silent have nothing, or something old."""
        for each in self._folders(folder):
            each.mkdir()
        if self.source == "partitions":
            (folder / "in" / "old.log").write_text(f"{json.dumps(Reading('old', now_millis() - _OLD_MILLIS))}\n")
            (folder / "in" / "new.log").touch()

    def put(self, folder: Path, name: str, reading: Reading) -> None:
        """Lets an element arrive."""
        if self.source == "partitions":
            with (folder / "in" / "new.log").open("a") as log:
                log.write(f"{json.dumps(reading)}\n")
            return
        hidden = folder / f".{name}"
        hidden.write_text(f"{json.dumps(reading._asdict())}\n")
        hidden.rename(folder / "in" / f"{name}.json")


def drawn(seed: int) -> Drawn:
    """Draws a plan."""
    random = Random(seed)
    return Drawn(
        seed=seed,
        bound=random.choice([0, 100, 500, 1500]),
        after=random.choice([200, 500, 1000, 2000]),
        interval=random.choice([0, 200, 500, 1000]),
        windows=random.choice(["tumbling", "sliding", "sessions"]),
        source=random.choice(["files", "partitions", "two"]),
        on_columns=random.random() < 0.5,
        graceful=random.random() < 0.5,
    )


@dataclass
class Run:
    """Runs a plan in a folder of its own."""

    plan: Drawn
    spark: SparkSession | None
    folder: Path
    panes: list[tuple[int, Pane]] = field(default_factory=list)  # with the clock at which the sink got each

    def __call__(self) -> list[Came]:
        """Returns the windows whose time was taken; raises an AssertionError if one is wrong or does not come."""
        plan, sink = self.plan, CollectSink[Pane]()
        plan.prepare(self.folder)
        pipeline = plan.pipeline(self.folder, self._take, sink)
        runner = SparkRunner(self.spark, checkpoint=str(self.folder / "checkpoint"))
        interval = plan.interval / 1000
        with runner.start(pipeline, interval_seconds=interval) as running:
            self._await_window("first", running)  # the first batch starts workers
            came = [self._await_window("second", running)]
            before = len(self.panes)
            plan.put(self.folder, "old", Reading("a", now_millis() - _OLD_MILLIS))
            _await(lambda: any("late_records_dropped" in each for each in running.counters().values()))
            assert len(self.panes) == before, "a late element came into a window"
            plan.put(self.folder, "kept", Reading("kept", now_millis()))
            time.sleep(Random(plan.seed).random())
            results = [running.stop(graceful=plan.graceful)]
        with runner.start(pipeline, interval_seconds=interval) as running:
            _await(lambda: any(pane.sensor == "kept" for _, pane in self.panes))
            came.append(self._await_window("third", running))
            running.process_available()
            results.append(running.stop())
        windows = [pane for _, pane in self.panes]
        assert len({*windows}) == len(windows), f"a window came twice: {windows}"
        if plan.source != "partitions":
            replayed = replay(self.folder / "checkpoint", pipeline)
            assert not replayed.differences, replayed.differences
            if plan.graceful:  # what is collected in memory is gone with a batch that is broken off
                assert not (differences := replayed.compare(results, [sink])), differences
        return came

    def _take(self, batch: int, panes: Sequence[Pane]) -> None:
        now = now_millis()
        self.panes.extend((now, pane) for pane in panes)

    def _await_window(self, name: str, running: RunningPipeline) -> Came:
        """Lets an element arrive, and nothing after it, and waits for its last window."""
        plan, begun = self.plan, now_millis()
        self.plan.put(self.folder, name, Reading(name, begun))
        _await(lambda: any(pane.sensor == name for _, pane in self.panes))
        running.process_available()
        at, pane = max(each for each in self.panes if each[1].sensor == name)
        reports = running.recent_progress
        # The element is known to have arrived at the end of the batch that reads it, at the latest.
        read = min(each.ended_at for each in reports if each.ended_at >= begun)
        # On a busy machine a batch may take longer than an interval; Spark's time includes the plan and the commit.
        work = max(each.batchDuration for each in running.streaming_query.recentProgress)
        latest = (
            max(pane.end + plan.bound, read + plan.after)
            + 2 * (max(plan.interval, _POLLING_MILLIS) + work)
            + _SPARE_MILLIS
        )
        assert at >= pane.end + plan.bound, f"{name} came before its time: {pane} at {at}"
        assert at <= latest, f"{name} came {at - latest} ms too late: {pane} at {at}"
        return Came(pane.end, at, latest)


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(_POLL_SECONDS)
