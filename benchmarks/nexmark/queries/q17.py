"""Statistics by auction and day: bids by the rank of the price, and prices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.nexmark.ranks import BidCounts, bids
from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.times import day
from windrow import Pipeline
from windrow import aggregates as agg
from windrow.sinks import ParquetFileSink
from windrow.windows import TumblingEventTimeWindows


@dataclass(frozen=True, slots=True)
class Prices(BidCounts):
    min_price: int
    max_price: int
    avg_price: float
    sum_price: int


@dataclass(frozen=True, slots=True)
class Found(Prices):
    auction: int
    start: int


@dataclass(frozen=True, slots=True)
class Row(Prices):
    auction: int
    day: str


def row(f: Found) -> Row:
    of_bids = f.total_bids, f.rank1_bids, f.rank2_bids, f.rank3_bids
    return Row(*of_bids, f.min_price, f.max_price, f.avg_price, f.sum_price, auction=f.auction, day=day(f.start))


def query(streams: Streams, out: Path) -> Pipeline:
    found = (
        streams.bids.key_by(lambda b: b.auction)
        .window(TumblingEventTimeWindows.of(timedelta(days=1)))
        .aggregate(
            agg.into(
                Found,
                auction=agg.key(),
                start=agg.window_start(),
                min_price=agg.min(lambda b: b.price),
                max_price=agg.max(lambda b: b.price),
                avg_price=agg.mean(lambda b: b.price),
                sum_price=agg.sum(lambda b: b.price),
                **bids(),
            )
        )
    )
    return Pipeline("q17", found.map(row).sink_to(ParquetFileSink(out)))
