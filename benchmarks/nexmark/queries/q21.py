"""Channel id: a number for the great channels, for others what their address says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.model import Bid
from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow.sinks import ParquetFileSink

IDS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: int
    channel: str
    channel_id: str


def channel_id(b: Bid) -> str:
    """The id of the channel of a bid that has one."""
    return IDS[b.channel.lower()] if b.channel.lower() in IDS else b.url.split("&channel_id=")[1].split("&")[0]


def query(streams: Streams, out: Path) -> Pipeline:
    bids = streams.bids.filter(lambda b: b.channel.lower() in IDS or "&channel_id=" in b.url)
    rows = bids.map(lambda b: Row(b.auction, b.bidder, b.price, b.channel, channel_id(b)))
    return Pipeline("q21", rows.sink_to(ParquetFileSink(out)))
