"""Top ten: for each auction its highest bids, with their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.model import Bid
from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow import aggregates as agg
from windrow.sinks import ParquetFileSink
from windrow.windows import GlobalWindows


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: int
    extra: str
    rank_number: int


def ranked(bids: Sequence[Bid]) -> list[Row]:
    """The bids with their places."""
    places = enumerate(bids, start=1)
    return [Row(b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, rank) for rank, b in places]


def query(streams: Streams, out: Path) -> Pipeline:
    top = (
        streams.bids.key_by(lambda b: b.auction)
        .window(GlobalWindows.create_with_end_of_stream_trigger())
        # The highest first, then by the rule of ties.
        .aggregate(agg.top_k(10, lambda b: (-b.price, b.date_time, b.bidder, b.channel, b.url, b.extra), reverse=True))
    )
    return Pipeline("q19", top.flat_map(ranked).sink_to(ParquetFileSink(out)))
