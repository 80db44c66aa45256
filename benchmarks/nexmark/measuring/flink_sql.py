"""Nexmark in Flink SQL, in the words of Flink's own suite where these mean what NEXMARK.md says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["FLINK", "NOT_FLINK", "FlinkQuery", "source"]

_COLUMNS: Final = {
    "person": "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, "
    "date_time BIGINT, extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time BIGINT, "
    "expires BIGINT, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time BIGINT, extra STRING",
}


@dataclass(frozen=True, slots=True)
class FlinkQuery:
    """A query of Flink's.

    Attributes:
        sql: What gives the rows, with the columns of the answer in their order.
        updates: Whether it gives rows that later ones replace, in place of final ones.
    """

    sql: str
    updates: bool = False


def source(stream: str, path: str, disorder_ms: int) -> str:
    """The statement that makes the table of a stream, or of the side input, from files of text."""
    files = f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
    if stream == "side_input":
        # A version of each key that holds from the beginning of time.
        return (
            "CREATE TABLE side_input (`key` BIGINT, `value` STRING, since AS TO_TIMESTAMP_LTZ(0, 3), "
            f"WATERMARK FOR since AS since, PRIMARY KEY (`key`) NOT ENFORCED) {files}"
        )
    delay = f"INTERVAL '{disorder_ms / 1_000:.3f}' SECOND(3)"
    return (
        f"CREATE TABLE {stream} ({_COLUMNS[stream]}, ts AS TO_TIMESTAMP_LTZ(date_time, 3), "
        f"WATERMARK FOR ts AS ts - {delay}) {files}"
    )


def _tumbling(stream: str, size: str) -> str:
    return f"TABLE(TUMBLE(TABLE {stream}, DESCRIPTOR(ts), INTERVAL {size}))"


_TEN_SECONDS: Final = "'10' SECOND"
_COUNTS_OF_WINDOWS: Final = """
    SELECT auction, COUNT(*) AS num, window_start, window_end
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end"""
_RANKS: Final = {
    "total": "",
    "rank1": " FILTER (WHERE price < 10000)",
    "rank2": " FILTER (WHERE price >= 10000 AND price < 1000000)",
    "rank3": " FILTER (WHERE price >= 1000000)",
}
_BIDS: Final = ", ".join(f"COUNT(*){rank}" for rank in _RANKS.values())
_DISTINCT: Final = ", ".join(
    f"COUNT(DISTINCT {column}){rank}" for column in ("bidder", "auction") for rank in _RANKS.values()
)
_DAY: Final = "DATE_FORMAT(window_start, 'yyyy-MM-dd')"
_IN_DAYS: Final = _tumbling("bid", "'1' DAY")
_EUROS: Final = "CAST(0.908 AS DOUBLE) * price"
_WHILE_OPEN: Final = "a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires"
_ALL_OF_BID: Final = "auction, bidder, price, channel, url, date_time, extra"
_OF_AUCTION: Final = (
    "id",
    "item_name",
    "description",
    "initial_bid",
    "reserve",
    "date_time",
    "expires",
    "seller",
    "category",
    "extra",
)

FLINK: Final[Mapping[str, FlinkQuery]] = {
    "q0": FlinkQuery("SELECT auction, bidder, price, date_time, extra FROM bid"),
    "q1": FlinkQuery(f"SELECT auction, bidder, {_EUROS}, date_time, extra FROM bid"),
    "q2": FlinkQuery("SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0"),
    "q3": FlinkQuery(
        "SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id "
        "WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')"
    ),
    "q4": FlinkQuery(
        "SELECT category, AVG(CAST(final AS DOUBLE)) FROM ("
        f"SELECT MAX(b.price) AS final, a.category FROM auction AS a, bid AS b WHERE {_WHILE_OPEN} "
        "GROUP BY a.id, a.category) GROUP BY category",
        updates=True,
    ),
    "q5": FlinkQuery(
        "SELECT counts.auction, counts.num, counts.window_start, counts.window_end "
        f"FROM ({_COUNTS_OF_WINDOWS}) AS counts JOIN ("
        "SELECT MAX(num) AS most, window_start, window_end FROM "
        f"({_COUNTS_OF_WINDOWS}) GROUP BY window_start, window_end) AS tops "
        "ON counts.window_start = tops.window_start AND counts.window_end = tops.window_end "
        "AND counts.num = tops.most"
    ),
    "q7": FlinkQuery(
        "SELECT b.auction, b.bidder, b.price, b.date_time, b.extra "
        f"FROM (SELECT * FROM {_tumbling('bid', _TEN_SECONDS)}) AS b JOIN ("
        f"SELECT MAX(price) AS highest, window_start, window_end FROM {_tumbling('bid', _TEN_SECONDS)} "
        "GROUP BY window_start, window_end) AS tops "
        "ON b.window_start = tops.window_start AND b.window_end = tops.window_end AND b.price = tops.highest"
    ),
    "q8": FlinkQuery(
        "SELECT p.id, p.name, p.window_start FROM ("
        f"SELECT id, name, window_start, window_end FROM {_tumbling('person', _TEN_SECONDS)} "
        "GROUP BY id, name, window_start, window_end) AS p JOIN ("
        f"SELECT seller, window_start, window_end FROM {_tumbling('auction', _TEN_SECONDS)} "
        "GROUP BY seller, window_start, window_end) AS a "
        "ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end"
    ),
    "q9": FlinkQuery(
        f"SELECT {', '.join(_OF_AUCTION)}, auction, bidder, price, bid_date_time, bid_extra FROM ("
        f"SELECT {', '.join(f'a.{name}' for name in _OF_AUCTION)}, b.auction, b.bidder, b.price, "
        "b.date_time AS bid_date_time, b.extra AS bid_extra, ROW_NUMBER() OVER (PARTITION BY a.id "
        "ORDER BY b.price DESC, b.date_time, b.bidder, b.channel, b.url, b.extra) AS place "
        f"FROM auction AS a, bid AS b WHERE {_WHILE_OPEN}) WHERE place <= 1",
        updates=True,
    ),
    "q10": FlinkQuery(
        "SELECT auction, bidder, price, date_time, extra, DATE_FORMAT(ts, 'yyyy-MM-dd'), DATE_FORMAT(ts, 'HH:mm') "
        "FROM bid"
    ),
    "q11": FlinkQuery(
        "SELECT bidder, COUNT(*), window_start, window_end "
        "FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY bidder, window_start, window_end"
    ),
    "q12": FlinkQuery(
        f"SELECT bidder, COUNT(*), window_start, window_end FROM {_tumbling('bid', _TEN_SECONDS)} "
        "GROUP BY bidder, window_start, window_end"
    ),
    "q13": FlinkQuery(
        "SELECT b.auction, b.bidder, b.price, b.date_time, s.`value` "
        "FROM (SELECT *, MOD(auction, 10000) AS side FROM bid) AS b "
        "JOIN side_input FOR SYSTEM_TIME AS OF b.ts AS s ON b.side = s.`key`"
    ),
    "q14": FlinkQuery(
        f"SELECT auction, bidder, {_EUROS}, CASE "
        "WHEN MOD(date_time / 3600000, 24) BETWEEN 8 AND 18 THEN 'dayTime' "
        "WHEN MOD(date_time / 3600000, 24) <= 6 OR MOD(date_time / 3600000, 24) >= 20 THEN 'nightTime' "
        "ELSE 'otherTime' END, date_time, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) "
        f"FROM bid WHERE {_EUROS} > 1000000 AND {_EUROS} < 50000000"
    ),
    "q15": FlinkQuery(f"SELECT {_DAY}, {_BIDS}, {_DISTINCT} FROM {_IN_DAYS} GROUP BY window_start, window_end"),
    "q16": FlinkQuery(
        f"SELECT channel, {_DAY}, DATE_FORMAT(TO_TIMESTAMP_LTZ(MAX(date_time), 3), 'HH:mm'), {_BIDS}, {_DISTINCT} "
        f"FROM {_IN_DAYS} GROUP BY channel, window_start, window_end"
    ),
    "q17": FlinkQuery(
        f"SELECT auction, {_DAY}, {_BIDS}, MIN(price), MAX(price), AVG(CAST(price AS DOUBLE)), SUM(price) "
        f"FROM {_IN_DAYS} GROUP BY auction, window_start, window_end"
    ),
    "q18": FlinkQuery(
        f"SELECT {_ALL_OF_BID} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction "
        "ORDER BY date_time DESC, price DESC, channel, url, extra) AS place FROM bid) WHERE place <= 1",
        updates=True,
    ),
    "q19": FlinkQuery(
        f"SELECT {_ALL_OF_BID}, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction "
        "ORDER BY price DESC, date_time, bidder, channel, url, extra) AS place FROM bid) WHERE place <= 10",
        updates=True,
    ),
    "q20": FlinkQuery(
        "SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, a.item_name, a.description, "
        "a.initial_bid, a.reserve, a.date_time, a.expires, a.seller, a.category, a.extra "
        "FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10"
    ),
    "q21": FlinkQuery(
        "SELECT auction, bidder, price, channel, CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' "
        "WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' "
        "ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END FROM bid "
        "WHERE LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu') OR url LIKE '%&channel_id=%'"
    ),
    "q22": FlinkQuery(
        "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4), "
        "SPLIT_INDEX(url, '/', 5) FROM bid"
    ),
}
NOT_FLINK: Final[Mapping[str, str]] = {
    "q6": "an OVER window needs an order by time, and the stream that it would be over has updates"
}
