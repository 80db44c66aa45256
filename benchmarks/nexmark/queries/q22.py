"""Folders: the first three folders of each address."""

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
    channel: str
    dir1: str
    dir2: str
    dir3: str


def query(streams: Streams, out: Path) -> Pipeline:
    rows = streams.bids.map(
        lambda b: Row(
            b.auction, b.bidder, b.price, b.channel, b.url.split("/")[3], b.url.split("/")[4], b.url.split("/")[5]
        )
    )
    return Pipeline("q22", rows.sink_to(ParquetFileSink(out)))
