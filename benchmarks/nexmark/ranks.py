"""Counts of bids, of bidders and of auctions, in all and by the rank of the price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.nexmark.model import Bid
from windrow import aggregates as agg
from windrow.functions import AggregateFunction

__all__ = ["BidCounts", "Counts", "auctions", "bidders", "bids"]


@dataclass(frozen=True, slots=True)
class BidCounts:
    """How many bids there are, in all and by rank."""

    total_bids: int
    rank1_bids: int
    rank2_bids: int
    rank3_bids: int


@dataclass(frozen=True, slots=True)
class Counts(BidCounts):
    """The same of people who bid, and of auctions that they bid on."""

    total_bidders: int
    rank1_bidders: int
    rank2_bidders: int
    rank3_bidders: int
    total_auctions: int
    rank1_auctions: int
    rank2_auctions: int
    rank3_auctions: int


# Any in this module: accumulators and keys of every type.
Members = dict[str, AggregateFunction[Bid, Any, int, Any, Any]]

_RANKS: dict[str, Callable[[Bid], bool]] = {
    "rank1": lambda b: b.price < 10_000,
    "rank2": lambda b: 10_000 <= b.price < 1_000_000,
    "rank3": lambda b: b.price >= 1_000_000,
}


def bids() -> Members:
    """How many bids there are."""

    def counted(is_in: Callable[[Bid], bool]) -> AggregateFunction[Bid, Any, int, Any, Any]:
        return agg.sum(lambda b: int(is_in(b)))

    return {"total_bids": agg.count(), **{f"{rank}_bids": counted(is_in) for rank, is_in in _RANKS.items()}}


def bidders() -> Members:
    """How many people bid."""
    return _distinct("bidders", lambda b: b.bidder)


def auctions() -> Members:
    """How many auctions there are bids on."""
    return _distinct("auctions", lambda b: b.auction)


def _distinct(name: str, value: Callable[[Bid], int]) -> Members:
    def counted(is_in: Callable[[Bid], bool]) -> AggregateFunction[Bid, Any, int, Any, Any]:
        return agg.count_distinct(lambda b: value(b) if is_in(b) else None)

    of_ranks = {f"{rank}_{name}": counted(is_in) for rank, is_in in _RANKS.items()}
    return {f"total_{name}": agg.count_distinct(value), **of_ranks}
