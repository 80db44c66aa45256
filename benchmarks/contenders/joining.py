"""Joins of two streams: each cold reading with the warm ones of its sensor that follow within 10 s."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  its usual name

from benchmarks.check import Outcome
from benchmarks.contenders.base import Contender, Job, read_input, run_query
from benchmarks.data import COLD, WARM
from benchmarks.problems import JOIN_MS
from benchmarks.readings import Reading, Warming
from benchmarks.tuning import tuned
from windrow import DataStream, KeyedStream, joins

__all__ = ["NativeJoin", "declared", "python"]

REACH = timedelta(milliseconds=JOIN_MS)


class NativeJoin(Contender):
    """The inner join of two streams by Spark SQL, with a watermark on each."""

    def __init__(self, *, has_settings: bool) -> None:
        self._has_settings = has_settings

    def run(self, job: Job) -> Outcome:
        with tuned(job.spark) if self._has_settings else nullcontext():
            cold, warm = _side(job, COLD), _side(job, WARM)
            follows = F.expr(f"warm_time >= cold_time AND warm_time <= cold_time + INTERVAL {JOIN_MS // 1_000} SECONDS")
            pairs = cold.join(warm, (F.col("cold_sensor") == F.col("warm_sensor")) & follows)
            results = pairs.select(
                F.col("cold_sensor").alias("sensor"),
                F.col("cold_at").alias("first_at"),
                F.col("warm_at").alias("last_at"),
                F.col("cold_celsius").alias("cold"),
                F.col("warm_celsius").alias("warm"),
            )
            return Outcome(run_query(results, job))


def _side(job: Job, name: str) -> DataFrame:
    readings = read_input(job, name)
    renamed = readings.select(*[F.col(column).alias(f"{name}_{column}") for column in readings.columns])
    return renamed.withColumn(f"{name}_time", F.timestamp_millis(f"{name}_at")).withWatermark(
        f"{name}_time", "1 second"
    )


def declared(cold: KeyedStream[Reading, str], warm: KeyedStream[Reading, str]) -> DataStream[Warming]:
    """An interval join whose result is declared."""
    return (
        cold.interval_join(warm)
        .between(timedelta(0), REACH)
        .apply(
            joins.into(
                Warming,
                sensor=joins.key(),
                first_at=joins.left(lambda r: r.at),
                last_at=joins.right(lambda r: r.at),
                cold=joins.left(lambda r: r.celsius),
                warm=joins.right(lambda r: r.celsius),
            )
        )
    )


def python(cold: KeyedStream[Reading, str], warm: KeyedStream[Reading, str]) -> DataStream[Warming]:
    """The same with a Python function."""
    return cold.interval_join(warm).between(timedelta(0), REACH).apply(_warming)


def _warming(cold: Reading, warm: Reading) -> Warming:
    return Warming(cold.sensor, cold.at, warm.at, cold.celsius, warm.celsius)
