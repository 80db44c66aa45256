"""Side input: each bid with the value that a bounded table has for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.nexmark.model import Bid
from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow.functions import FlatMapFunction, RuntimeContext
from windrow.sinks import ParquetFileSink


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: int
    date_time: int
    value: str


class Lookup(FlatMapFunction[Bid, Row]):
    """Reads the table when it is opened."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self._values: dict[int, str] = {}

    def open(self, runtime_context: RuntimeContext) -> None:
        found = pq.read_table(self._table).to_pydict()
        self._values = dict(zip(found["key"], found["value"], strict=True))

    def flat_map(self, value: Bid) -> Iterable[Row]:
        found = self._values.get(value.auction % 10_000)
        return () if found is None else (Row(value.auction, value.bidder, value.price, value.date_time, found),)


def query(streams: Streams, out: Path) -> Pipeline:
    rows = streams.bids.flat_map(Lookup(streams.folder / "side_input"))
    return Pipeline("q13", rows.sink_to(ParquetFileSink(out)))
