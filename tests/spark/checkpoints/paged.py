"""A second pipeline whose checkpoint is kept, with the state that the first one is too small for. Do not change it.

Its one key group has, where the first run ends:

- tumbling windows on columns, whose rows have become a chunk;
- sessions on columns, in many pages and with a working set;
- keyed state of objects, in many pages and with a working set;
- a list of the elements of a window, most of which lie in a segment;
- watermarks of two sources of its own, in the clock folder: one is far ahead, and the other holds it back.

Keys are long and random, so that few of them are enough to fill pages, which are compressed::

    batch   0               1                       2 ... 4                 | 5       6       7
    quick   some keys at 0  many keys at 2300       a slow key at 2400      | the same
    slow    few keys, 400 ms on from batch to batch, up to 1640             | 2000    2800    3600
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha512
from pathlib import Path
from typing import NamedTuple

from tests.spark.comparison import Outputs, millis
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.functions import (
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessWindowContext,
    ProcessWindowFunction,
)
from windrow.sources import ParquetFileSource
from windrow.state import ValueStateDescriptor
from windrow.windows import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows

__all__ = ["FILES", "HALF", "pipeline"]

FILES = 8
"""How many files each source has. A batch has one of each."""
HALF = 5
_SLOW = range(3)
_SOME = range(3, 8)
_MANY = range(8, 608)


@dataclass(frozen=True)
class Reading:
    sensor: str
    at: int
    number: int


class Total(NamedTuple):
    readings: int
    sum: int


class Numbers(ProcessWindowFunction[Reading, tuple[int, int, list[int]], int, TimeWindow]):
    """Lists the readings of a window."""

    def process(
        self, key: int, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]
    ) -> Iterable[tuple[int, int, list[int]]]:
        yield (key, context.window.start, [reading.number for reading in elements])


class Totals(KeyedProcessFunction[str, Reading, tuple[str, int, int, int]]):
    """Tells a sensor's total 400 ms after each reading."""

    total = ValueStateDescriptor("total", Total)

    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> Iterable[tuple[str, int, int, int]]:
        total = context.get_state(self.total)
        known = total.value() or Total(0, 0)
        total.update(Total(known.readings + 1, known.sum + value.number))
        context.timer_service.register_event_time_timer(value.at + 400)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[tuple[str, int, int, int]]:
        known = context.get_state(self.total).value()
        assert isinstance(known, Total)
        yield (context.key, timestamp, known.readings, known.sum)


def pipeline(folder: Path, files: int) -> tuple[Pipeline, Outputs]:
    """The pipeline over the first so many files of each source, which are written to a folder."""
    outputs = Outputs()
    strategies = {"quick": 50, "slow": 20}
    quick, slow = (
        from_source(
            ParquetFileSource(str(folder / name), Reading, files_per_batch=1), name=name
        ).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(millis(delay)), timestamp=lambda reading: reading.at
        )
        for name, delay in strategies.items()
    )
    for number in range(files):
        _write(folder / "quick", number, _quick(number))
        at = number * 400 if number < HALF else number * 800 - 2_000
        _write(folder / "slow", number, [(key, at + key * 20) for key in _SLOW])
    readings = quick.union(slow)
    keyed = readings.key_by(lambda reading: reading.sensor)
    # Enough for a chunk and for pages of objects, and enough for a segment. Names have no form on columns.
    some = readings.filter(lambda reading: reading.number < 310).key_by(lambda reading: reading.sensor)
    few = readings.filter(lambda reading: reading.number < 80)
    outputs.add(
        "tumbling",
        some.window(TumblingEventTimeWindows.of(millis(1_000))).aggregate(
            agg.combine(agg.key(), agg.window_start(), agg.count(), agg.sum(lambda reading: reading.number)),
            name="tumbling",
        ),
    )
    outputs.add(
        "sessions",
        keyed.window(EventTimeSessionWindows.with_gap(millis(450))).aggregate(
            agg.combine(agg.key(), agg.window_start(), agg.window_end(), agg.count()), name="sessions"
        ),
    )
    outputs.add("totals", some.process(Totals(), name="totals"))
    outputs.add(
        "numbers",
        few.key_by(lambda reading: 0, int)
        .window(TumblingEventTimeWindows.of(millis(1_000)))
        .process(Numbers(), name="numbers"),
    )
    return outputs.pipeline("paged"), outputs


def _quick(file: int) -> list[tuple[int, int]]:
    if file == 0:
        return [(key, place * 20) for place, key in enumerate(_SOME)]
    if file == 1:
        return [(key, 2_300 + key % 100) for key in _MANY]
    return [(0, 2_400)]


def _write(folder: Path, number: int, readings: Sequence[tuple[int, int]]) -> None:
    """A file of readings: which sensor, and when."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "sensor": pa.array([_sensor(key) for key, _ in readings]),
        "at": pa.array([at for _, at in readings], pa.int64()),
        "number": pa.array([key for key, _ in readings], pa.int64()),
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{number}.parquet"
    pq.write_table(pa.table(columns), file)
    # A source takes the oldest file first.
    os.utime(file, (1_600_000_000 + number,) * 2)


def _sensor(number: int) -> str:
    return b64encode(sha512(str(number).encode()).digest()[:48]).decode()
