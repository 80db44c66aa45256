"""A source and a sink that a user could have written, which give and take Arrow data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from windrow.connectors import ArrowArray, ArrowStream, CustomSink, CustomSource, SinkContext
from windrow.sources import MalformedRecord, OnMalformed

__all__ = ["Reading", "Readings", "Tables", "reading", "rows_of"]

# Any: pyarrow has no types.


class Reading(NamedTuple):
    """A measured value of a sensor."""

    sensor: str
    value: float
    time: int


def reading(number: int) -> Reading:
    """The reading of a number: one a second, of seven sensors in turn."""
    return Reading(f"s{number % 7}", number / 4, number * 1_000)


@dataclass(frozen=True)
class Readings(CustomSource[Reading, int]):
    """Gives readings by number, two partitions of them, in record batches."""

    count: int
    rows: int = 100
    form: str = "batch"
    malformed: OnMalformed = "fail"
    bad: int | None = None
    per_batch: int = 1_000_000
    fails_from: int = 1_000_000

    @property
    def is_bounded(self) -> bool:
        return True

    @property
    def on_malformed(self) -> OnMalformed:
        return self.malformed

    def partitions(self) -> tuple[str, ...]:
        return ("even", "odd")

    def initial_offset(self, partition: str) -> int:
        return 0

    def latest_offset(self, partition: str) -> int:
        return self.count // 2

    def next_offset(self, partition: str, start: int, latest: int) -> int:
        return min(start + self.per_batch, latest)

    def read_arrow(self, partition: str, start: int, end: int) -> Iterator[ArrowArray | ArrowStream | MalformedRecord]:
        if 2 * end > self.fails_from:
            raise OSError("the service is away")
        for begin in range(start, end, self.rows):
            numbers = [2 * place + (partition == "odd") for place in range(begin, min(begin + self.rows, end))]
            if self.bad in numbers:
                yield MalformedRecord(str(self.bad), "is bad", f"{partition}:{self.bad}")
            batch = pa.RecordBatch.from_pylist([reading(number)._asdict() for number in numbers if number != self.bad])
            yield batch if self.form == "batch" else pa.Table.from_batches([batch])


@dataclass
class Tables(CustomSink[Any]):
    """Writes each call's table into a Parquet file of the batch and the partition."""

    folder: Path
    workers: bool = False
    fails: bool = False

    @property
    def on_workers(self) -> bool:
        return self.workers

    def open(self, context: SinkContext) -> None:
        self.partition = context.partition
        self.calls = 0

    def write_arrow(self, batch: int, rows: Any) -> None:
        if self.fails:
            raise ConnectionError("the table is away")
        pq.write_table(rows, self.folder / f"{batch}-{self.partition}-{self.calls}.parquet")
        self.calls += 1


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of all files of a :class:`Tables`."""
    return [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
