"""Statistics by channel and day: as those by day, with the latest minute of a bid."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.nexmark.ranks import Counts, auctions, bidders, bids, values_of
from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.times import day, minute
from windrow import Pipeline
from windrow import aggregates as agg
from windrow.sinks import ParquetFileSink
from windrow.windows import TumblingEventTimeWindows


@dataclass(frozen=True, slots=True)
class Row(Counts):
    channel: str
    day: str
    minute: str


@dataclass(frozen=True, slots=True)
class Found(Counts):
    channel: str
    latest: int


def row(found: Found) -> Row:
    return Row(**values_of(found, Counts), channel=found.channel, day=day(found.latest), minute=minute(found.latest))


def query(streams: Streams, out: Path) -> Pipeline:
    found = (
        streams.bids.key_by(lambda b: b.channel)
        .window(TumblingEventTimeWindows.of(timedelta(days=1)))
        .aggregate(
            agg.into(
                Found, channel=agg.key(), latest=agg.max(lambda b: b.date_time), **bids(), **bidders(), **auctions()
            )
        )
    )
    return Pipeline("q16", found.map(row).sink_to(ParquetFileSink(out)))
