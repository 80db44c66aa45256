"""Plans over sources with partitions, for both engines: the logs of ``custom_sources``, and files side by side."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.custom_sources import Entry, Logs
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.connectors import CustomSource
from windrow.sinks import CollectSink
from windrow.sources import FilesInOrder, JsonFileSource
from windrow.watermarks import BoundedOutOfOrdernessWatermarks
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.outputs.result import PipelineResult

__all__ = [
    "MONOTONOUS",
    "OWN",
    "Count",
    "Dealt",
    "Hourly",
    "Outputs",
    "counted",
    "hour_of",
    "hourly",
    "logs",
    "put",
    "random_case",
    "write_hours",
]

MONOTONOUS: WatermarkStrategy[object] = WatermarkStrategy.for_monotonous_timestamps()


class OwnGenerator(BoundedOutOfOrdernessWatermarks):
    """Sees each element, since windrow does not know the class."""

    def __init__(self) -> None:
        super().__init__(0)


OWN: WatermarkStrategy[object] = WatermarkStrategy.for_generator(OwnGenerator)


class Count(NamedTuple):
    key: str
    end: int
    number: int


@dataclass(frozen=True)
class Outputs:
    """What a plan gives: counts of windows, and the late elements."""

    counts: CollectSink[Count]
    late: CollectSink[Entry]

    def of(self, result: PipelineResult) -> tuple[list[Count], list[Entry]]:
        return sorted(result.collected(self.counts)), sorted(result.collected(self.late), key=repr)


def counted(
    stream: DataStream[Entry], strategy: WatermarkStrategy[object] = MONOTONOUS, seconds: int = 10
) -> tuple[Pipeline, Outputs]:
    """Counts the entries of each log in windows."""
    late = OutputTag("late", Entry)
    outputs = Outputs(CollectSink[Count](), CollectSink[Entry]())
    timed = stream.assign_timestamps_and_watermarks(strategy, timestamp=lambda entry: entry.second * 1000)
    windows = timed.key_by(lambda entry: entry.log).window(TumblingEventTimeWindows.of(timedelta(seconds=seconds)))
    counts = windows.side_output_late_data(late).aggregate(agg.into(Count, agg.key(), agg.window_end(), agg.count()))
    sinks = counts.sink_to(outputs.counts), counts.get_side_output(late).sink_to(outputs.late)
    return Pipeline("counted", *sinks), outputs


def put(folder: Path, **logs: list[int]) -> Path:
    """Adds lines to logs, each of which is a partition of :class:`Logs`."""
    folder.mkdir(exist_ok=True)
    for name, seconds in logs.items():
        with (folder / f"{name}.log").open("a") as file:
            file.writelines(f"{second}\n" for second in seconds)
    return folder


def logs(folder: Path, *, bounded: bool = True, lines: int = 2) -> DataStream[Entry]:
    return from_source(Logs(folder, bounded=bounded, lines_per_batch=lines))


@dataclass(frozen=True)
class Hourly:
    """A folder for each writer, with a file for each hour in which it wrote."""

    folder: Path
    files: list[Path]
    counts: list[Count]

    def shuffle(self, random: Random) -> None:
        """Gives the files other times of their modification, as ``cp -r`` does."""
        for second, file in enumerate(random.sample(self.files, len(self.files))):
            os.utime(file, (10**9 + second,) * 2)


def write_hours(folder: Path, writers: int, hours: int, random: Random) -> Hourly:
    files: list[Path] = []
    counts: Counter[tuple[str, int]] = Counter()
    for writer in range(writers):
        # Not every writer writes in each hour, and none writes in order.
        for hour in sorted(random.sample(range(hours), hours - writer)):
            seconds = random.sample(range(hour * 3600, hour * 3600 + 3600), 5)
            file = folder / f"writer-{writer}" / f"hour-{hour}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            lines = (json.dumps({"log": f"writer-{writer}", "second": second}) for second in seconds)
            file.write_text("".join(f"{line}\n" for line in lines))
            files.append(file)
            counts.update((f"writer-{writer}", (second // 600 + 1) * 600_000) for second in seconds)
    return Hourly(folder, files, sorted(Count(*key, count) for key, count in counts.items()))


def hour_of(path: str) -> int:
    return int(path.rpartition("-")[2].removesuffix(".json"))


def hourly(
    files: Hourly,
    size: int,
    order: FilesInOrder = hour_of,
    strategy: WatermarkStrategy[object] | None = None,
    name: str = "files",
) -> tuple[Pipeline, Outputs]:
    """Counts the entries of each writer in batches of some files; those of one file come in any order."""
    source = JsonFileSource(files.folder, Entry, files_per_batch=size, files_in_order=order)
    hour = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(0))
    return counted(from_source(source, name=name), strategy or hour, seconds=600)


@dataclass(frozen=True)
class Dealt(CustomSource[Entry, int]):
    """Reads lists of seconds, a partition each, so many at once; an offset counts them."""

    seconds: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    bounded: bool

    @property
    def is_bounded(self) -> bool:
        return self.bounded

    def partitions(self) -> list[str]:
        return [f"p{number}" for number in range(len(self.seconds))]

    def initial_offset(self, partition: str) -> int:
        return 0

    def latest_offset(self, partition: str) -> int:
        return len(self.seconds[int(partition[1:])])

    def next_offset(self, partition: str, start: int, latest: int) -> int:
        return min(start + self.sizes[int(partition[1:])], latest)

    def read(self, partition: str, start: int, end: int) -> list[Entry]:
        return [Entry(partition, second) for second in self.seconds[int(partition[1:])][start:end]]


def random_case(random: Random) -> tuple[Dealt, WatermarkStrategy[object]]:
    """Draws partitions, which are behind each other and out of order, and a strategy with idleness or alignment."""
    count = random.randrange(1, 5)
    seconds: list[tuple[int, ...]] = []
    for _ in range(count):
        first, pace = random.randrange(100), random.randrange(1, 8)
        numbers = range(random.choice([0, 3, 12, 20]))
        seconds.append(tuple(max(first + number * pace - random.randrange(15), 0) for number in numbers))
    sizes = tuple(random.randrange(1, 6) for _ in range(count))
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=random.randrange(10)))
    strategy = random.choice([MONOTONOUS, OWN, bounded])
    if random.random() < 0.4:
        strategy = strategy.with_idleness(timedelta(milliseconds=random.randrange(1, 500)))
    if random.random() < 0.5:
        strategy = strategy.with_watermark_alignment("all", timedelta(seconds=random.randrange(1, 60)))
    return Dealt(tuple(seconds), sizes, random.random() < 0.7), strategy
