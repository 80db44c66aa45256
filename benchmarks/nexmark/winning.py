"""The highest bid of each auction while it was open, which three queries begin with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.nexmark.model import Auction, Bid
from benchmarks.nexmark.streams import Streams
from windrow import DataStream
from windrow.functions import KeyedCoProcessFunction, KeyedProcessContext, OnTimerContext
from windrow.state import ListStateDescriptor, ValueStateDescriptor

__all__ = ["Winner", "by_rank", "winning_bids"]


@dataclass(frozen=True, slots=True)
class Winner:
    auction: Auction
    bid: Bid


def by_rank(bid: Bid) -> tuple[int, int, int, str, str, str]:
    """Orders bids: the highest price first, then by the rule of ties."""
    return -bid.price, bid.date_time, bid.bidder, bid.channel, bid.url, bid.extra


class Winning(KeyedCoProcessFunction[int, Auction, Bid, Winner]):
    """Holds an auction and its highest bid until the watermark has passed the auction's end.

    A bid may come before its auction, and is held alone until the watermark reaches its time: an auction that was open
    then has come by then.
    """

    AUCTION = ValueStateDescriptor("auction", Auction)
    BEST = ValueStateDescriptor("best", Bid)
    EARLY = ListStateDescriptor("early", Bid)

    def process_element1(self, value: Auction, context: KeyedProcessContext[int]) -> Iterable[Winner]:
        context.get_state(self.AUCTION).update(value)
        early = context.get_state(self.EARLY)
        for bid in early.get():
            self._offer(value, bid, context)
        early.clear()
        context.timer_service.register_event_time_timer(value.expires)
        return ()

    def process_element2(self, value: Bid, context: KeyedProcessContext[int]) -> Iterable[Winner]:
        auction = context.get_state(self.AUCTION).value()
        if auction is not None:
            self._offer(auction, value, context)
        else:
            context.get_state(self.EARLY).add(value)
            context.timer_service.register_event_time_timer(value.date_time)
        return ()

    def _offer(self, auction: Auction, bid: Bid, context: KeyedProcessContext[int]) -> None:
        best = context.get_state(self.BEST)
        held = best.value()
        is_open = auction.date_time <= bid.date_time <= auction.expires
        if is_open and (held is None or by_rank(bid) < by_rank(held)):
            best.update(bid)

    def on_timer(self, timestamp: int, context: OnTimerContext[int]) -> Iterable[Winner]:
        auction, best = context.get_state(self.AUCTION), context.get_state(self.BEST)
        early = context.get_state(self.EARLY)
        early.update([bid for bid in early.get() if bid.date_time > context.timer_service.current_watermark])
        opened, bid = auction.value(), best.value()
        if opened is None or timestamp != opened.expires:
            return ()
        auction.clear()
        best.clear()
        return () if bid is None else (Winner(opened, bid),)


def winning_bids(streams: Streams) -> DataStream[Winner]:
    """The winners, each with the end of its auction as timestamp."""
    return streams.auctions.connect(streams.bids).key_by(lambda a: a.id, lambda b: b.auction).process(Winning())
