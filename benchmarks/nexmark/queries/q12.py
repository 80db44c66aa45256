"""Bids in windows: the bids of each bidder in tumbling windows."""

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
    bidder: int
    bid_count: int
    window_start: int
    window_end: int


def query(streams: Streams, out: Path) -> Pipeline:
    rows = (
        streams.bids.key_by(lambda b: b.bidder)
        .window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
        .aggregate(agg.into(Row, agg.key(), agg.count(), agg.window_start(), agg.window_end()))
    )
    return Pipeline("q12", rows.sink_to(ParquetFileSink(out)))
