"""Hot items: in sliding windows, the auctions with the most bids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow import aggregates as agg
from windrow.sinks import ParquetFileSink
from windrow.windows import SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    num: int
    window_start: int
    window_end: int


def hottest(window: TimeWindow, counts: Sequence[Row]) -> list[Row]:
    """All auctions with the highest count."""
    most = max(row.num for row in counts)
    return [row for row in counts if row.num == most]


def query(streams: Streams, out: Path) -> Pipeline:
    slide = timedelta(seconds=2)
    counts = (
        streams.bids.key_by(lambda b: b.auction)
        .window(SlidingEventTimeWindows.of(timedelta(seconds=10), slide))
        .aggregate(
            agg.into(
                Row, auction=agg.key(), num=agg.count(), window_start=agg.window_start(), window_end=agg.window_end()
            )
        )
    )
    # Each sliding window ends in another tumbling one, so these hold the counts of one window each.
    rows = counts.window_all(TumblingEventTimeWindows.of(slide)).apply(hottest)
    return Pipeline("q5", rows.sink_to(ParquetFileSink(out)))
