"""Highest bid: in tumbling windows, every bid with the highest price."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from operator import attrgetter
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from windrow import Pipeline, joins
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


@dataclass(frozen=True, slots=True)
class Highest:
    price: int


def query(streams: Streams, out: Path) -> Pipeline:
    windows = TumblingEventTimeWindows.of(timedelta(seconds=10))
    bids = streams.bids
    highest = bids.window_all(windows).aggregate(agg.into(Highest, price=agg.max(lambda b: b.price)))
    # The highest price is of the time of its window, so it meets the bids of that window.
    rows = (
        bids.join(highest)
        .where(lambda b: b.price)
        .equal_to(lambda h: h.price)
        .window(windows)
        .apply(joins.into(Row, *[joins.left(attrgetter(field.name)) for field in fields(Row)]))
    )
    return Pipeline("q7", rows.sink_to(ParquetFileSink(out)))
