"""Calculation: bids within bounds, with the kind of their hour and a count of letters."""

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
    price: float
    bid_time_type: str
    date_time: int
    extra: str
    c_counts: int


def hour_type(millis: int) -> str:
    """The kind of the hour in UTC."""
    hour = millis // 3_600_000 % 24
    if 8 <= hour <= 18:
        return "dayTime"
    return "nightTime" if hour <= 6 or hour >= 20 else "otherTime"


def row(b: Bid) -> Row:
    kind, letters = hour_type(b.date_time), b.extra.count("c")
    return Row(b.auction, b.bidder, 0.908 * b.price, kind, b.date_time, b.extra, letters)


def query(streams: Streams, out: Path) -> Pipeline:
    rows = streams.bids.filter(lambda b: 1_000_000 < 0.908 * b.price < 50_000_000).map(row)
    return Pipeline("q14", rows.sink_to(ParquetFileSink(out)))
