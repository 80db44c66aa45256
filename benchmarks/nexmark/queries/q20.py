"""Expanded bids: bids on auctions of a category with the columns of the auction, whichever comes first."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.times import ALL_TIME
from windrow import Pipeline, joins
from windrow.sinks import ParquetFileSink


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    bid_date_time: int
    bid_extra: str
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    auction_date_time: int
    expires: int
    seller: int
    category: int
    auction_extra: str


def query(streams: Streams, out: Path) -> Pipeline:
    auctions = streams.auctions.filter(lambda a: a.category == 10)
    rows = (
        auctions.key_by(lambda a: a.id)
        .interval_join(streams.bids.key_by(lambda b: b.auction))
        .between(-ALL_TIME, ALL_TIME)
        .apply(
            joins.into(
                Row,
                *[joins.right(attrgetter(name)) for name in ("auction", "bidder", "price", "channel", "url")],
                *[joins.right(attrgetter(name)) for name in ("date_time", "extra")],
                *[joins.left(attrgetter(name)) for name in ("item_name", "description", "initial_bid", "reserve")],
                *[joins.left(attrgetter(name)) for name in ("date_time", "expires", "seller", "category", "extra")],
            )
        )
    )
    return Pipeline("q20", rows.sink_to(ParquetFileSink(out)))
