"""Pass through: all bids."""

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
    price: int
    date_time: int
    extra: str


def query(streams: Streams, out: Path) -> Pipeline:
    rows = streams.bids.map(lambda b: Row(b.auction, b.bidder, b.price, b.date_time, b.extra))
    return Pipeline("q0", rows.sink_to(ParquetFileSink(out)))
