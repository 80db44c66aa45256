"""Last bid: for each pair of bidder and auction the latest bid."""

from __future__ import annotations

from pathlib import Path

from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow import aggregates as agg
from windrow.sinks import ParquetFileSink
from windrow.windows import GlobalWindows


def query(streams: Streams, out: Path) -> Pipeline:
    # The latest first; of those of one time, the first by the rule of ties.
    rows = (
        streams.bids.key_by(lambda b: (b.bidder, b.auction))
        .window(GlobalWindows.create_with_end_of_stream_trigger())
        .aggregate(agg.min_by(lambda b: (-b.date_time, -b.price, b.channel, b.url, b.extra)))
    )
    return Pipeline("q18", rows.sink_to(ParquetFileSink(out)))
