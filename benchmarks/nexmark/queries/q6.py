"""Selling price by seller: at each closing auction, the mean price of the seller's last ten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.winning import Winner, winning_bids
from windrow import Pipeline
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.sinks import ParquetFileSink
from windrow.state import ListStateDescriptor


@dataclass(frozen=True, slots=True)
class Row:
    seller: int
    auction: int
    expires: int
    avg_price: float


class LastTen(KeyedProcessFunction[int, Winner, Row]):
    """Holds winners until the watermark has passed their time, so that those of one time go by their ids."""

    WAITING = ListStateDescriptor("waiting", tuple[int, int, int])
    PRICES = ListStateDescriptor("prices", int)

    def process_element(self, value: Winner, context: KeyedProcessContext[int]) -> Iterable[Row]:
        auction = value.auction
        context.get_state(self.WAITING).add((auction.expires, auction.id, value.bid.price))
        context.timer_service.register_event_time_timer(auction.expires)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[int]) -> Iterable[Row]:
        waiting, prices = context.get_state(self.WAITING), context.get_state(self.PRICES)
        held, last, rows = sorted(waiting.get()), list(prices.get()), []
        for expires, auction, price in held:
            if expires <= timestamp:
                last = [*last, price][-10:]
                rows.append(Row(context.key, auction, expires, sum(last) / len(last)))
        waiting.update([each for each in held if each[0] > timestamp])
        prices.update(last)
        return rows


def query(streams: Streams, out: Path) -> Pipeline:
    rows = winning_bids(streams).key_by(lambda w: w.auction.seller).process(LastTen())
    return Pipeline("q6", rows.sink_to(ParquetFileSink(out)))
