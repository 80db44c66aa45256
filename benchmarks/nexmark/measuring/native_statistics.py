"""Statistics by day in native Spark SQL."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  its usual name

from benchmarks.nexmark.measuring.tables import Tables

__all__ = ["by_auction", "by_channel", "by_day"]

_RANK: Final = "CASE WHEN price < 10000 THEN 1 WHEN price < 1000000 THEN 2 ELSE 3 END"
_RANKS: Final = (1, 2, 3)


def _day() -> Column:
    return F.date_format("window.start", "yyyy-MM-dd").alias("day")


def _bids() -> list[Column]:
    of_ranks = [F.count_if(F.expr(f"{_RANK} = {rank}")).alias(f"rank{rank}_bids") for rank in _RANKS]
    return [F.count("*").alias("total_bids"), *of_ranks]


def _sets() -> list[Column]:
    """Distinct people and auctions, each with the rank in its last two bits: two sets in place of eight.

    Spark refuses ``count(DISTINCT ...)`` on streams.
    """
    of = {"bidders": "bidder", "auctions": "auction"}
    return [F.expr(f"collect_set({column} * 4 + {_RANK})").alias(name) for name, column in of.items()]


def _distinct(name: str) -> list[Column]:
    ids = f"size(array_distinct(transform({name}, each -> each div 4))) AS total_{name}"
    of_ranks = [f"size(filter({name}, each -> each % 4 = {rank})) AS rank{rank}_{name}" for rank in _RANKS]
    return [F.expr(text) for text in (ids, *of_ranks)]


def _counts() -> list[Column]:
    bids = [F.col(f"{rank}_bids") for rank in ("total", "rank1", "rank2", "rank3")]
    return [*bids, *_distinct("bidders"), *_distinct("auctions")]


def by_day(tables: Tables) -> DataFrame:
    """For each day."""
    found = tables.timed(tables.bids).groupBy(F.window("time", "1 day")).agg(*_bids(), *_sets())
    return found.select(_day(), *_counts())


def by_channel(tables: Tables) -> DataFrame:
    """For each channel and day."""
    groups = tables.timed(tables.bids).groupBy(F.window("time", "1 day"), "channel")
    found = groups.agg(F.max("date_time").alias("latest"), *_bids(), *_sets())
    minute = F.date_format(F.timestamp_millis("latest"), "HH:mm").alias("minute")
    return found.select("channel", _day(), minute, *_counts())


def by_auction(tables: Tables) -> DataFrame:
    """For each auction and day."""
    prices = [
        *(F.min("price").alias("min_price"), F.max("price").alias("max_price")),
        *(F.avg("price").alias("avg_price"), F.sum("price").alias("sum_price")),
    ]
    groups = tables.timed(tables.bids).groupBy(F.window("time", "1 day"), "auction")
    names = [*(f"{rank}_bids" for rank in ("total", "rank1", "rank2", "rank3")), "min_price", "max_price"]
    return groups.agg(*_bids(), *prices).select("auction", _day(), *names, "avg_price", "sum_price")
