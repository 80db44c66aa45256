"""Highest bid: in tumbling windows, every bid with the highest price."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow import aggregates as agg
from windrow.sinks import ParquetFileSink
from windrow.windows import TumblingEventTimeWindows


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: int
    date_time: int
    extra: str


def query(streams: Streams, out: Path) -> Pipeline:
    highest = (
        streams.bids.map(lambda b: Row(b.auction, b.bidder, b.price, b.date_time, b.extra))
        .window_all(TumblingEventTimeWindows.of(timedelta(seconds=10)))
        .aggregate(agg.top_k(1, lambda row: row.price, with_ties=True))
    )
    return Pipeline("q7", highest.flat_map(lambda rows: rows).returns(Row).sink_to(ParquetFileSink(out)))
