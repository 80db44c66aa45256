"""Last bid: for each pair of bidder and auction the latest bid."""

from __future__ import annotations

from pathlib import Path

from benchmarks.nexmark.model import Bid
from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.winning import by_rank
from windrow import Pipeline
from windrow.sinks import ParquetFileSink
from windrow.windows import GlobalWindows


def later(one: Bid, other: Bid) -> Bid:
    """The later bid; of those of one time, the first by the rule of ties."""
    return min(one, other, key=lambda b: (-b.date_time, by_rank(b)))


def query(streams: Streams, out: Path) -> Pipeline:
    rows = (
        streams.bids.key_by(lambda b: (b.bidder, b.auction))
        .window(GlobalWindows.create_with_end_of_stream_trigger())
        .reduce(later)
    )
    return Pipeline("q18", rows.sink_to(ParquetFileSink(out)))
