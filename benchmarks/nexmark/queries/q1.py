"""Currency: all bids, with the price in euros."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow.sinks import ParquetFileSink


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: float
    date_time: int
    extra: str


def query(streams: Streams, out: Path) -> Pipeline:
    rows = streams.bids.map(lambda b: Row(b.auction, b.bidder, 0.908 * b.price, b.date_time, b.extra))
    return Pipeline("q1", rows.sink_to(ParquetFileSink(out)))
