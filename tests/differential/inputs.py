"""Random input: elements in batches, from one source or two, with watermark strategies, and perhaps with a clock.

Timestamps lie before 1970, around it, or far behind it. Elements come out of order, some much too late, and some share
a timestamp. A clock stands still while a batch runs, and goes on by one step behind each batch that read something.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.differential.functions import Punctuated, as_datetime, as_millis
from tests.spark.comparison import Event, millis
from windrow import DataStream, WatermarkStrategy, from_source
from windrow.sources import CollectionSource, CsvFileSource, JsonFileSource, ParquetFileSource

_STARTS = (-(10**12), -1_000, 0, 10**12)


@dataclass(frozen=True)
class Input:
    """What several cases read.

    Attributes:
        collections: The elements of each source.
        batch_sizes: How many elements of each source are in a batch.
        strategies: How watermarks are made: one for all sources, or one for each.
        datetimes: Whether timestamps are given as datetimes.
        clock_step: How far the clock goes on behind each batch, in milliseconds; None: there is none.
    """

    collections: tuple[tuple[Event, ...], ...]
    batch_sizes: tuple[int, ...]
    strategies: tuple[WatermarkStrategy[Event], ...]
    datetimes: bool
    clock_step: int | None

    def sources(self, folder: Path | None = None) -> list[DataStream[Event]]:
        """The elements of each source: from files, one a batch, where there is a folder for them."""
        pairs = zip(self.collections, self.batch_sizes, strict=True)
        if folder is None:
            return [from_source(CollectionSource(elements, Event, batch_size=size)) for elements, size in pairs]
        found: list[DataStream[Event]] = []
        for number, (elements, size) in enumerate(pairs):
            make, write = _FORMATS[(len(elements) + number) % len(_FORMATS)]
            place = folder / f"{number}"
            _write(place, elements, size, write)
            found.append(from_source(make(str(place), Event, files_per_batch=1)))
        return found

    def stream(self, streams: list[DataStream[Event]]) -> DataStream[Event]:
        """The elements of ``streams``, which are the sources, with timestamps."""
        if len(self.strategies) == len(streams):
            streams = self.streams(streams)
            return streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
        return self._timed(streams[0].union(*streams[1:]), self.strategies[0])

    def streams(self, streams: list[DataStream[Event]]) -> list[DataStream[Event]]:
        """The elements of each of ``streams``, which are the sources, with timestamps and a watermark of its own."""
        return [self._timed(stream, strategy) for stream, strategy in zip(streams, self.strategies, strict=True)]

    def in_one_batch(self) -> Input:
        """The same elements all in one batch, without watermarks and clock: what a batch job sees."""
        return Input(
            self.collections,
            tuple(max(len(elements), 1) for elements in self.collections),
            (WatermarkStrategy.no_watermarks(),) * len(self.strategies),
            self.datetimes,
            clock_step=None,
        )

    def describe(self) -> str:
        """All elements, a batch a line."""
        lines = [] if self.clock_step is None else [f"clock: {self.clock_step} ms further behind each batch"]
        for number, (elements, size) in enumerate(zip(self.collections, self.batch_sizes, strict=True)):
            lines.append(f"source {number}:")
            for start in range(0, len(elements), size):
                batch = ", ".join(f"{event.key}@{event.at}={event.value}" for event in elements[start : start + size])
                lines.append(f"  {batch}")
        return "\n".join(lines)

    def _timed(self, stream: DataStream[Event], strategy: WatermarkStrategy[Event]) -> DataStream[Event]:
        timestamp = as_datetime if self.datetimes else as_millis
        return stream.assign_timestamps_and_watermarks(strategy, timestamp=timestamp)


def _write(folder: Path, elements: Sequence[Event], size: int, write: Callable[[Path, Sequence[Event]], None]) -> None:
    """Elements as files, so many in each, unless they are there."""
    if folder.exists():
        return
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, len(elements), size)):
        file = folder / f"{number:03d}"
        write(file, elements[start : start + size])
        # A source takes the oldest file first.
        os.utime(file, (1_600_000_000 + number,) * 2)


def _write_parquet(file: Path, rows: Sequence[Event]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "key": pa.array([event.key for event in rows]),
        "at": pa.array([event.at for event in rows], pa.int64()),
        "value": pa.array([event.value for event in rows], pa.int64()),
    }
    pq.write_table(pa.table(columns), file)


def _write_json(file: Path, rows: Sequence[Event]) -> None:
    file.write_text("".join(f"{json.dumps({'key': row.key, 'at': row.at, 'value': row.value})}\n" for row in rows))


def _write_csv(file: Path, rows: Sequence[Event]) -> None:
    file.write_text("key,at,value\n" + "".join(f"{row.key},{row.at},{row.value}\n" for row in rows))


_FORMATS: Final = (
    (JsonFileSource[Event], _write_json),
    (ParquetFileSource[Event], _write_parquet),
    (CsvFileSource[Event], _write_csv),
)


def random_input(chance: random.Random, *, two: bool = False) -> Input:
    """Draw an input; with ``two`` it has two sources, each with watermarks of its own."""
    start = chance.choice(_STARTS)
    pace = chance.choice([1, 7, 20])
    sources = 2 if two else chance.choice([1, 1, 2])
    collections: list[tuple[Event, ...]] = []
    batch_sizes: list[int] = []
    for number in range(sources):
        count = chance.randrange(80, 160) // sources
        elements = _events(chance, count, start + chance.randrange(-50, 50), pace * sources, 1000 * number)
        collections.append(tuple(elements))
        batch_sizes.append(-(-count // chance.randrange(3, 6)))
    apart = two or (sources > 1 and chance.random() < 0.5)
    strategies = [_strategy(chance, pace) for _ in range(sources if apart else 1)]
    return Input(
        tuple(collections),
        tuple(batch_sizes),
        tuple(strategies),
        datetimes=chance.random() < 0.15,
        clock_step=chance.randrange(1, 120) if chance.random() < 0.4 else None,
    )


def _events(chance: random.Random, count: int, start: int, pace: int, first: int) -> list[Event]:
    keys = "abcdefgh"[: chance.randrange(1, 9)]
    late = chance.choice([0.0, 0.05, 0.2])
    found: list[Event] = []
    for number in range(count):
        behind = chance.randrange(4 * pace) if chance.random() >= late else chance.randrange(40 * pace)
        found.append(Event(chance.choice(keys), start + number * pace - behind, first + number))
    return found


def _strategy(chance: random.Random, pace: int) -> WatermarkStrategy[Event]:
    delay = chance.randrange(6 * pace)
    match chance.randrange(10):
        case 0:
            return WatermarkStrategy.no_watermarks()
        case 1 | 2:
            return WatermarkStrategy.for_monotonous_timestamps()
        case 3 | 4:
            return WatermarkStrategy.for_generator(partial(Punctuated, delay))
        case _:
            return WatermarkStrategy.for_bounded_out_of_orderness(millis(delay))
