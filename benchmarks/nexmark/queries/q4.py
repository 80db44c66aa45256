"""Average closing price: for each category the mean of the highest bids of its auctions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.winning import winning_bids
from windrow import Pipeline
from windrow import aggregates as agg
from windrow.sinks import ParquetFileSink
from windrow.windows import GlobalWindows


@dataclass(frozen=True, slots=True)
class Row:
    category: int
    avg_price: float


def query(streams: Streams, out: Path) -> Pipeline:
    rows = (
        winning_bids(streams)
        .key_by(lambda w: w.auction.category)
        .window(GlobalWindows.create_with_end_of_stream_trigger())
        .aggregate(agg.into(Row, category=agg.key(), avg_price=agg.mean(lambda w: w.bid.price)))
    )
    return Pipeline("q4", rows.sink_to(ParquetFileSink(out)))
