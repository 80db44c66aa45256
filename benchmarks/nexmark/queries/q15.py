"""Statistics by day: bids, bidders and auctions, in all and by the rank of the price."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.nexmark.ranks import Counts, auctions, bidders, bids
from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.times import day
from windrow import Pipeline
from windrow import aggregates as agg
from windrow.sinks import ParquetFileSink
from windrow.windows import TumblingEventTimeWindows


@dataclass(frozen=True, slots=True)
class Found(Counts):
    start: int


@dataclass(frozen=True, slots=True)
class Row(Counts):
    day: str


def query(streams: Streams, out: Path) -> Pipeline:
    found = streams.bids.window_all(TumblingEventTimeWindows.of(timedelta(days=1))).aggregate(
        agg.into(Found, start=agg.window_start(), **bids(), **bidders(), **auctions())
    )
    rows = found.map(
        lambda f: Row(
            f.total_bids,
            f.rank1_bids,
            f.rank2_bids,
            f.rank3_bids,
            f.total_bidders,
            f.rank1_bidders,
            f.rank2_bidders,
            f.rank3_bidders,
            f.total_auctions,
            f.rank1_auctions,
            f.rank2_auctions,
            f.rank3_auctions,
            day=day(f.start),
        )
    )
    return Pipeline("q15", rows.sink_to(ParquetFileSink(out)))
