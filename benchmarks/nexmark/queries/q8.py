"""New users: people who registered and opened an auction in the same window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from windrow import Pipeline, joins
from windrow import aggregates as agg
from windrow.sinks import ParquetFileSink
from windrow.windows import TumblingEventTimeWindows


@dataclass(frozen=True, slots=True)
class Seller:
    id: int
    start: int


@dataclass(frozen=True, slots=True)
class Row:
    id: int
    name: str
    window_start: int


def query(streams: Streams, out: Path) -> Pipeline:
    windows = TumblingEventTimeWindows.of(timedelta(seconds=10))
    # Each seller once a window, however many auctions there are; the result is of the time of its window.
    sellers = (
        streams.auctions.key_by(lambda a: a.seller)
        .window(windows)
        .aggregate(agg.into(Seller, id=agg.key(), start=agg.window_start()))
    )
    rows = (
        streams.persons.join(sellers)
        .where(lambda p: p.id)
        .equal_to(lambda s: s.id)
        .window(windows)
        .apply(
            joins.into(
                Row, id=joins.key(), name=joins.left(lambda p: p.name), window_start=joins.right(lambda s: s.start)
            )
        )
    )
    return Pipeline("q8", rows.sink_to(ParquetFileSink(out)))
