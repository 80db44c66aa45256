"""Queries over several streams in native Spark SQL."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  its usual name

from benchmarks.nexmark.measuring.tables import Tables

__all__ = ["expanded", "local_items", "mean_of_winners", "new_users", "winners"]

_AUCTION = (
    *("id", "item_name", "description", "initial_bid", "reserve", "date_time", "expires", "seller", "category"),
    "extra",
)


def local_items(tables: Tables) -> DataFrame:
    """An inner join without bounds: its state is never cleared."""
    auctions = tables.auctions.where("category = 10").select("id", "seller")
    people = tables.persons.where("state IN ('OR', 'ID', 'CA')").select(
        F.col("id").alias("person"), "name", "city", "state"
    )
    return auctions.join(people, F.col("seller") == F.col("person")).select("name", "city", "state", "id")


def expanded(tables: Tables) -> DataFrame:
    """An inner join without bounds."""
    auctions = tables.auctions.where("category = 10").select(
        *("id", "item_name", "description", "initial_bid", "reserve", "expires", "seller", "category"),
        F.col("date_time").alias("auction_date_time"),
        F.col("extra").alias("auction_extra"),
    )
    bids = tables.bids.withColumnsRenamed({"date_time": "bid_date_time", "extra": "bid_extra"})
    return bids.join(auctions, F.col("auction") == F.col("id")).drop("id")


def new_users(tables: Tables) -> DataFrame:
    """One aggregation of both streams, which is less work for Spark than a join whose rows it makes distinct."""
    people = tables.timed(tables.persons).select("time", "id", "name", F.lit(0).alias("auctions"))
    sellers = tables.timed(tables.auctions).select(
        "time", F.col("seller").alias("id"), F.lit(None).cast("string").alias("name"), F.lit(1).alias("auctions")
    )
    groups = people.union(sellers).groupBy(F.window("time", "10 seconds"), "id")
    found = groups.agg(F.max("name").alias("name"), F.max("auctions").alias("auctions"))
    both = found.where("name IS NOT NULL AND auctions = 1")
    return both.select("id", "name", F.unix_millis("window.start").alias("window_start"))


def _bids_while_open(tables: Tables, *columns: str) -> DataFrame:
    """Bids with their auctions.

    An auction's time is its end here, so that Spark knows when no bid can come for it any more, and the aggregation
    behind the join when an auction is complete.
    """
    longest = tables.data.manifest["max_auction_ms"]
    auctions = tables.timed(tables.auctions, "expires", delay_ms=longest).withColumnRenamed("time", "ends")
    bids = tables.timed(tables.bids).select("time", *[F.col(name).alias(f"bid_{name}") for name in tables.bids.columns])
    while_open = F.expr(
        f"bid_auction = id AND time <= ends AND time >= ends - INTERVAL {longest / 1_000:.3f} SECONDS "
        "AND bid_date_time >= date_time"
    )
    return auctions.select("ends", *columns).join(bids, while_open)


def winners(tables: Tables) -> DataFrame:
    """An interval join, and an aggregation by auction whose groups the ends of the auctions close."""
    place = F.struct(
        (-F.col("bid_price")).alias("highest"),
        *[f"bid_{name}" for name in ("date_time", "bidder", "channel", "url")],
        "bid_extra",
    )
    groups = _bids_while_open(tables, *_AUCTION).groupBy("ends", "id")
    others = [F.first(name).alias(name) for name in _AUCTION if name != "id"]
    found = groups.agg(F.min(place).alias("bid"), *others)
    return found.select(
        *_AUCTION,
        F.col("id").alias("auction"),
        F.col("bid.bid_bidder").alias("bidder"),
        (-F.col("bid.highest")).alias("price"),
        "bid.bid_date_time",
        "bid.bid_extra",
    )


def mean_of_winners(tables: Tables) -> DataFrame:
    """The same with the highest price alone, then a mean over a window that holds all times."""
    groups = _bids_while_open(tables, "id", "category", "date_time").groupBy("ends", "id", "category")
    closing = groups.agg(F.max("bid_price").alias("price"))
    means = closing.groupBy(F.window("ends", "36500 days"), "category").agg(F.avg("price").alias("avg_price"))
    return means.select("category", "avg_price")
