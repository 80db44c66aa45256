"""Nexmark in native Spark SQL, as a streaming query in append mode: what a query of Spark's own can say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  its usual name

from benchmarks.nexmark.measuring.native_joins import expanded, local_items, mean_of_winners, new_users, winners
from benchmarks.nexmark.measuring.native_statistics import by_auction, by_channel, by_day
from benchmarks.nexmark.measuring.tables import Tables

__all__ = ["NATIVE", "NOT_NATIVE", "NativeQuery"]

_EUROS: Final = "0.908D * price"  # a double, not a decimal
_BID: Final = ("auction", "bidder", "price", "channel", "url", "date_time", "extra")


@dataclass(frozen=True, slots=True)
class NativeQuery:
    """A query of Spark's own.

    Attributes:
        build: Makes the result.
        has_windows: Whether it has windows, which Spark closes when the watermark passes them: the last ones need an
            event behind the end of the data.
        folders: The columns by which results lie in folders.
    """

    build: Callable[[Tables], DataFrame]
    has_windows: bool = False
    folders: tuple[str, ...] = ()


def _bids(tables: Tables) -> DataFrame:
    return tables.bids.select("auction", "bidder", "price", "date_time", "extra")


def _in_euros(tables: Tables) -> DataFrame:
    return tables.bids.select("auction", "bidder", F.expr(_EUROS).alias("price"), "date_time", "extra")


def _selected(tables: Tables) -> DataFrame:
    return tables.bids.where("auction % 123 = 0").select("auction", "price")


def _millis(time: str) -> Column:
    return F.unix_millis(F.col(time))


def _hot_items(tables: Tables) -> DataFrame:
    """Two aggregations: counts, then all auctions with the highest of a window, which come in one batch."""
    counts = tables.timed(tables.bids).groupBy(F.window("time", "10 seconds", "2 seconds"), "auction").count()
    of_windows = counts.groupBy("window").agg(
        F.max("count").alias("num"), F.collect_list(F.struct("auction", "count")).alias("all")
    )
    hottest = F.filter("all", lambda each: each["count"] == F.col("num"))
    return of_windows.select("window", "num", F.explode(hottest).alias("hot")).select(
        "hot.auction", "num", _millis("window.start").alias("window_start"), _millis("window.end").alias("window_end")
    )


def _highest_bids(tables: Tables) -> DataFrame:
    """All bids of a window in a list: of aggregates that keep the highest one, none keeps all that are as high."""
    columns = ("auction", "bidder", "price", "date_time", "extra")
    windows = tables.timed(tables.bids).groupBy(F.window("time", "10 seconds"))
    found = windows.agg(F.max("price").alias("highest"), F.collect_list(F.struct(*columns)).alias("all"))
    highest = F.filter("all", lambda each: each["price"] == F.col("highest"))
    return found.select(F.explode(highest).alias("bid")).select("bid.*")


def _by_minute(tables: Tables) -> DataFrame:
    time = F.timestamp_millis("date_time")
    of_folders = F.date_format(time, "yyyy-MM-dd").alias("dt"), F.date_format(time, "HH:mm").alias("hm")
    return tables.bids.select("auction", "bidder", "price", "date_time", "extra", *of_folders)


def _sessions(tables: Tables) -> DataFrame:
    return _counts(tables, F.session_window("time", "10 seconds"), "session_window")


def _in_windows(tables: Tables) -> DataFrame:
    return _counts(tables, F.window("time", "10 seconds"), "window")


def _counts(tables: Tables, window: Column, name: str) -> DataFrame:
    counts = tables.timed(tables.bids).groupBy(window, "bidder").agg(F.count("*").alias("bid_count"))
    start, end = _millis(f"{name}.start").alias("window_start"), _millis(f"{name}.end").alias("window_end")
    return counts.select("bidder", "bid_count", start, end)


def _with_side_input(tables: Tables) -> DataFrame:
    both = tables.bids.join(F.broadcast(tables.side_input), F.expr("auction % 10000 = key"))
    return both.select("auction", "bidder", "price", "date_time", "value")


def _calculated(tables: Tables) -> DataFrame:
    hour = F.hour(F.timestamp_millis("date_time"))
    kind = F.when(hour.between(8, 18), "dayTime").when((hour <= 6) | (hour >= 20), "nightTime").otherwise("otherTime")
    letters = F.length("extra") - F.length(F.replace("extra", F.lit("c"), F.lit("")))
    return tables.bids.where(f"{_EUROS} > 1000000 AND {_EUROS} < 50000000").select(
        "auction",
        "bidder",
        F.expr(_EUROS).alias("price"),
        kind.alias("bid_time_type"),
        "date_time",
        "extra",
        letters.alias("c_counts"),
    )


def _all_times() -> Column:
    """A window that holds all times of the data: the end of the input closes it."""
    return F.window("time", "36500 days")


def _last_bids(tables: Tables) -> DataFrame:
    place = F.struct(
        (-F.col("date_time")).alias("latest"), (-F.col("price")).alias("highest"), "channel", "url", "extra"
    )
    last = tables.timed(tables.bids).groupBy(_all_times(), "bidder", "auction").agg(F.min(place).alias("last"))
    price, time = (-F.col("last.highest")).alias("price"), (-F.col("last.latest")).alias("date_time")
    return last.select("auction", "bidder", price, "last.channel", "last.url", time, "last.extra")


def _top_ten(tables: Tables) -> DataFrame:
    others = "date_time", "bidder", "channel", "url", "extra"
    place = F.struct((-F.col("price")).alias("highest"), *others)
    groups = tables.timed(tables.bids).groupBy(_all_times(), "auction")
    top = groups.agg(F.min_by(place, place, 10).alias("top"))
    ranked = top.select("auction", F.posexplode("top").alias("place", "bid"))
    columns = {"price": -F.col("bid.highest"), **{name: F.col(f"bid.{name}") for name in others}}
    values = [columns.get(name, F.col(name)).alias(name) for name in _BID]
    return ranked.select(*values, (F.col("place") + 1).alias("rank_number"))


def _channel_ids(tables: Tables) -> DataFrame:
    channel = F.lower("channel")
    number = (
        F.when(channel == "apple", "0")
        .when(channel == "google", "1")
        .when(channel == "facebook", "2")
        .when(channel == "baidu", "3")
        .when(F.contains("url", F.lit("&channel_id=")), F.regexp_extract("url", "&channel_id=([^&]*)", 1))
    )
    found = tables.bids.select("auction", "bidder", "price", "channel", number.alias("channel_id"))
    return found.where("channel_id IS NOT NULL")


def _folders(tables: Tables) -> DataFrame:
    parts = F.split("url", "/")
    folders = [parts[place + 2].alias(f"dir{place}") for place in (1, 2, 3)]
    return tables.bids.select("auction", "bidder", "price", "channel", *folders)


NATIVE: Final[Mapping[str, NativeQuery]] = {
    "q0": NativeQuery(_bids),
    "q1": NativeQuery(_in_euros),
    "q2": NativeQuery(_selected),
    "q3": NativeQuery(local_items),
    "q4": NativeQuery(mean_of_winners, has_windows=True),
    "q5": NativeQuery(_hot_items, has_windows=True),
    "q7": NativeQuery(_highest_bids, has_windows=True),
    "q8": NativeQuery(new_users, has_windows=True),
    "q9": NativeQuery(winners, has_windows=True),
    "q10": NativeQuery(_by_minute, folders=("dt", "hm")),
    "q11": NativeQuery(_sessions, has_windows=True),
    "q12": NativeQuery(_in_windows, has_windows=True),
    "q13": NativeQuery(_with_side_input),
    "q14": NativeQuery(_calculated),
    "q15": NativeQuery(by_day, has_windows=True),
    "q16": NativeQuery(by_channel, has_windows=True),
    "q17": NativeQuery(by_auction, has_windows=True),
    "q18": NativeQuery(_last_bids, has_windows=True),
    "q19": NativeQuery(_top_ten, has_windows=True),
    "q20": NativeQuery(expanded),
    "q21": NativeQuery(_channel_ids),
    "q22": NativeQuery(_folders),
}
NOT_NATIVE: Final[Mapping[str, str]] = {
    "q6": "a mean over the last ten rows of a seller needs a window function, and Spark has none on streams"
}
