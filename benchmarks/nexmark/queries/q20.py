"""Expanded bids: bids on auctions of a category with the columns of the auction, whichever comes first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.meeting import Meeting
from benchmarks.nexmark.model import Auction, Bid
from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
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


class Expanded(Meeting[Auction, Bid, Row]):
    """Makes a row of an auction and a bid."""

    def row(self, one: Auction, many: Bid) -> Row:
        a, b = one, many
        of_bid = (b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra)
        return Row(
            *of_bid,
            a.item_name,
            a.description,
            a.initial_bid,
            a.reserve,
            a.date_time,
            a.expires,
            a.seller,
            a.category,
            a.extra,
        )


def query(streams: Streams, out: Path) -> Pipeline:
    auctions = streams.auctions.filter(lambda a: a.category == 10)
    rows = auctions.connect(streams.bids).key_by(lambda a: a.id, lambda b: b.auction).process(Expanded(Auction, Bid))
    return Pipeline("q20", rows.sink_to(ParquetFileSink(out)))
