"""Statistics by channel and day: as those by day, with the latest minute of a bid."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.nexmark.ranks import Counts, auctions, bidders, bids
from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.times import day, minute
from windrow import Pipeline
from windrow import aggregates as agg
from windrow.sinks import ParquetFileSink
from windrow.windows import TumblingEventTimeWindows


@dataclass(frozen=True, slots=True)
class Row(Counts):
    channel: str
    day: str
    minute: str


@dataclass(frozen=True, slots=True)
class Found(Counts):
    channel: str
    latest: int


def row(f: Found) -> Row:
    of_bids = f.total_bids, f.rank1_bids, f.rank2_bids, f.rank3_bids
    of_bidders = f.total_bidders, f.rank1_bidders, f.rank2_bidders, f.rank3_bidders
    of_auctions = f.total_auctions, f.rank1_auctions, f.rank2_auctions, f.rank3_auctions
    return Row(*of_bids, *of_bidders, *of_auctions, channel=f.channel, day=day(f.latest), minute=minute(f.latest))


def query(streams: Streams, out: Path) -> Pipeline:
    counts = agg.into(
        Found, channel=agg.key(), latest=agg.max(lambda b: b.date_time), **bids(), **bidders(), **auctions()
    )
    days = TumblingEventTimeWindows.of(timedelta(days=1))
    rows = streams.bids.key_by(lambda b: b.channel).window(days).aggregate(counts).map(row)
    return Pipeline("q16", rows.sink_to(ParquetFileSink(out)))
