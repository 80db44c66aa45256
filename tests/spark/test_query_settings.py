"""Settings that a query has for itself, and that the session does not keep."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.spark.comparison import millis
from windrow import Pipeline, WatermarkStrategy, from_collection, from_dataframe, from_source
from windrow.errors import CheckpointError
from windrow.sinks import CollectSink, WriterSink
from windrow.sources import JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner
from windrow_spark.run import query
from windrow_spark.session import (
    FEW_ROWS_SETTINGS,
    MOUNTED_SETTINGS,
    QUERY_SETTINGS,
    SHUFFLE_PARTITIONS,
    settings_during,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

CHANGES = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def run(spark: SparkSession, folder: Path) -> list[str]:
    """Runs a query; gives the kinds of files that its state has."""
    stamped = from_collection([1, 2, 30]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda number: number
    )
    windows = stamped.key_by(lambda number: number % 2).window(TumblingEventTimeWindows.of(millis(10)))
    pipeline = Pipeline("settings", windows.reduce(lambda a, b: a + b).sink_to(CollectSink[int]()))
    SparkRunner(spark, checkpoint=folder, partitions=3).run(pipeline, drain=False)
    return sorted({file.suffix for file in folder.glob("spark/state/0/*/*") if file.is_file()})


def test_a_batch_writes_what_changed_and_the_session_stays_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    before = {name: spark.conf.get(name, None) for name in (*QUERY_SETTINGS, *MOUNTED_SETTINGS, SHUFFLE_PARTITIONS)}
    assert ".changelog" in run(spark, tmp_path)
    assert {name: spark.conf.get(name, None) for name in before} == before
    assert before[CHANGES] is None


class Reading(NamedTuple):
    key: str
    at: datetime


# What a user may have, and windrow's queries must not.
OWN = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "77",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


@pytest.fixture
def own_settings(spark: SparkSession) -> Iterator[dict[str, str]]:
    before = {name: spark.conf.get(name, None) for name in OWN}
    for name, value in OWN.items():
        spark.conf.set(name, value)
    spark.conf.unset(CHANGES)
    yield dict(spark.conf.getAll)
    for name, earlier in before.items():
        if earlier is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, earlier)


def test_every_way_to_run_leaves_the_session_as_it_was(
    spark: SparkSession, tmp_path: Path, own_settings: dict[str, str]
) -> None:
    at = datetime(2024, 3, 10, 7, 30, tzinfo=UTC)  # an hour that New York's clocks have not
    # Spark's own clock stands still unless a batch without rows follows: the window of 7:30 is due behind 8:30.
    rows = [("a", at), ("a", at + timedelta(minutes=1)), ("b", at + timedelta(hours=1))]
    frame = spark.createDataFrame(rows, "key string, at timestamp")
    latest = (
        from_dataframe(frame, Reading)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda reading: reading.at
        )
        .key_by(lambda reading: reading.key)
        .window(TumblingEventTimeWindows.of(timedelta(minutes=10)))
        .reduce(lambda a, b: b)
    )
    sink = CollectSink[Reading]()
    pipeline = Pipeline("own", latest.sink_to(sink))
    due, everything = [Reading(*rows[1])], [Reading(*rows[1]), Reading(*rows[2])]

    result = SparkRunner(spark, checkpoint=tmp_path / "run", partitions=3).run(pipeline, drain=False)
    assert result.collected(sink) == due
    assert len(list((tmp_path / "run/spark/state/0").glob("[0-9]*"))) == 3
    assert dict(spark.conf.getAll) == own_settings

    running = SparkRunner(spark, checkpoint=tmp_path / "start", partitions=3).start(pipeline)
    assert dict(spark.conf.getAll) == own_settings
    assert running.streaming_query.id in {query.id for query in spark.streams.active}
    running.stop()

    assert sorted(SparkRunner(spark, partitions=3).run_batch(pipeline).collected(sink)) == everything
    static = SparkRunner(spark, partitions=7).to_dataframe(latest, batch=True)
    assert sorted(Reading(row["key"], row["at"].astimezone(UTC)) for row in static.collect()) == everything
    assert dict(spark.conf.getAll) == own_settings

    folder = str(tmp_path / "frame")
    stream = SparkRunner(spark, checkpoint=folder, partitions=7).to_dataframe(latest)
    assert dict(spark.conf.getAll) == own_settings
    writer = stream.writeStream.format("parquet").option("checkpointLocation", folder)
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    found = [row["at"].astimezone(UTC) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert found == [rows[1][1]]
    assert len(list((tmp_path / "frame/state/0").glob("[0-9]*"))) == 7
    # The query was the user's, and Spark's part of its checkpoint is lost.
    (tmp_path / "frame/offsets/0").unlink()
    with pytest.raises(CheckpointError, match="the checkpoint is damaged"):
        SparkRunner(spark, checkpoint=folder).to_dataframe(latest)


class Number(NamedTuple):
    number: int


def written(frame: DataFrame) -> DataStreamWriter:
    return frame.writeStream.format("noop")


@pytest.mark.parametrize("case", ["workers read and write", "Spark reads", "Spark writes"])
def test_spark_makes_no_code_where_it_handles_no_record(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    given: list[dict[str, str]] = []

    def noted(
        session: SparkSession, settings: Mapping[str, str], defaults: Mapping[str, str]
    ) -> AbstractContextManager[None]:
        given.append(dict(defaults))
        return settings_during(session, settings, defaults)

    monkeypatch.setattr(query, "settings_during", noted)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "numbers.json").write_text('{"number": 1}\n')
    files = from_source(JsonFileSource(tmp_path / "in", Number))
    numbers = from_dataframe(spark.createDataFrame([(1,)], "number long"), Number) if case == "Spark reads" else files
    sink = WriterSink[Number](written) if case == "Spark writes" else CollectSink[Number]()
    SparkRunner(spark, checkpoint=tmp_path / "run").run(Pipeline("code", numbers.sink_to(sink)))
    assert [FEW_ROWS_SETTINGS.items() <= defaults.items() for defaults in given] == [case == "workers read and write"]
    assert [spark.conf.get(name, None) for name in FEW_ROWS_SETTINGS] == [None, None]


def test_threads_change_a_session_one_after_the_other(spark: SparkSession) -> None:
    #  first   sets 3 ---------------- puts 2 back
    #  second          waits                        sets 5 - puts 2 back
    inside, seen = threading.Event(), []

    def second() -> None:
        inside.wait(60)
        with settings_during(spark, {SHUFFLE_PARTITIONS: "5"}):
            seen.append(spark.conf.get(SHUFFLE_PARTITIONS))

    with ThreadPoolExecutor(1) as thread:
        with settings_during(spark, {SHUFFLE_PARTITIONS: "3"}):
            other = thread.submit(second)
            inside.set()
            assert wait([other], timeout=0.2).not_done
            assert spark.conf.get(SHUFFLE_PARTITIONS) == "3"
        other.result(60)
    assert (seen, spark.conf.get(SHUFFLE_PARTITIONS)) == (["5"], "2")


def test_what_the_user_sets_meanwhile_stays(spark: SparkSession) -> None:
    with settings_during(spark, {SHUFFLE_PARTITIONS: "3"}):
        spark.conf.set(SHUFFLE_PARTITIONS, "4")
    assert spark.conf.get(SHUFFLE_PARTITIONS) == "4"
    spark.conf.set(SHUFFLE_PARTITIONS, "2")


def test_what_the_session_says_counts(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: spark.conf.unset(CHANGES))
    spark.conf.set(CHANGES, "false")
    assert ".changelog" not in run(spark, tmp_path)
    assert spark.conf.get(CHANGES) == "false"
