"""Channel id: a number for the great channels, for others what their address says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.model import Bid
from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow.sinks import ParquetFileSink

IDS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
CHANNEL_ID = re.compile(r"&channel_id=([^&]*)")


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: int
    channel: str
    channel_id: str


def with_id(b: Bid) -> Iterable[Row]:
    """The bid with the id of its channel; none if it has none."""
    found = CHANNEL_ID.search(b.url)
    number = IDS.get(b.channel.lower(), found.group(1) if found else None)
    return () if number is None else (Row(b.auction, b.bidder, b.price, b.channel, number),)


def query(streams: Streams, out: Path) -> Pipeline:
    return Pipeline("q21", streams.bids.flat_map(with_id).sink_to(ParquetFileSink(out)))
