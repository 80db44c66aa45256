"""Top ten: for each auction its highest bids, with their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from pathlib import Path

from benchmarks.nexmark.model import Bid
from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.winning import by_rank
from windrow import Pipeline
from windrow.functions import AggregateFunction
from windrow.sinks import ParquetFileSink
from windrow.windows import GlobalWindows


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: int
    extra: str
    rank_number: int


class TopTen(AggregateFunction[Bid, list[Bid], list[Bid]]):
    """Keeps the ten highest bids so far."""

    def create_accumulator(self) -> list[Bid]:
        return []

    def add(self, value: Bid, accumulator: list[Bid]) -> list[Bid]:
        return nsmallest(10, [*accumulator, value], key=by_rank)

    def merge(self, a: list[Bid], b: list[Bid]) -> list[Bid]:
        return nsmallest(10, [*a, *b], key=by_rank)

    def get_result(self, accumulator: list[Bid]) -> list[Bid]:
        return accumulator


def ranked(bids: Sequence[Bid]) -> list[Row]:
    """The bids with their places."""
    places = enumerate(bids, start=1)
    return [Row(b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, rank) for rank, b in places]


def query(streams: Streams, out: Path) -> Pipeline:
    top = (
        streams.bids.key_by(lambda b: b.auction)
        .window(GlobalWindows.create_with_end_of_stream_trigger())
        .aggregate(TopTen())
    )
    return Pipeline("q19", top.flat_map(ranked).sink_to(ParquetFileSink(out)))
