"""Folders: the first three folders of each address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.model import Bid
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


def row(b: Bid) -> Row:
    _, _, _, first, second, third, *_ = b.url.split("/")
    return Row(b.auction, b.bidder, b.price, b.channel, first, second, third)


def query(streams: Streams, out: Path) -> Pipeline:
    return Pipeline("q22", streams.bids.map(row).sink_to(ParquetFileSink(out)))
