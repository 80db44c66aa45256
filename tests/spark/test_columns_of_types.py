"""Decimals, dates and time spans on their way from files through columns on Spark into files."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.spark.comparison import millis
from tests.spark.timed import timed
from windrow import Pipeline, from_source
from windrow import aggregates as agg
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.spark import SparkRunner
from windrow_spark.spark_schema import spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACES = Decimal(1).scaleb(-18)


class Trip(NamedTuple):
    driver: str
    at: int
    fare: Decimal
    took: timedelta | None
    day: date


class Fares(NamedTuple):
    driver: str
    start: int
    fares: Decimal | None
    took: timedelta | None
    latest: date | None


def trip(number: int) -> Trip:
    fare = (Decimal(number * 10**15) / 8 - 7).quantize(PLACES, context=Context(prec=40))
    took = None if number % 5 == 0 else timedelta(days=number - 30, microseconds=number)
    return Trip("ab"[number % 2], number * 10, fare, took, date(1999, 12, 1) + timedelta(number))


def expected(trips: list[Trip]) -> list[Fares]:
    windows: defaultdict[tuple[str, int], list[Trip]] = defaultdict(list)
    for one in trips:
        windows[one.driver, one.at // 100 * 100].append(one)
    return [
        Fares(
            *window,
            # 28 digits are not enough for some.
            Decimal(sum(int(one.fare.scaleb(18, Context(prec=60))) for one in held)).scaleb(-18, Context(prec=60)),
            sum((one.took for one in held if one.took is not None), timedelta()),
            max(one.day for one in held),
        )
        for window, held in windows.items()
    ]


def test_sums_of_decimals_and_time_spans(spark: SparkSession, tmp_path: Path) -> None:
    trips = list(map(trip, range(60)))
    # Only Spark itself notes in a file which numbers are time spans.
    frame = spark.createDataFrame(trips, spark_ddl(record_type(Trip))).coalesce(1)
    frame.write.parquet(str(tmp_path / "in"))
    fares = (
        timed(from_source(ParquetFileSource(str(tmp_path / "in"), Trip)))
        .key_by(lambda t: t.driver)
        .window(TumblingEventTimeWindows.of(millis(100)))
        .aggregate(
            agg.into(
                Fares,
                driver=agg.key(),
                start=agg.window_start(),
                fares=agg.sum(lambda t: t.fare),
                took=agg.sum(lambda t: t.took),
                latest=agg.max(lambda t: t.day),
            )
        )
    )
    sink = CollectSink[Fares]()
    files = ParquetFileSink[Fares](str(tmp_path / "out"))
    pipeline = Pipeline("fares", fares.sink_to(sink), fares.sink_to(files))
    runner = SparkRunner(spark)
    assert "runs as columns, partially aggregated before the exchange" in pipeline.explain(runner)
    wanted = sorted(map(repr, expected(trips)))
    assert sorted(map(repr, runner.run_batch(pipeline).collected(sink))) == wanted
    read = spark.read.parquet(str(tmp_path / "out")).select(*Fares._fields).collect()
    assert sorted(repr(Fares(*row)) for row in read) == wanted
