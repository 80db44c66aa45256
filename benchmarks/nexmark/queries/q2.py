"""Selection: the bids on some auctions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow.sinks import ParquetFileSink


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    price: int


def query(streams: Streams, out: Path) -> Pipeline:
    rows = streams.bids.filter(lambda b: b.auction % 123 == 0).map(lambda b: Row(b.auction, b.price))
    return Pipeline("q2", rows.sink_to(ParquetFileSink(out)))
