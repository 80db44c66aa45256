"""Native Spark SQL: everything on the JVM."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F  # noqa: N812  its usual name

from benchmarks.contenders.base import Contender, Job, read_input, run_query

__all__ = ["NativeTumblingMean"]


class NativeTumblingMean(Contender):
    """``groupBy(window, sensor).avg``."""

    def run(self, job: Job) -> Any:
        results = (
            read_input(job)
            .withColumn("event_time", F.timestamp_millis("at"))
            .withWatermark("event_time", "1 second")
            .groupBy(F.window("event_time", "5 seconds"), "sensor")
            .agg(F.avg("celsius").alias("mean"))
            .select("sensor", F.unix_millis("window.end").alias("window_end"), "mean")
        )
        return run_query(results, job)
