"""Side input: each bid with the value that a bounded table has for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow.sinks import ParquetFileSink


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: int
    date_time: int
    value: str


def query(streams: Streams, out: Path) -> Pipeline:
    table = pq.read_table(streams.folder / "side_input").to_pydict()
    values: dict[int, str] = dict(zip(table["key"], table["value"], strict=True))
    rows = streams.bids.filter(lambda b: b.auction % 10_000 in values).map(
        lambda b: Row(b.auction, b.bidder, b.price, b.date_time, values[b.auction % 10_000])
    )
    return Pipeline("q13", rows.sink_to(ParquetFileSink(out)))
