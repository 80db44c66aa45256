"""Log to files: all bids in folders of days and minutes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.times import day, minute
from windrow import Pipeline
from windrow.sinks import ParquetFileSink


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: int
    date_time: int
    extra: str
    dt: str
    hm: str


def query(streams: Streams, out: Path) -> Pipeline:
    rows = streams.bids.map(
        lambda b: Row(b.auction, b.bidder, b.price, b.date_time, b.extra, day(b.date_time), minute(b.date_time))
    )
    return Pipeline("q10", rows.sink_to(ParquetFileSink(out, partition_by=("dt", "hm"))))
