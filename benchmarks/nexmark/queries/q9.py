"""Winning bids: each auction with the highest bid while it was open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.winning import Winner, winning_bids
from windrow import Pipeline
from windrow.sinks import ParquetFileSink


@dataclass(frozen=True, slots=True)
class Row:
    id: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: int
    expires: int
    seller: int
    category: int
    extra: str
    auction: int
    bidder: int
    price: int
    bid_date_time: int
    bid_extra: str


def row(winner: Winner) -> Row:
    a, b = winner.auction, winner.bid
    return Row(
        id=a.id,
        item_name=a.item_name,
        description=a.description,
        initial_bid=a.initial_bid,
        reserve=a.reserve,
        date_time=a.date_time,
        expires=a.expires,
        seller=a.seller,
        category=a.category,
        extra=a.extra,
        auction=b.auction,
        bidder=b.bidder,
        price=b.price,
        bid_date_time=b.date_time,
        bid_extra=b.extra,
    )


def query(streams: Streams, out: Path) -> Pipeline:
    return Pipeline("q9", winning_bids(streams).map(row).sink_to(ParquetFileSink(out)))
