"""Native Spark SQL: everything on the JVM."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  its usual name

__all__ = ["by_second", "chained", "late", "sessions", "sliding", "top", "tumbling"]


def tumbling(readings: DataFrame) -> DataFrame:
    """``groupBy(window, sensor).avg``."""
    return _means(readings, F.window("event_time", "5 seconds"))


def sliding(readings: DataFrame) -> DataFrame:
    """The same over windows that slide; Spark copies each row into all its windows."""
    return _means(readings, F.window("event_time", "60 seconds", "5 seconds"))


def by_second(readings: DataFrame) -> DataFrame:
    """The same over 1 s, of readings in the order of their time, for which no window waits."""
    return _means(readings, F.window("event_time", "1 second"), delay="0 seconds")


def _means(readings: DataFrame, window: Column, delay: str = "1 second") -> DataFrame:
    return (
        _with_time(readings, delay)
        .groupBy(window, "sensor")
        .agg(F.avg("celsius").alias("mean"))
        .select("sensor", F.unix_millis("window.end").alias("window_end"), "mean")
    )


def sessions(readings: DataFrame) -> DataFrame:
    """``session_window``."""
    return (
        _with_time(readings)
        .groupBy(F.session_window("event_time", "30 seconds"), "sensor")
        .agg(F.count("*").alias("n"), F.avg("celsius").alias("mean"))
        .select(
            "sensor",
            F.unix_millis("session_window.start").alias("first_at"),
            F.unix_millis("session_window.end").alias("window_end"),
            "n",
            "mean",
        )
    )


def late(readings: DataFrame) -> DataFrame:
    """Windows that wait for late readings, since Spark cannot fire twice, and come out once, 30 seconds later.

    What is too late for them is dropped, and Spark cannot give it.
    """
    return (
        _with_time(readings, delay="31 seconds")
        .groupBy(F.window("event_time", "5 seconds"), "sensor")
        .agg(F.count("*").alias("n"), F.avg("celsius").alias("mean"))
        .select("sensor", F.unix_millis("window.end").alias("window_end"), "n", "mean")
    )


def top(readings: DataFrame) -> DataFrame:
    """All values of a window in a list, sorted and cut when it fires."""
    values = F.sort_array(F.collect_list("celsius"), asc=False)
    return (
        _with_time(readings)
        .groupBy(F.window("event_time", "5 seconds"), "sensor")
        .agg(F.slice(values, 1, 3).alias("top"))
        .select("sensor", F.unix_millis("window.end").alias("window_end"), "top")
    )


def chained(readings: DataFrame) -> DataFrame:
    """Two aggregations; the time of the first's windows is that of the second's rows."""
    means = (
        _with_time(readings)
        .groupBy(F.window("event_time", "5 seconds"), "sensor")
        .agg(F.avg("celsius").alias("mean"))
        .select(F.window_time("window").alias("event_time"), "sensor", "mean")
    )
    return (
        means.groupBy(F.window("event_time", "60 seconds"), "sensor")
        .agg(F.max("mean").alias("peak"))
        .select("sensor", F.unix_millis("window.end").alias("window_end"), "peak")
    )


def _with_time(readings: DataFrame, delay: str = "1 second") -> DataFrame:
    return readings.withColumn("event_time", F.timestamp_millis("at")).withWatermark("event_time", delay)
