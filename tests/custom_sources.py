"""A source that a user could have written: the lines of some logs, a partition each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from windrow import OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.connectors import CustomSource
from windrow.sinks import CollectSink
from windrow.sources import MalformedRecord, OnMalformed
from windrow.windows import TumblingEventTimeWindows

__all__ = ["MALFORMED", "Entry", "Logs", "counting"]

MALFORMED = OutputTag("malformed", MalformedRecord)


@dataclass(frozen=True)
class Entry:
    """A line of a log."""

    log: str
    second: int


@dataclass(frozen=True)
class Logs(CustomSource[Entry, int]):
    """Reads whole numbers of seconds, one a line; an offset counts lines."""

    folder: Path
    bounded: bool = True
    lines_per_batch: int = 1_000
    malformed: OnMalformed = "fail"
    fails_at: str = ""

    @property
    def is_bounded(self) -> bool:
        return self.bounded

    @property
    def on_malformed(self) -> OnMalformed:
        return self.malformed

    def partitions(self) -> Sequence[str]:
        return [file.stem for file in self.folder.glob("*.log")]

    def initial_offset(self, partition: str) -> int:
        return 0

    def latest_offset(self, partition: str) -> int:
        return len(self.lines(partition))

    def next_offset(self, partition: str, start: int, latest: int) -> int:
        return min(start + self.lines_per_batch, latest)

    def read(self, partition: str, start: int, end: int) -> Iterator[Entry | MalformedRecord]:
        for number, line in enumerate(self.lines(partition)[start:end], start=start + 1):
            if line == self.fails_at:
                raise ConnectionError(f"the log of {line} is away")
            if line.isdigit():
                yield Entry(partition, int(line))
            else:
                yield MalformedRecord(line, "is no number", f"{partition}:{number}")

    def commit(self, partition: str, offset: int) -> None:
        (self.folder / f"{partition}.committed").write_text(str(offset))

    def lines(self, partition: str) -> list[str]:
        return (self.folder / f"{partition}.log").read_text().splitlines()


def counting(source: Logs) -> tuple[Pipeline, CollectSink[tuple[str, int]]]:
    """Counts the entries of each log in windows of ten seconds."""
    counts = CollectSink[tuple[str, int]]()
    windows = (
        from_source(source, name="logs")
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda entry: entry.second * 1000
        )
        .map(lambda entry: (entry.log, 1))
        .returns(tuple[str, int])
        .key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    return Pipeline("counting", windows.sink_to(counts)), counts
