"""Highest bid: in tumbling windows, every bid with the highest price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.nexmark.model import Bid
from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow.functions import AggregateFunction
from windrow.sinks import ParquetFileSink
from windrow.windows import TimeWindow, TumblingEventTimeWindows


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: int
    date_time: int
    extra: str


class Highest(AggregateFunction[Bid, list[Row], list[Row]]):
    """Keeps the bids with the highest price so far."""

    def create_accumulator(self) -> list[Row]:
        return []

    def add(self, value: Bid, accumulator: list[Row]) -> list[Row]:
        row = Row(value.auction, value.bidder, value.price, value.date_time, value.extra)
        return highest([*accumulator, row]) if not accumulator or row.price >= accumulator[0].price else accumulator

    def merge(self, a: list[Row], b: list[Row]) -> list[Row]:
        return highest([*a, *b])

    def get_result(self, accumulator: list[Row]) -> list[Row]:
        return accumulator


def highest(rows: Sequence[Row]) -> list[Row]:
    """All rows with the highest price."""
    price = max((row.price for row in rows), default=0)
    return [row for row in rows if row.price == price]


def of_all(window: TimeWindow, found: Sequence[list[Row]]) -> list[Row]:
    """The rows with the highest price among those of all keys."""
    return highest([row for rows in found for row in rows])


def query(streams: Streams, out: Path) -> Pipeline:
    windows = TumblingEventTimeWindows.of(timedelta(seconds=10))
    of_keys = streams.bids.key_by(lambda b: b.auction % 64).window(windows).aggregate(Highest())
    return Pipeline("q7", of_keys.window_all(windows).apply(of_all).sink_to(ParquetFileSink(out)))
