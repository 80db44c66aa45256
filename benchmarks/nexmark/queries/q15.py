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
class Row(Counts):
    day: str


def query(streams: Streams, out: Path) -> Pipeline:
    rows = (
        streams.bids.key_by(lambda b: day(b.date_time))
        .window(TumblingEventTimeWindows.of(timedelta(days=1)))
        .aggregate(agg.into(Row, day=agg.key(), **bids(), **bidders(), **auctions()))
    )
    return Pipeline("q15", rows.sink_to(ParquetFileSink(out)))
