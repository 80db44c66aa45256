"""New users: people who registered and opened an auction in the same window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.nexmark.model import Auction, Person
from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow.sinks import ParquetFileSink
from windrow.windows import TumblingEventTimeWindows

SIZE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Row:
    id: int
    name: str
    window_start: int


def new_sellers(persons: Sequence[Person], auctions: Sequence[Auction]) -> list[Row]:
    """Each person once, however many auctions there are."""
    return [Row(p.id, p.name, p.date_time - p.date_time % SIZE_MS) for p in persons] if auctions else []


def query(streams: Streams, out: Path) -> Pipeline:
    rows = (
        streams.persons.co_group(streams.auctions)
        .where(lambda p: p.id)
        .equal_to(lambda a: a.seller)
        .window(TumblingEventTimeWindows.of(timedelta(milliseconds=SIZE_MS)))
        .apply(new_sellers)
    )
    return Pipeline("q8", rows.sink_to(ParquetFileSink(out)))
